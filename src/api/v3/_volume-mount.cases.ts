import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

export const cases: AgreementCase[] = [
  accepts('a Secret', { secretName: 'db' }),
  accepts('a ConfigMap', { configMapName: 'site' }),
  accepts('every field', {
    uuid: '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a6b',
    secretName: 'Passwords of the plant / north',
    nodes: ['gw-1', '6f6f3f0a-4a7e-4c39-8c39-0b2f3f5e3f0a'],
  }),
  refuses('no source', {}),
  refuses('two sources', { secretName: 'db', configMapName: 'site' }),
  refuses('an empty source', { secretName: '' }),
  refuses('a source that is no text', { secretName: 7 }),
  refuses('a source with too long a name', { configMapName: 'a'.repeat(256) }),
  refuses('nodes that are no list', { secretName: 'db', nodes: 'gw-1' }),
  refuses('a uuid that is none', { uuid: 'db', secretName: 'db' }),
  refuses('an unknown field', { secretName: 'db', version: 3 }),
];
