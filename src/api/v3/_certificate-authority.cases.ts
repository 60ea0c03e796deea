import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

export const cases: AgreementCase[] = [
  accepts('nothing but its name', {}),
  accepts('a life in months', { type: 'self-signed', subject: 'Plant 3', expiration: 36 }),
  accepts('the Secret of another authority', { type: 'direct', secretName: 'Keys of the plant' }),
  accepts('every field', {
    uuid: '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a6c',
    type: 'k8s-secret',
    subject: 'Plant 3',
    expiration: 94_608_000_000,
    keyAlgorithm: 'RSA',
    secretName: 'db',
  }),
  refuses('a type that is none', { type: 'acme' }),
  refuses('a Secret of a self-signed authority', { type: 'self-signed', secretName: 'db' }),
  refuses('no Secret of a direct authority', { type: 'direct' }),
  refuses('an empty subject', { subject: '' }),
  refuses('a subject of more than 64 characters', { subject: 'a'.repeat(65) }),
  refuses('no life', { expiration: 0 }),
  refuses('a life of more than a hundred years', { expiration: 3_155_760_000_001 }),
  refuses('half a month', { expiration: 0.5 }),
  refuses('an algorithm in lower case', { keyAlgorithm: 'rsa' }),
  refuses('an unknown field', { validity: 3 }),
];
