import { describe, expect, test } from 'vitest';
import type { Service } from '../../../api/v3/service.ts';
import { type Change, keyOf } from '../../../kube/mod.ts';
import { serviceKind } from '../kinds/service.ts';
import { BridgePorts } from './bridge-ports.ts';

const make = (
  i: number,
  bridgePort?: number,
  createdAt = `2026-01-01T00:00:${String(i).padStart(2, '0')}Z`,
): Service => ({
  ...{ apiVersion: 'skerry.dev/v3', kind: 'Service' },
  metadata: { name: `s-${i}`, namespace: 'skerry', uid: `uid-${i}`, creationTimestamp: createdAt },
  spec: { type: 'cluster', resource: 'db', targetPort: 1 },
  ...(bridgePort !== undefined && { status: { observedGeneration: 1, bridgePort } }),
});

function setUp({
  first = 20_000,
  last = 20_009,
  stored = [],
}: {
  first?: number;
  last?: number;
  stored?: Service[];
} = {}) {
  const time = { now: 0 };
  const services = {
    byIndex: (index: 'bridgePort' | 'claimedPort', key: string) =>
      stored.filter((one) => [...serviceKind.indexes[index](one)].includes(key)),
  };
  return { time, stored, ports: new BridgePorts({ first, last }, services, () => time.now) };
}
const change = (object: Service, previous?: Service, type: 'set' | 'delete' = 'set') =>
  ({ type, key: keyOf(object), object, previous, initial: false }) as Change<Service>;

describe('bridge ports', () => {
  test('are the lowest ones that are free, before statuses are written, and the same each time', () => {
    const { ports } = setUp();
    const all = Array.from({ length: 10 }, (_, i) => make(i));
    const given = all.map((one) => ports.grant(one));
    expect(given).toEqual(Array.from({ length: 10 }, (_, i) => 20_000 + i));
    expect(all.map((one) => ports.grant(one))).toEqual(given);
    expect(ports.grant(make(11))).toBeUndefined();
  });

  test.each([
    [5_671, 5_673, 5_673],
    [9_090, 9_091, 9_091],
    [45_671, 45_672, 45_672],
    [51_121, 51_124, 51_124],
    [54_321, 54_323, 54_323],
  ])('from %i to %i begin with %i, since the system has those before', (first, last, port) => {
    expect(setUp({ first, last }).ports.grant(make(1))).toBe(port);
  });

  test('stay with their service, also beyond a range that became another one', () => {
    const stored = [make(1, 30_000), make(2, 20_000)];
    const { ports } = setUp({ stored });
    expect(ports.grant(make(1, 30_000))).toBe(30_000);
    expect(ports.grant(make(3))).toBe(20_001);
  });

  test('stay with the older one of two services that have the same, whoever asks first', () => {
    const both = [make(1, 20_005), make(2, 20_005)];
    for (const order of [both, both.toReversed()]) {
      const { ports } = setUp({ stored: both });
      const given = new Map(order.map((one) => [one.metadata.name, ports.grant(one)]));
      expect(Object.fromEntries(given)).toEqual({ 's-1': 20_005, 's-2': 20_000 });
    }
    expect(setUp({ stored: both }).ports.affected(change(both[1] as Service, make(2)))).toEqual(both.map(keyOf));
  });

  test('belong to nobody for ten minutes after their service was deleted, and then to the service that waits', () => {
    const { ports, stored, time } = setUp({ last: 20_000, stored: [make(1, 20_000)] });
    expect(ports.grant(make(2))).toBeUndefined();
    stored.length = 0;
    expect(ports.affected(change(make(1, 20_000), undefined, 'delete'))).toEqual([keyOf(make(2))]);
    expect(ports.grant(make(2))).toBeUndefined();
    expect(ports.nextAt).toBe(600_000);
    time.now = 600_000;
    expect(ports.grant(make(2))).toBe(20_000);
  });

  test('lead to four waiting services at a time', () => {
    const { ports } = setUp({ last: 20_000, stored: [make(1, 20_000)] });
    for (let i = 10; i < 30; i++) ports.grant(make(i));
    expect(ports.affected(change(make(1, 20_001), make(1, 20_000)))).toHaveLength(4);
    expect(ports.affected(change(make(1, 20_000), make(1, 20_000)))).toEqual([]);
  });

  test('return after a restore without statuses, also while their former owner counts as deleted, and are given to no other', () => {
    const restored = (i: number, port: number) => {
      const service = make(i);
      return { ...service, metadata: { ...service.metadata, labels: { 'skerry.dev/bridge-port': String(port) } } };
    };
    const [one, two, copy] = [restored(1, 20_001), restored(2, 20_000), restored(4, 20_001)];
    const { ports } = setUp({ stored: [one, two, copy] });
    ports.affected(change(make(1, 20_001), undefined, 'delete'));
    expect(ports.grant(make(3))).toBe(20_002);
    expect([one, two, copy].map((service) => ports.grant(service))).toEqual([20_001, 20_000, 20_003]);
  });
});
