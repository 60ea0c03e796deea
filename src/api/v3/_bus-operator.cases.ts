import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

export const cases: AgreementCase[] = [
  accepts('an operator as it is made', {}),
  accepts('every field', { uuid: '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a70', rotation: 3 }),
  refuses('a rotation below 0', { rotation: -1 }),
  refuses('a rotation in text', { rotation: '1' }),
  refuses('a seed', { seed: 'SO' }),
];
