import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

export const cases: AgreementCase[] = [
  accepts('a handler', { handler: 'crun' }),
  accepts('every field', {
    uuid: '0b2f3f5e-3f0a-4a7e-9c39-6f6f3f0a4a7e',
    handler: 'io.containerd.wasmtime.v1',
    nodes: ['gw-1', '6f6f3f0a-4a7e-4c39-8c39-0b2f3f5e3f0a'],
  }),
  refuses('no handler', {}),
  refuses('an empty handler', { handler: '' }),
  refuses('a handler with capital letters', { handler: 'Crun' }),
  refuses('a handler with a space', { handler: 'c run' }),
  refuses('a handler that is too long', { handler: 'a'.repeat(254) }),
  refuses('a uuid that is none', { handler: 'crun', uuid: 'x' }),
  refuses('nodes that are no list', { handler: 'crun', nodes: 'gw-1' }),
  refuses('an empty node', { handler: 'crun', nodes: [''] }),
  refuses('an unknown field', { handler: 'crun', scheduling: {} }),
];
