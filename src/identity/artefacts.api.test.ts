import { randomUUID } from 'node:crypto';
import { expect, inject, test } from 'vitest';
import { LABELS } from '../api/names.ts';
import { CORE_RESOURCES, type Secret } from '../api/resources.ts';
import { connect, createFixture, createProxied } from '../kube/_api-server.ts';
import { loadConfig } from '../kube/_fault-proxy.ts';
import { silentLog } from '../lib/log.ts';
import { createArtefacts } from './artefacts.ts';
import { createOnce } from './once.ts';
import { sweepOnce } from './sweep.ts';

/** What counts once, on a real API server: two replicas, which share nothing but the server. */

const signal = () => AbortSignal.timeout(30_000);
const open = () => connect(() => loadConfig(inject('kubeconfig')));
const twenty = <T>(ask: (replica: 0 | 1) => Promise<T>) =>
  Promise.all(Array.from({ length: 20 }, (_, index) => ask((index % 2) as 0 | 1)));
const trues = (results: readonly boolean[]) => results.filter(Boolean).length;
const seconds = () => Math.floor(Date.now() / 1_000);

async function startReplicas({ now = Date.now, notBefore = 0 }: { now?: () => number; notBefore?: number } = {}) {
  const clients = [open(), open()] as const;
  const { namespace } = await createFixture(clients[0]);
  const of = (index: 0 | 1) => ({ client: clients[index], namespace, now });
  const more = { notBefore: () => notBefore, interactions: () => 0 };
  return {
    client: clients[0],
    namespace,
    artefacts: [createArtefacts({ ...of(0), ...more }), createArtefacts({ ...of(1), ...more })] as const,
    once: [createOnce(of(0)), createOnce(of(1))] as const,
  };
}

const secretsOf = async ({ client, namespace }: { client: ReturnType<typeof open>; namespace: string }) =>
  (await client.list<Secret>(CORE_RESOURCES.secrets, { namespace, labelSelector: LABELS.identity })).items;

test('a code that 20 requests redeem at once at two replicas is redeemed by exactly one', async () => {
  const { artefacts } = await startReplicas();
  for (let round = 0; round < 5; round++) {
    const id = randomUUID();
    await artefacts[0].write('AuthorizationCode', id, { iat: seconds(), exp: seconds() + 60, grantId: 'g' }, 60, 'new');
    expect(trues(await twenty((replica) => artefacts[replica].consume('AuthorizationCode', id)))).toBe(1);
    expect((await artefacts[1].read('AuthorizationCode', id))?.payload.consumed).toBeTypeOf('number');
  }
});

test('a value that 20 requests take at once at two replicas is taken by exactly one, for each purpose', async () => {
  const { once } = await startReplicas();
  const value = randomUUID();
  for (const purpose of ['state', 'broker', 'reset'] as const) {
    const soon = Date.now() + 60_000;
    expect(trues(await twenty((replica) => once[replica].take(purpose, value, soon, signal())))).toBe(1);
  }
  expect(await once[0].take('state', randomUUID(), Date.now() - 1, signal())).toBe(false);
});

test('a code counts at most once although the answer of the API server is lost', async () => {
  const { fixture, proxy, client } = await createProxied();
  const of = { namespace: fixture.namespace, now: Date.now, notBefore: () => 0, interactions: () => 0 };
  const [cut, other] = [createArtefacts({ ...of, client }), createArtefacts({ ...of, client: fixture.client })];
  const once = createOnce({ client, namespace: fixture.namespace, now: Date.now });
  await other.write('AuthorizationCode', 'code', { iat: seconds(), exp: seconds() + 60 }, 60, 'new');
  proxy.inject(({ method }) => method === 'PUT', { instead: (response) => response.destroy() }, 1);
  await expect(cut.consume('AuthorizationCode', 'code')).rejects.toThrow();
  expect(await cut.consume('AuthorizationCode', 'code')).toBe(false);
  expect(await other.consume('AuthorizationCode', 'code')).toBe(false);

  proxy.inject(({ method }) => method === 'POST', { instead: (response) => response.destroy() }, 1);
  const soon = Date.now() + 60_000;
  await expect(once.take('state', 'lost', soon, signal())).rejects.toThrow();
  expect(await once.take('state', 'lost', soon, signal())).toBe(false);
});

test('the second of two writes on condition of one version is lost', async () => {
  const { artefacts } = await startReplicas();
  expect(await artefacts[0].write('Interaction', 'uid', { exp: 1 }, 60, 'new')).toBe('written');
  expect(await artefacts[1].write('Interaction', 'uid', { exp: 2 }, 60, 'new')).toBe('lost');
  const found = await artefacts[1].read('Interaction', 'uid');
  expect(found?.payload).toEqual({ exp: 1 });
  const version = String(found?.version);
  expect(await artefacts[0].write('Interaction', 'uid', { exp: 3 }, 60, { version })).toBe('written');
  expect(await artefacts[1].write('Interaction', 'uid', { exp: 4 }, 60, { version })).toBe('lost');
  expect(await artefacts[1].write('Interaction', 'uid', { exp: 5 }, 60)).toBe('written');
  expect((await artefacts[0].read('Interaction', 'uid'))?.payload).toEqual({ exp: 5 });
});

test('no Secret of a login names a credential in its metadata, and each says what it is of', async () => {
  const replicas = await startReplicas();
  const { artefacts, once } = replicas;
  const payload = { iat: seconds(), exp: seconds() + 60, grantId: 'the-grant', accountId: 'the-user' };
  await artefacts[0].write('AuthorizationCode', 'the-code', payload, 60, 'new');
  await once[0].take('state', 'the-state', Date.now() + 60_000, signal());
  const secrets = await secretsOf(replicas);
  expect(secrets.map(({ metadata }) => metadata.labels?.[LABELS.identity]).sort()).toEqual(['artefact', 'once']);
  for (const { metadata } of secrets) {
    const { managedFields: _, ...shown } = metadata;
    expect(JSON.stringify(shown)).not.toMatch(/the-(code|grant|user|state)/);
  }
});

test('the artefacts of a grant and of a user are removed together, and no others', async () => {
  const { artefacts } = await startReplicas();
  const write = (model: string, id: string, payload: object) => artefacts[0].write(model, id, payload, 60, 'new');
  await write('AuthorizationCode', 'a', { grantId: 'one', accountId: 'ann' });
  await write('AccessToken', 'b', { grantId: 'one', accountId: 'ann' });
  await write('Session', 'c', { accountId: 'ann' });
  await write('Interaction', 'd', {});
  await write('AccessToken', 'e', { grantId: 'two', accountId: 'bob' });
  const left = async () => {
    const all = [
      ['AuthorizationCode', 'a'],
      ['AccessToken', 'b'],
      ['Session', 'c'],
      ['Interaction', 'd'],
      ['AccessToken', 'e'],
    ] as const;
    const found = await Promise.all(all.map(async ([model, id]) => ((await artefacts[1].read(model, id)) ? id : '')));
    return found.join('');
  };
  await artefacts[0].ofGrant('one');
  expect(await left()).toBe('cde');
  await artefacts[0].ofAccount('ann');
  expect(await left()).toBe('de');
});

test('an artefact is void at its end, and everything before a restore is', async () => {
  const replicas = await startReplicas();
  await replicas.artefacts[0].write('Session', 'short', { iat: seconds() }, 0, 'new');
  expect(await replicas.artefacts[0].read('Session', 'short')).toBeUndefined();
  const restored = createArtefacts({
    client: replicas.client,
    namespace: replicas.namespace,
    now: Date.now,
    notBefore: () => Date.now(),
    interactions: () => 0,
  });
  await replicas.artefacts[0].write('AuthorizationCode', 'old', { iat: seconds() - 10 }, 60, 'new');
  expect(await restored.read('AuthorizationCode', 'old')).toBeUndefined();
  expect(await restored.consume('AuthorizationCode', 'old')).toBe(false);
});

test('a Secret that somebody has damaged is no artefact', async () => {
  const { artefacts, client, namespace } = await startReplicas();
  await artefacts[0].write('Session', 'id', { iat: 1 }, 60, 'new');
  const [secret] = await secretsOf({ client, namespace });
  await client.replace(CORE_RESOURCES.secrets, {
    ...(secret as Secret),
    data: { payload: Buffer.from('[').toString('base64') },
  });
  expect(await artefacts[1].read('Session', 'id')).toBeUndefined();
});

test('the sweep removes what has expired, and leaves the rest and other Secrets', async () => {
  let now = Date.now();
  const replicas = await startReplicas({ now: () => now });
  const { artefacts, once, client, namespace } = replicas;
  await artefacts[0].write('Session', 'long', { iat: 1 }, 86_400, 'new');
  await artefacts[0].write('Session', 'short', { iat: 1 }, 1, 'new');
  await once[0].take('state', 'value', now + 1_000, signal());
  await client.create(CORE_RESOURCES.secrets, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'user', namespace, labels: { [LABELS.identity]: 'user' } },
  });
  const clock = { now: () => now, wall: () => now, after: () => () => {} };
  const sweep = () => sweepOnce({ client, namespace, clock, log: silentLog }, signal());
  expect(await sweep()).toBe(0);
  now += 600_000;
  expect(await sweep()).toBe(2);
  expect(await secretsOf(replicas)).toHaveLength(2);
});
