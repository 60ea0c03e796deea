import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

const account = 'shop';
const microserviceUuid = '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a72';

export const cases: AgreementCase[] = [
  accepts('a user', { account }),
  accepts('a user with any name', { account, name: 'Pump 7 / Süd' }),
  accepts('a user of MQTT that expires', { account, isBearer: true, expiresAt: '2030-01-31T12:00:00Z' }),
  accepts('a user of a microservice', { account, name: 'pump', rule: 'readers', microserviceUuid }),
  accepts('a user of a leaf server', { account, name: 'leaf-gw', node: 'gw' }),
  accepts('every field', {
    name: 'pump',
    uuid: '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a73',
    id: 4712,
    account,
    rule: 'readers',
    isBearer: false,
    expiresAt: '2030-01-31T12:00:00.5Z',
  }),
  refuses('no account', { name: 'pump' }),
  refuses('a day as its end', { account, expiresAt: '2030-01-31' }),
  refuses('an end in another zone', { account, expiresAt: '2030-01-31T12:00:00+01:00' }),
  refuses('a microservice that expires', { account, microserviceUuid, expiresAt: '2030-01-31T12:00:00Z' }),
  refuses('a microservice by name', { account, microserviceUuid: 'pump' }),
  refuses('an empty name', { account, name: '' }),
  refuses('a token', { account, jwt: 'e30.e30.' }),
];
