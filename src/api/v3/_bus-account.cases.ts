import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

export const cases: AgreementCase[] = [
  accepts('an account of an application', { application: 'shop' }),
  accepts('an account with a rule', { application: 'shop', rule: 'Small, for tests' }),
  accepts('an account of the system', { name: 'SYS', system: 'system' }),
  accepts('every field', {
    name: 'SYS-leaf-gw 7',
    uuid: '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a71',
    id: 4711,
    busAccess: true,
    rule: 'default-system-account',
    endedKey: `A${'B2'.repeat(27)}C`,
    system: 'leaf',
    node: 'gw 7',
  }),
  refuses('neither application nor system', { name: 'shop' }),
  refuses('application and system', { application: 'shop', system: 'system' }),
  refuses('another account of the system', { name: 'SYS', system: 'hub' }),
  refuses('an application that no application can be called', { application: 'Shop 1' }),
  refuses('an empty rule', { application: 'shop', rule: '' }),
  refuses('the key of a user as a former key', { application: 'shop', endedKey: `U${'B2'.repeat(27)}C` }),
  refuses('a key', { application: 'shop', publicKey: 'A' }),
];
