import { expect, test } from 'vitest';
import { createVirtualClock } from '../kube/_util.ts';
import { LEASES, type Lease } from '../kube/mod.ts';
import { systemClock } from '../lib/clock.ts';
import { startTestCluster } from '../rest/_cluster.ts';
import { REPLICA_TIMES } from '../rules/replica.ts';
import { createReplicas, listNews, replicaUuid, startHeartbeat } from './replicas.ts';

/** Replicas and their Leases on a real API server. */
const signal = AbortSignal.timeout(60_000);
const { kube: client, namespace } = await startTestCluster();

const uuid = (identity: string) => replicaUuid(namespace, identity);
const heartbeat = (identity: string, options = {}) =>
  startHeartbeat({ client, namespace, identity, host: '10.0.0.1', version: '1.2.3+build', ...options });
const find = (identity: string) => createReplicas({ client, namespace }).find(uuid(identity), signal);

test('each replica has a Lease, and one that ends is inactive at once', async () => {
  const replicas = createReplicas({ client, namespace });
  const [one, other] = [heartbeat('one'), heartbeat('other')];
  await expect.poll(async () => (await replicas.list(signal)).length).toBe(2);
  expect(await find('one')).toMatchObject({ host: '10.0.0.1', processId: process.pid, isActive: true });
  await one[Symbol.asyncDispose]();
  expect(await find('one')).toMatchObject({ isActive: false });
  expect(await find('other')).toMatchObject({ isActive: true });
  await other[Symbol.asyncDispose]();
});

test('a replica knows how many are active', async () => {
  const alone = startHeartbeat({ client, namespace, identity: 'counts', host: '10.0.0.1', version: '1.2.3' });
  await expect.poll(() => alone.active).toBeGreaterThan(0);
  const before = alone.active ?? 0;
  await using second = heartbeat('counts-second');
  await expect.poll(() => second.active).toBe(before + 1);
  await alone[Symbol.asyncDispose]();
  await using third = heartbeat('counts-third');
  await expect.poll(() => third.active).toBe(before + 1);
});

test('the Lease of a replica says how logins are, and shows a clock that is wrong', async () => {
  const login = () => ({ mode: 'embedded' as const, publicUrl: 'http://plant.example' });
  await using _ = heartbeat('news', { login });
  await using _late = heartbeat('late', { clock: { ...systemClock, wall: () => Date.now() - 60_000 } });
  const newsOf = async (identity: string) => {
    const news = await listNews({ client, namespace, clock: systemClock }, AbortSignal.timeout(10_000));
    return news.find((one) => one.identity === identity);
  };
  await expect.poll(() => newsOf('news')).toEqual({ identity: 'news', login: login() });
  await expect.poll(async () => (await newsOf('late'))?.skewSeconds).toBeLessThan(-55);
});

test('the Lease of a replica says its version and the release of the agent that it has for machines', async () => {
  const agentRelease = async () => '2.0.0';
  await using _ = heartbeat('versions', { agentRelease });
  await expect.poll(() => find('versions')).toMatchObject({ version: '1.2.3+build', agentRelease: '2.0.0' });
  const ref = { namespace, name: `skerry-replica-${uuid('versions')}` };
  const { metadata } = await client.get<Lease>(LEASES, ref, { signal });
  expect(metadata.labels).toMatchObject({ 'app.kubernetes.io/version': '1.2.3_build' });
});

test('a replica that starts again with its name is the same one, and keeps the host that a user gave it', async () => {
  const replicas = createReplicas({ client, namespace });
  await using first = heartbeat('pod');
  await expect.poll(() => find('pod')).toBeDefined();
  const before = await find('pod');
  expect(await replicas.setHost(uuid('pod'), 'a.example', signal)).toMatchObject({ host: 'a.example', isActive: true });
  await first[Symbol.asyncDispose]();
  await using _second = heartbeat('pod', { host: '10.0.0.2' });
  await expect.poll(async () => (await find('pod'))?.isActive).toBe(true);
  expect(await find('pod')).toMatchObject({ host: 'a.example', createdAt: before?.createdAt });
});

test('a replica that was marked inactive is active again after its next heartbeat, and costs one write each', async () => {
  const clock = createVirtualClock();
  const replicas = createReplicas({ client, namespace, clock });
  await using _ = heartbeat('marked', { clock });
  const now = () => replicas.find(uuid('marked'), signal);
  await expect.poll(now).toMatchObject({ isActive: true });
  for (let i = 0; i < 2; i++) expect(await replicas.deactivate(uuid('marked'), signal)).toBe(true);
  expect(await now()).toMatchObject({ isActive: false });
  await clock.advance(1.2 * REPLICA_TIMES.heartbeatMs, { timers: 1 });
  await expect.poll(now).toMatchObject({ isActive: true });
});

test('a replica whose heartbeats end without a word is inactive after three of them', async () => {
  const clock = createVirtualClock();
  const replicas = createReplicas({ client, namespace, clock });
  await expect.poll(async () => (await find('marked'))?.uuid).toBeDefined();
  const lease = await client.get<Lease>(LEASES, { namespace, name: `skerry-replica-${uuid('marked')}` });
  const renewTime = new Date(clock.wall() - REPLICA_TIMES.activeMs + 1_000).toISOString().replace('Z', '000Z');
  await client.replace(LEASES, { ...lease, spec: { ...lease.spec, holderIdentity: 'marked', renewTime } });
  expect(await replicas.find(uuid('marked'), signal)).toMatchObject({ isActive: true });
  await clock.advance(2_000, { timers: 0 });
  expect(await replicas.find(uuid('marked'), signal)).toMatchObject({ isActive: false });
});

test('old replicas are removed when a replica starts', async () => {
  const name = `skerry-replica-${uuid('old')}`;
  const metadata = { name, namespace, labels: { 'skerry.dev/replica': 'true' } };
  const renewTime = new Date(Date.now() - REPLICA_TIMES.keepMs - 1_000).toISOString().replace('Z', '000Z');
  await client.create<Lease>(LEASES, {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata,
    spec: { renewTime },
  });
  await using _ = heartbeat('cleaner');
  await expect.poll(() => client.find(LEASES, { namespace, name })).toBeUndefined();
});

test('no other Lease can be named or changed', async () => {
  const replicas = createReplicas({ client, namespace });
  for (const other of ['../skerry-controller', '', 'x'.repeat(36)]) {
    expect(await replicas.find(other, signal)).toBeUndefined();
    expect(await replicas.setHost(other, 'h', signal)).toBeUndefined();
    expect(await replicas.deactivate(other, signal)).toBe(false);
  }
});
