import { expect, test } from 'vitest';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { hubNode, hubOn } from './system-hub.ts';

const node = (name: string, spec: Partial<EdgeNode['spec']>, creationTimestamp = '2026-01-01T00:00:00Z'): EdgeNode => ({
  apiVersion: 'skerry.dev/v3',
  kind: 'EdgeNode',
  metadata: { name, namespace: 'plant', uid: name, creationTimestamp },
  spec: { arch: 'amd64', ...spec } as EdgeNode['spec'],
});
const hub = (spec: BusHub['spec'] = {}): Pick<BusHub, 'spec'> => ({ spec });

test('the oldest node of the system with an address is the hub', () => {
  const nodes = [
    node('younger', { isSystem: true, host: 'b.example' }, '2026-02-01T00:00:00Z'),
    node('plain', { host: 'c.example' }, '2025-01-01T00:00:00Z'),
    node('unreachable', { isSystem: true }, '2025-01-01T00:00:00Z'),
    node('older', { isSystem: true, host: 'a.example' }),
  ];
  expect(hubNode(nodes)?.metadata.name).toBe('older');
  expect(hubNode([])).toBeUndefined();
});

test('a hub without an address has the settings of its node, and one with an address its own', () => {
  const central = node('central', { isSystem: true, host: 'a.example', busLeafPort: 7000, jsStorageSize: '2g' });
  expect(hubOn(hub(), central).spec).toEqual({
    ...{ host: 'a.example', serverPort: 4222, leafPort: 7000, mqttPort: 8883, httpPort: 8222 },
    ...{ jsStorageSize: '2g', jsMemoryStoreSize: '1g' },
  });
  for (const own of [hub({ host: 'b.example' }), hub({ isExternal: true })]) expect(hubOn(own, central)).toBe(own);
  expect(hubOn(hub(), undefined)).toEqual(hub());
});
