import { expect, test } from 'vitest';
import type { EdgeNode } from '../api/v3/index.ts';
import { nodesOfAuthority, type PlatformPart } from './part.ts';

const node = (name: string, routerMode: 'edge' | 'none') =>
  ({ metadata: { name }, spec: { routerMode } }) as unknown as EdgeNode;
const nodes = [node('one', 'edge'), node('two', 'none'), node('three', 'edge')];
const part: PlatformPart = {
  condition: 'CertificatesReady',
  wants: ({ spec }) =>
    spec.routerMode === 'edge'
      ? { certificates: [{ name: 'server', authority: 'router-site-ca', hosts: [] }] }
      : undefined,
};
const facts = { hasDefaultRouter: false, isBusEnabled: false };

test.each([
  { what: 'An authority of the system', authority: 'router-site-ca', want: ['one', 'three'] },
  { what: 'An authority of the system that signs for no part', authority: 'bus-site-ca', want: [] },
  { what: 'An authority of a user', authority: 'shop', want: [] },
  { what: 'A Secret without an authority', authority: undefined, want: [] },
])('$what concerns the nodes $want', ({ authority, want }) => {
  const found = nodesOfAuthority(authority, () => nodes, { parts: [part], facts });
  expect(found.map(({ metadata }) => metadata.name)).toEqual(want);
});
