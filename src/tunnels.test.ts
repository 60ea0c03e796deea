import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { NAMESPACE, startInMemoryController } from '../testing/in-memory-controller.ts';
import { storedSecret } from '../testing/stored.ts';
import { ANNOTATIONS, LABELS } from './api/names.ts';
import type { EdgeNode } from './api/v3/index.ts';
import { nodeUuid } from './rules/identity.ts';

/** Tunnels of nodes, asked for over REST and with kubectl, in a range of five ports. */
const SIZE = 8;
const ENV = {
  TUNNEL_HOST: 'bastion.example:2222',
  TUNNEL_USERNAME: 'tunnel',
  TUNNEL_PORT_RANGE: '3000-3004',
  SKERRY_TUNNEL_SECRET: 'tunnels',
};
const fleet = await startInMemoryController(SIZE, { env: ENV });
afterAll(() => fleet[Symbol.asyncDispose]());

const WHOLE = { rsaKey: 'PRIVATE KEY', knownHosts: '[bastion.example]:2222 ssh-ed25519 AAAA' };
const secret = (data: Record<string, string>, labels: Record<string, string> = {}) =>
  storedSecret('tunnels', data, { namespace: NAMESPACE, labels });
const conditionOf = (i: number, type = 'TunnelFailed') =>
  fleet.node(i).status?.conditions?.find((condition) => condition.type === type);
const tunnelOf = (i: number) => fleet.node(i).status?.tunnel;
const uuidOf = (i: number) => nodeUuid(fleet.node(i));
const get = (i: number, token = 'admin') => fleet.request('GET', `/node/${uuidOf(i)}/tunnel`, { token });
const patch = (i: number, body: unknown) =>
  fleet.request('PATCH', `/node/${uuidOf(i)}/tunnel`, { token: 'admin', body });
const sent = (i: number) => fleet.desired(nodeUuid(fleet.node(i)))?.tunnel;

async function annotate(nodes: readonly number[], value: string | undefined) {
  for (const i of nodes)
    fleet.cluster.edit(fleet.node(i), ({ metadata }) => {
      const { [ANNOTATIONS.tunnel]: _, ...others } = metadata.annotations ?? {};
      metadata.annotations = { ...others, ...(value !== undefined && { [ANNOTATIONS.tunnel]: value }) };
    });
  await fleet.settle();
}
const ALL = Array.from({ length: SIZE }, (_, i) => i);

async function setSecret(next: ReturnType<typeof secret> | undefined) {
  const { secrets } = fleet.stores;
  if (secrets.get(NAMESPACE, 'tunnels'))
    await fleet.cluster.client.delete(secrets.resource, { name: 'tunnels', namespace: NAMESPACE });
  if (next) await fleet.cluster.client.create(secrets.resource, next);
  await fleet.settle();
}

beforeEach(async () => {
  // The status of each node may be written again.
  fleet.time.now += 20_000;
  for (let i = 0; i <= SIZE; i++) fleet.report(fleet.node(i));
  await setSecret(secret(WHOLE));
  await annotate(ALL, undefined);
});

describe('a tunnel over REST', () => {
  test('is opened, read and closed, and the node gets it with the key while it is open', async () => {
    expect(await get(0)).toMatchObject({ status: 404, body: { code: 'TUNNEL_NOT_FOUND' } });
    expect(await patch(0, { action: 'close' })).toMatchObject({ status: 404, body: { code: 'TUNNEL_NOT_FOUND' } });
    expect((await patch(0, { action: 'open' })).status).toBe(204);
    const read = { username: 'tunnel', host: 'bastion.example', localPort: 22 };
    expect((await get(0)).body).toMatchObject({ ...read, status: 'open' });
    await fleet.settle();
    const { remotePort } = tunnelOf(0) as { remotePort: number };
    expect((await get(0)).body).toEqual({ ...read, remotePort, status: 'open' });
    expect(sent(0)).toMatchObject({ remotePort, port: 2222, ...WHOLE, closed: false });
    expect((await patch(0, { action: 'close' })).status).toBe(204);
    await fleet.settle();
    expect((await get(0)).body).toEqual({ ...read, remotePort, status: 'closed' });
    expect(sent(0)).toMatchObject({ remotePort, rsaKey: '', closed: true });
    expect((await patch(0, { action: 'close' })).status).toBe(204);
  });

  test.each([[{}], [{ action: 'reopen' }], [{ action: ['open'] }], [[]], ['open']])('refuses %j', async (body) => {
    expect(await patch(1, body)).toMatchObject({
      status: 400,
      body: { code: 'INVALID_ACTION_PROPERTY', message: expect.stringMatching(/^action: /) },
    });
  });

  test.each<[string, ReturnType<typeof secret> | undefined]>([
    ['there is no Secret tunnels', undefined],
    ['the Secret tunnels is shareable', secret(WHOLE, { [LABELS.shareable]: 'true' })],
    ['the Secret tunnels has no knownHosts', secret({ rsaKey: 'k' })],
  ])('cannot be opened while %s', async (problem, given) => {
    await setSecret(given);
    expect(await patch(2, { action: 'open' })).toMatchObject({
      status: 400,
      body: { code: 'TUNNEL_NOT_CONFIGURED', message: expect.stringContaining(problem) },
    });
  });
});

describe('a tunnel with kubectl', () => {
  test('opens with the annotation and closes without it', async () => {
    await annotate([3], 'open');
    expect(tunnelOf(3)).toMatchObject({ state: 'open' });
    await annotate([3], undefined);
    expect(tunnelOf(3)).toMatchObject({ state: 'closed' });
  });

  test('is closed while its Secret lacks something, says so, and opens at once when the Secret is whole', async () => {
    await annotate([3], 'open');
    await setSecret(undefined);
    expect(conditionOf(3)).toMatchObject({
      ...{ status: 'True', reason: 'TunnelNotConfigured' },
      message: expect.stringContaining('there is no Secret tunnels'),
    });
    expect(sent(3)).toMatchObject({ closed: true, rsaKey: '' });
    await setSecret(secret({ ...WHOLE, rsaKey: 'NEXT' }));
    expect(conditionOf(3)).toBeUndefined();
    expect(sent(3)).toMatchObject({ closed: false, rsaKey: 'NEXT' });
    expect(JSON.stringify(fleet.node(3))).not.toContain('NEXT');
  });

  test('says that an annotation means nothing', async () => {
    await annotate([3], 'on');
    expect(conditionOf(3, 'ActionIgnored')).toMatchObject({
      ...{ reason: 'NotOpenOrClose' },
      message: 'skerry.dev/tunnel: "on"; must be open or close',
    });
    expect(tunnelOf(3)?.state).not.toBe('open');
  });
});

describe('the ports of tunnels', () => {
  const openAll = (nodes: readonly number[]) => annotate(nodes, 'open');
  const portsOf = (nodes: readonly number[]) =>
    nodes.flatMap((i) => (tunnelOf(i)?.state === 'open' ? [tunnelOf(i)?.remotePort] : []));

  test('are five different ones of eight nodes at once, also under the next leader, and the next node gets a freed one', async () => {
    await openAll(ALL);
    const given = portsOf(ALL);
    expect([...given].sort()).toEqual([3000, 3001, 3002, 3003, 3004]);
    const without = ALL.filter((i) => tunnelOf(i)?.state !== 'open');
    expect(without).toHaveLength(3);
    for (const i of without)
      expect(conditionOf(i)).toMatchObject({
        ...{ reason: 'TunnelPortsUsedUp' },
        message: expect.stringContaining('all ports from 3000 to 3004'),
      });
    await fleet.nextTerm();
    expect(portsOf(ALL)).toEqual(given);
    const [first = 0] = ALL.filter((i) => tunnelOf(i)?.state === 'open');
    await annotate([first], 'close');
    expect(portsOf(ALL)).toHaveLength(5);
    expect(new Set(portsOf(ALL)).size).toBe(5);
  });

  test('become different ones when a former leader gave one away twice', async () => {
    await openAll([0, 1]);
    const port = tunnelOf(0)?.remotePort as number;
    fleet.cluster.edit(fleet.node(1), ({ status }: EdgeNode) => {
      if (status) status.tunnel = { remotePort: port, state: 'open' };
    });
    await fleet.settle();
    expect(new Set(portsOf([0, 1])).size).toBe(2);
  });
});
