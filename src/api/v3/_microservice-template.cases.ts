import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

const microservice = { container: { env: [{ key: 'LOG', value: '{{ level }}' }] } };

export const cases: AgreementCase[] = [
  accepts('a microservice', { microservice }),
  accepts('every field', {
    description: 'What all readers have.',
    variables: [{ key: 'level', description: 'How much it says.', defaultValue: 'warn' }],
    microservice,
  }),
  accepts('a microservice in the flat form of REST', {
    microservice: { env: [{ key: 'A', value: 'b' }], registryId: '{{ id }}' },
  }),
  refuses('no microservice', {}),
  refuses('a microservice that is text', { microservice: '{{ all }}' }),
  refuses('a variable without a key', { microservice, variables: [{}] }),
  refuses('an unknown field', { microservice, application: {} }),
  refuses('a name in the spec', { microservice, name: 'base' }),
];
