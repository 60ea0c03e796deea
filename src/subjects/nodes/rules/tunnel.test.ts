import { describe, expect, test } from 'vitest';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { EdgeNode, EdgeNodeStatus } from '../../../api/v3/index.ts';
import type { TunnelServer, Tunnels } from '../../../rules/tunnel.ts';
import { makeNode, makeObservation } from '../_make.ts';
import { actionIgnored } from './actions.ts';
import {
  chooseTunnelPort,
  readTunnelStatus,
  tunnelFailed,
  tunnelPortOf,
  tunnelRead,
  tunnelStatus,
  tunnelView,
} from './tunnel.ts';

const RANGE = { first: 2000, last: 2999 };
const uuidOf = (i: number) => `22222222-2222-4222-8222-${String(i).padStart(12, '0')}`;
const open = { annotations: { [ANNOTATIONS.tunnel]: 'open' } };
const has = (remotePort: number, state: 'open' | 'closing' | 'closed' = 'open'): Partial<EdgeNodeStatus> => ({
  tunnel: { remotePort, state },
});
const node = (i: number, status?: Partial<EdgeNodeStatus>, more: object = open) =>
  makeNode({ name: `gw-${i}`, uuid: uuidOf(i), spec: { uuid: uuidOf(i) }, ...(status && { status }), ...more });

/** The statuses of nodes, as the index of the store has them; counts its look-ups. */
function owners(nodes: readonly EdgeNode[]) {
  const byPort = new Map<number, EdgeNode[]>();
  const add = (one: EdgeNode) => {
    const port = tunnelPortOf(one);
    if (port !== undefined) byPort.set(port, [...(byPort.get(port) ?? []), one]);
  };
  nodes.forEach(add);
  const counted = { lookUps: 0 };
  const given = {
    owners: (port: number) => {
      counted.lookUps++;
      return byPort.get(port) ?? [];
    },
    isReserved: () => false,
  };
  return { counted, given, add };
}

describe('the port of a tunnel', () => {
  test.each([10, 1000, 5000])(
    'takes two look-ups in the mean when %d nodes get one in a range of twice as many',
    (count) => {
      const range = { first: 2000, last: 2000 + 2 * count - 1 };
      const { counted, given, add } = owners([]);
      for (let i = 0; i < count; i++) add(node(i, has(chooseTunnelPort(node(i), range, given) as number)));
      expect(counted.lookUps).toBeLessThan(2 * count);
    },
  );

  test('is another one for each of as many nodes as the range has, and then there is none', () => {
    const range = { first: 2000, last: 2031 };
    const nodes: EdgeNode[] = [];
    for (let i = 0; i < 32; i++) {
      const port = chooseTunnelPort(node(i), range, owners(nodes).given);
      expect(port).toBeDefined();
      nodes.push(node(i, has(port as number)));
    }
    expect(new Set(nodes.map(tunnelPortOf)).size).toBe(32);
    expect(chooseTunnelPort(node(32), range, owners(nodes).given)).toBeUndefined();
  });

  test('stays while the tunnel is open, and is the former one again as long as that is free', () => {
    const mine = node(1, has(2500));
    expect(chooseTunnelPort(mine, RANGE, owners([mine]).given)).toBe(2500);
    const closed = node(1, has(2500, 'closed'));
    expect(chooseTunnelPort(closed, RANGE, owners([closed]).given)).toBe(2500);
    const other = node(2, has(2500));
    expect(chooseTunnelPort(closed, RANGE, owners([closed, other]).given)).not.toBe(2500);
  });

  test('is another one when the former one is outside the range, or reserved', () => {
    const mine = node(1, has(1500));
    const port = chooseTunnelPort(mine, RANGE, owners([mine]).given);
    expect(port).toBeGreaterThanOrEqual(2000);
    const closed = node(1, has(2500, 'closed'));
    const given = { ...owners([closed]).given, isReserved: (one: number) => one === 2500 };
    expect(chooseTunnelPort(closed, RANGE, given)).not.toBe(2500);
  });

  test('stays with the older of two nodes that a change of the leader gave the same', () => {
    const older = node(1, has(2500), { ...open, creationTimestamp: '2025-01-01T00:00:00Z' });
    const younger = node(2, has(2500));
    const { given } = owners([younger, older]);
    expect(chooseTunnelPort(older, RANGE, given)).toBe(2500);
    expect(chooseTunnelPort(younger, RANGE, given)).not.toBe(2500);
  });
});

const said = (tunnel?: object | string) =>
  makeObservation({
    agent: '1.0.0',
    report: {
      daemonStatus: 'RUNNING',
      ...(tunnel !== undefined && { tunnelStatus: typeof tunnel === 'string' ? tunnel : JSON.stringify(tunnel) }),
    },
  });
const OPEN = { status: 'open' };
const CLOSED = { status: 'closed' };
const stateOf = (of: EdgeNode, report?: object | string, rest: object = { port: 2001 }) =>
  tunnelStatus(of, { observation: said(report), ...rest });

describe('the status of a tunnel', () => {
  const asked = node(1, has(2001));
  const ended = (state: 'open' | 'closing' | 'closed') =>
    node(1, { ...has(2001, state), tunnelStatus: OPEN }, { annotations: { [ANNOTATIONS.tunnel]: 'close' } });
  test.each<[string, EdgeNode, object | string | undefined, object, object]>([
    [
      'has the port once it is asked for',
      node(1),
      undefined,
      { port: 2001 },
      { tunnel: { remotePort: 2001, state: 'open' } },
    ],
    ['has no port where none can be given', node(1), undefined, {}, { tunnel: undefined }],
    ['says what the machine says', asked, OPEN, { port: 2001 }, { tunnelStatus: OPEN }],
    [
      'is absent on a node that was never asked for one',
      node(1, undefined, {}),
      {},
      {},
      { tunnel: undefined, tunnelStatus: undefined },
    ],
    [
      'keeps the port until the machine has ended it',
      ended('open'),
      OPEN,
      {},
      { tunnel: { remotePort: 2001, state: 'closing' } },
    ],
    [
      'keeps the port while the machine is silent',
      ended('closing'),
      undefined,
      {},
      { tunnel: { remotePort: 2001, state: 'closing' } },
    ],
    [
      'frees the port once the machine has ended it',
      ended('closing'),
      CLOSED,
      {},
      { tunnel: { remotePort: 2001, state: 'closed' } },
    ],
    [
      'frees the port of an agent that says nothing of tunnels',
      ended('open'),
      '{}',
      {},
      { tunnel: { remotePort: 2001, state: 'closed' } },
    ],
    [
      'frees the port of a machine that gave up the identity',
      ended('open'),
      OPEN,
      { daemonStatus: 'DEPROVISIONED' },
      { tunnel: { remotePort: 2001, state: 'closed' }, tunnelStatus: undefined },
    ],
    [
      'ends with the node',
      node(1, has(2001), { ...open, deletionTimestamp: 'now' }),
      OPEN,
      {},
      { tunnel: { remotePort: 2001, state: 'closing' } },
    ],
  ])('%s', (_title, of, report, rest, want) => {
    expect(stateOf(of, report, rest)).toMatchObject(want);
  });

  test('stays closed whatever the machine says', () => {
    expect(stateOf(ended('closed'), OPEN, {}).tunnel?.state).toBe('closed');
  });
});

describe('what a machine says of its tunnel', () => {
  test.each<[string, string | undefined, object | undefined]>([
    [
      'is read from JSON text',
      '{"status":"failed","message":"no route","pid":4}',
      { status: 'failed', message: 'no route' },
    ],
    ['counts as nothing when it is empty', '{}', undefined],
    ['counts as nothing in a form of other agents', '{"state":"up"}', undefined],
    ['counts as nothing when it is no JSON', 'open', undefined],
    ['counts as nothing when it is null', 'null', undefined],
    ['counts as nothing when it is absent', undefined, undefined],
    [
      'has no control characters',
      JSON.stringify({ status: 'failed', message: 'a\u001b[2J\nb\u202ec' }),
      { status: 'failed', message: 'a [2J b c' },
    ],
    [
      'has 256 characters at most',
      JSON.stringify({ status: 'failed', message: 'x'.repeat(4000) }),
      { status: 'failed', message: 'x'.repeat(256) },
    ],
    ['has no message that is no text', '{"status":"open","message":{}}', { status: 'open' }],
    [
      'counts as nothing when it is nested deeply',
      `{"status":"open","message":${'['.repeat(500)}${']'.repeat(500)}}`,
      undefined,
    ],
  ])('%s', (_title, text, want) => {
    expect(readTunnelStatus(text)).toEqual(want);
  });
});

describe('the condition of a tunnel', () => {
  const status = (tunnel?: object) =>
    ({ observedGeneration: 1, ...(tunnel && { tunnelStatus: tunnel }) }) as EdgeNodeStatus;
  test('has the reason of the machine, and none while nobody asks', () => {
    const failed = status({ status: 'failed', message: 'install openssh-client' });
    expect(tunnelFailed(node(1), failed)).toEqual({
      ...{ status: 'True', reason: 'TunnelNotOpen' },
      message: 'the machine cannot open it: install openssh-client',
    });
    expect(tunnelFailed(node(1, undefined, {}), failed)).toBeUndefined();
    expect(tunnelFailed(node(1), status({ status: 'opening' }))).toBeUndefined();
    const problem = { reason: 'TunnelPortsUsedUp', message: 'all ports' } as const;
    expect(tunnelFailed(node(1), failed, { problem })).toMatchObject(problem);
  });

  test('names an annotation that asks for nothing, with what would', () => {
    const wrong = (text: string) => actionIgnored(node(1, undefined, { annotations: { [ANNOTATIONS.tunnel]: text } }));
    for (const right of ['open', 'close']) expect(wrong(right)).toBeUndefined();
    for (const text of ['Open', '', 'true', 'x'.repeat(1000)])
      expect(wrong(text)).toEqual({
        ...{ status: 'True', reason: 'NotOpenOrClose' },
        message: `skerry.dev/tunnel: ${JSON.stringify(text.slice(0, 64))}; must be open or close`,
      });
  });
});

const SERVER: TunnelServer = {
  ...{ host: 'bastion.example', port: 2222, username: 'tunnel', localPort: 22 },
  ...{ rsaKey: 'PRIVATE', password: '', knownHosts: 'HOSTS', identity: 'id-1' },
};
const tunnels = (server: Partial<TunnelServer> | { problem: string } = {}, settings: object = {}): Tunnels => ({
  settings: { host: 'bastion.example', port: 2222, username: 'tunnel', ports: RANGE, localPort: 22, ...settings },
  server: () => ('problem' in server ? (server as { problem: string }) : { ...SERVER, ...server }),
});

describe('the tunnel that a node gets', () => {
  const asked = node(1, has(2001));
  const view = (of: EdgeNode, given?: Tunnels) => tunnelView({ node: of, ...(given && { tunnels: given }) });

  test('has key, host keys and port while it is open', () => {
    expect(view(asked, tunnels()).tunnel).toEqual({
      ...{ host: 'bastion.example', port: 2222, username: 'tunnel', remotePort: 2001, localPort: 22 },
      ...{ rsaKey: 'PRIVATE', password: '', knownHosts: 'HOSTS', closed: false },
    });
  });

  test('is closed and has no key after a close, without a usable Secret, and on a node that is being deleted', () => {
    const closed = node(1, has(2001, 'closing'), { annotations: { [ANNOTATIONS.tunnel]: 'close' } });
    for (const [of, given] of [
      [closed, tunnels()],
      [asked, tunnels({ problem: 'no Secret' })],
      [node(1, has(2001), { ...open, deletionTimestamp: 'now' }), tunnels()],
    ] as const)
      expect(view(of, given).tunnel).toMatchObject({ closed: true, rsaKey: '', password: '', knownHosts: '' });
  });

  test('is absent before a port is given, and without an ssh server', () => {
    for (const each of [view(node(1), tunnels()), view(asked), view(node(1, undefined, {}), tunnels())])
      expect(each).toEqual({});
  });

  test('has another digest with another key, port, place or state, and no text of the key in it', () => {
    const digests = [
      view(asked, tunnels()),
      view(asked, tunnels({ identity: 'id-2' })),
      view(node(1, has(2002)), tunnels()),
      view(asked, tunnels({}, { host: 'other.example' })),
      view(asked, tunnels({}, { username: 'other' })),
      view(asked, tunnels({ problem: 'no Secret' })),
    ].map(({ digest }) => digest);
    expect(new Set(digests).size).toBe(digests.length);
    expect(view(asked, tunnels({ rsaKey: 'OTHER' })).digest).toBe(digests[0]);
  });
});

describe('the read of a tunnel', () => {
  const { settings } = tunnels();
  const read = { username: 'tunnel', host: 'bastion.example', localPort: 22 };
  test.each<[string, EdgeNode, object | undefined]>([
    ['has no port before the leader has given one', node(1), { ...read, remotePort: 0, status: 'open' }],
    ['is open with its port', node(1, has(2001)), { ...read, remotePort: 2001, status: 'open' }],
    [
      'is closed with the port that it had',
      node(1, has(2001, 'closed'), {}),
      { ...read, remotePort: 2001, status: 'closed' },
    ],
    [
      'has no port when it was asked for again and the port may be another one',
      node(1, has(2001, 'closed')),
      { ...read, remotePort: 0, status: 'open' },
    ],
    ['is absent on a node that never had one', node(1, undefined, {}), undefined],
  ])('%s', (_title, of, want) => {
    expect(tunnelRead(of, settings)).toEqual(want);
    expect(tunnelRead(of, undefined)).toBeUndefined();
  });
});
