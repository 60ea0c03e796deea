import { describe, expect, test } from 'vitest';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { type Change, keyOf } from '../../../kube/mod.ts';
import { makeNode } from '../_make.ts';
import { edgeNodeKind } from '../kinds/edge-node.ts';
import { TunnelPorts } from './tunnel-ports.ts';

const uuidOf = (i: number) => `22222222-2222-4222-8222-${String(i).padStart(12, '0')}`;
const nodeOf = (i: number, action: string | undefined, remotePort?: number): EdgeNode =>
  makeNode({
    ...{ name: `gw-${i}`, uuid: uuidOf(i), spec: { uuid: uuidOf(i) } },
    ...(action && { annotations: { [ANNOTATIONS.tunnel]: action } }),
    ...(remotePort !== undefined && { status: { tunnel: { remotePort, state: 'open' as const } } }),
  });

/** Ports from 3000 on, of nodes whose statuses are as stored. */
function setUp({ last, stored = [] }: { last: number; stored?: EdgeNode[] }) {
  const nodes = {
    byIndex: (index: 'tunnel' | 'tunnelPort', key: string) =>
      stored.filter((node) => [...edgeNodeKind.indexes[index](node)].includes(key)),
  };
  const settings = { host: 'h', port: 22, username: 'u', localPort: 22, ports: { first: 3000, last } };
  const server = () => ({ ...settings, rsaKey: 'k', password: '', knownHosts: 'h', identity: 'i' });
  return { stored, ports: new TunnelPorts({ settings, server }, nodes) };
}
const change = (object: EdgeNode, previous?: EdgeNode, type: 'set' | 'delete' = 'set') =>
  ({ type, key: keyOf(object), object, previous, initial: false }) as Change<EdgeNode>;

describe('the ports of tunnels', () => {
  test('are different ones of nodes whose statuses are not written yet, and the same one for each each time', () => {
    const { ports } = setUp({ last: 3009 });
    const all = Array.from({ length: 10 }, (_, i) => nodeOf(i, 'open'));
    const given = all.map((node) => ports.grant(node).port);
    expect(new Set(given).size).toBe(10);
    expect(all.map((node) => ports.grant(node).port)).toEqual(given);
    expect(ports.grant(nodeOf(11, 'open'))).toEqual({
      problem: expect.objectContaining({ reason: 'TunnelPortsUsedUp' }),
    });
  });

  test.each<[string, (ports: TunnelPorts, node: EdgeNode) => void]>([
    ['is deleted', (ports, node) => ports.forget(keyOf(node))],
    ['no longer wants one', (ports) => void ports.grant(nodeOf(1, 'close'))],
  ])('are free again when a node %s before its status is written', (_title, end) => {
    const { ports } = setUp({ last: 3000 });
    expect(ports.grant(nodeOf(1, 'open')).port).toBe(3000);
    expect(ports.grant(nodeOf(2, 'open')).port).toBeUndefined();
    end(ports, nodeOf(1, 'open'));
    expect(ports.grant(nodeOf(2, 'open')).port).toBe(3000);
  });

  test('belong to the statuses once these are written', () => {
    const { ports, stored } = setUp({ last: 3000 });
    ports.grant(nodeOf(1, 'open'));
    stored.push(nodeOf(1, 'open', 3000));
    expect(ports.grant(nodeOf(1, 'open', 3000)).port).toBe(3000);
    expect(ports.grant(nodeOf(2, 'open')).port).toBeUndefined();
    stored.length = 0;
    expect(ports.grant(nodeOf(2, 'open')).port).toBe(3000);
  });

  test('concern the nodes that wait, once one is free, by deletion or by a status', () => {
    const waiting = Array.from({ length: 20 }, (_, i) => nodeOf(100 + i, 'open'));
    const { ports } = setUp({ last: 3000, stored: waiting });
    const [had, has] = [nodeOf(1, 'open', 3000), nodeOf(1, 'close')];
    expect(ports.affected(change(has, had))).toHaveLength(4);
    expect(ports.affected(change(had, undefined, 'delete'))).toHaveLength(4);
    expect(ports.affected(change(had, had))).toEqual([]);
    expect(ports.affected(change(had, has))).toEqual([]);
  });

  test('are given only where there is an ssh server whose Secret is whole', () => {
    const nodes = { byIndex: () => [] };
    const problemOf = (tunnels: ConstructorParameters<typeof TunnelPorts>[0]) =>
      new TunnelPorts(tunnels, nodes).grant(nodeOf(1, 'open'));
    expect(problemOf(undefined)).toEqual({
      problem: { reason: 'TunnelNotConfigured', message: expect.stringContaining('TUNNEL_HOST') },
    });
    const settings = { host: 'h', port: 22, username: 'u', localPort: 22, ports: { first: 3000, last: 3000 } };
    expect(problemOf({ settings, server: () => ({ problem: 'there is no Secret ssh' }) })).toEqual({
      port: 3000,
      problem: { reason: 'TunnelNotConfigured', message: 'there is no Secret ssh' },
    });
  });

  test('concern both nodes that have the same one', () => {
    const both = [nodeOf(1, 'open', 3000), nodeOf(2, 'open', 3000)];
    const { ports } = setUp({ last: 3001, stored: both });
    const [older, younger] = both as [EdgeNode, EdgeNode];
    expect(ports.affected(change(younger, nodeOf(2, 'open')))).toEqual(both.map(keyOf));
    expect(ports.grant(older).port).toBe(3000);
    expect(ports.grant(younger).port).toBe(3001);
  });
});
