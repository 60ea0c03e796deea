import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

const application = { microservices: [{ name: 'm', agent: { name: '{{ node-name }}' }, images: { amd64: 'x:1' } }] };

export const cases: AgreementCase[] = [
  accepts('an application', { application }),
  accepts('every field', {
    name: 'line.a',
    id: 7,
    description: 'A line.',
    variables: [
      { key: 'node-name', description: 'Where it runs.' },
      { key: 'rate', defaultValue: 5 },
      { key: 'map', defaultValue: { a: [1, 'b', true] } },
    ],
    application,
  }),
  accepts('an application with any JSON', { application: { microservices: '{{ all }}', other: [1, { a: 'b' }] } }),
  accepts('an empty application', { application: {} }),
  refuses('no application', {}),
  refuses('an application that is text', { application: 'x' }),
  refuses('an application that is a list', { application: [] }),
  refuses('a variable without a key', { application, variables: [{ defaultValue: 1 }] }),
  refuses('a key with capital letters', { application, variables: [{ key: 'Rate' }] }),
  refuses('one key twice', { application, variables: [{ key: 'a' }, { key: 'a' }] }),
  refuses('variables that are a map', { application, variables: { a: 1 } }),
  refuses('a name with a space', { application, name: 'a b' }),
  refuses('an unknown field', { application, microservice: {} }),
];
