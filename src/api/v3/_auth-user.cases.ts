import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

export const cases: AgreementCase[] = [
  accepts('an e-mail address', { email: 'ann@example.com' }),
  accepts('a name without an @', { email: 'admin' }),
  accepts('every field', {
    uuid: '0b2f3f5e-3f0a-4a7e-9c39-6f6f3f0a4a7e',
    email: 'ann@example.com',
    groups: ['admin', 'plant-7'],
  }),
  refuses('no e-mail address', {}),
  refuses('an empty e-mail address', { email: '' }),
  refuses('an e-mail address with capital letters', { email: 'Ann@example.com' }),
  refuses('an e-mail address with a space', { email: 'ann smith@example.com' }),
  refuses('an e-mail address that is too long', { email: 'a'.repeat(255) }),
  refuses('groups that are no list', { email: 'a@b.c', groups: 'admin' }),
  refuses('a group with capital letters', { email: 'a@b.c', groups: ['Admin'] }),
  refuses('a password', { email: 'a@b.c', password: 'x' }),
  refuses('a uuid that is none', { email: 'a@b.c', uuid: 'x' }),
];
