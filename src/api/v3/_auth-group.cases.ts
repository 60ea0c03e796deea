import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

export const cases: AgreementCase[] = [
  accepts('nothing', {}),
  accepts('every field', { id: 7, name: 'plant-7', aliases: ['plant'], mfaRequired: true }),
  refuses('a name with capital letters', { name: 'Plant' }),
  refuses('an empty name', { name: '' }),
  refuses('a name that is too long', { name: 'a'.repeat(64) }),
  refuses('aliases that are no list', { aliases: 'plant' }),
  refuses('too many aliases', { aliases: Array.from({ length: 17 }, (_, n) => `a${n}`) }),
  refuses('a text for mfaRequired', { mfaRequired: 'yes' }),
  refuses('an unknown field', { members: [] }),
];
