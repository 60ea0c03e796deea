import { expect, test } from 'vitest';
import { hubServicePorts } from './hub-service.ts';

const PORTS = { first: 30_000, last: 32_767, below: 29_999, above: 32_768 };

test('a hub of the type NodePort is reached at its own ports, where nodes of the cluster can have them', () => {
  const at = hubServicePorts('NodePort', PORTS).map((port) => [port.name, port.port, port.nodePort]);
  expect(at).toEqual([
    ['first', 30_000, 30_000],
    ['last', 32_767, 32_767],
    ['below', 29_999, undefined],
    ['above', 32_768, undefined],
  ]);
});

test.each(['ClusterIP', 'LoadBalancer'] as const)(
  'a hub of the type %s names no ports of nodes of the cluster',
  (type) => {
    for (const port of hubServicePorts(type, PORTS)) expect(port).not.toHaveProperty('nodePort');
  },
);
