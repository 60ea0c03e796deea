import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { changed, storedApplication, storedNode } from '../../../testing/stored.ts';
import { systemClock } from '../../lib/clock.ts';
import { silentLog } from '../../lib/log.ts';
import { fill, keyOf, makeKey, makeToken, type Replica, type ReplicaOptions, startReplica } from '../_util.ts';

/** Tokens are valid from the second after the replicas started. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 1_100));

async function until(condition: () => boolean | Promise<boolean>, ms = 5_000) {
  const end = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error('it did not happen in time');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const node = storedNode('edge-1');
const key = makeKey();
const uuid = node.spec.uuid ?? '';
const application = storedApplication('shop', [{ name: 'web', agent: { name: 'edge-1' }, images: { amd64: 'web:1' } }]);

/** A replica in real time, with an internal address; `lead` and `follow` change who it thinks leads. */
async function replicaOf(options: ReplicaOptions = {}) {
  const replica = await startReplica(options);
  fill(replica.stores, { nodes: [node], applications: [application], secrets: [keyOf(node, key)] });
  const { port } = await replica.agents.internalServer.listen({ port: 0, host: '127.0.0.1' });
  return { ...replica, address: `127.0.0.1:${port}`, [Symbol.asyncDispose]: replica[Symbol.asyncDispose] };
}

function follow(replica: Replica, leader: { address: string } | undefined) {
  replica.leadership.isLeading = false;
  replica.leadership.leaderAddress = leader?.address;
}

const report = (replica: Replica, version: string) => replica.as(node, key, 'PUT', '/status', { body: { version } });
const versionAt = (replica: Replica) => replica.agents.observations.get(uuid)?.report.version;

test.concurrent('what a follower observes reaches the leader, merged, and the follower reads it back', async () => {
  await using leader = await replicaOf();
  await using follower = await replicaOf();
  follow(follower, leader);
  await settled();
  await report(follower, '1');
  await report(follower, '2');
  await until(() => versionAt(leader) === '2');
  expect(versionAt(follower)).toBeUndefined();
  const live = await follower.agents.currentValues.of([uuid, 'other'], AbortSignal.timeout(1_000));
  expect([...live].map(([one, { report }]) => [one, report.version])).toEqual([[uuid, '2']]);
});

test.concurrent('observations wait while there is no leader, and the next leader gets them', async () => {
  await using follower = await replicaOf();
  follow(follower, undefined);
  await settled();
  await report(follower, '1');
  await report(follower, '2');
  const live = await follower.agents.currentValues.of([uuid], AbortSignal.timeout(1_000));
  expect(live.get(uuid)).toMatchObject({ report: { version: '2' }, agent: '1.0.0' });
  await using leader = await replicaOf();
  follow(follower, leader);
  await until(() => versionAt(leader) === '2');
});

test.concurrent('a new leader gets all observations again, from followers and from the former leader', async () => {
  const first = await replicaOf();
  await using second = await replicaOf();
  await using follower = await replicaOf();
  follow(second, first);
  follow(follower, first);
  await settled();
  const other = storedNode('edge-2');
  const otherKey = makeKey();
  for (const replica of [first, second, follower]) {
    replica.stores.nodes.set(other);
    replica.stores.secrets.set(keyOf(other, otherKey));
  }
  await first.as(other, otherKey, 'PUT', '/status', { body: { version: 'told to the leader' } });
  await report(follower, 'told to a follower');
  await until(() => versionAt(first) === 'told to a follower');

  second.leadership.isLeading = true;
  follow(first, second);
  follow(follower, second);
  // Anything that is heard makes them look who leads.
  await first.as(other, otherKey, 'GET', '/config');
  await follower.as(other, otherKey, 'GET', '/config');
  await until(() => versionAt(second) === 'told to a follower');
  await until(() => second.agents.observations.get(other.spec.uuid ?? '')?.report.version === 'told to the leader');
  await first[Symbol.asyncDispose]();
});

test.concurrent('a follower that becomes the leader keeps what it observed', async () => {
  await using replica = await replicaOf();
  follow(replica, undefined);
  await settled();
  await report(replica, '1');
  expect(versionAt(replica)).toBeUndefined();
  replica.leadership.isLeading = true;
  await replica.as(node, key, 'GET', '/config');
  expect(versionAt(replica)).toBe('1');
});

test.concurrent('draining waits until the leader has all observations', async () => {
  await using leader = await replicaOf();
  await using follower = await replicaOf();
  follow(follower, leader);
  await settled();
  await report(follower, '1');
  await follower.agents.routes.drain(5_000);
  expect(versionAt(leader)).toBe('1');
});

// One that waited for a leader would never end.
test.concurrent('draining without a leader ends', async () => {
  await using follower = await replicaOf();
  follow(follower, undefined);
  await settled();
  await report(follower, '1');
  await follower.agents.routes.drain(300);
});

test.concurrent('a token that one replica accepted is refused by the others a moment later, between any two replicas', async () => {
  await using leader = await replicaOf();
  await using one = await replicaOf();
  await using two = await replicaOf();
  follow(one, leader);
  follow(two, leader);
  const stop = new AbortController();
  const sharing = [leader, one, two].map((replica) => replica.agents.run(stop.signal));
  await settled();
  const use = (replica: Replica, token: string) =>
    replica.call('GET', '/config', { headers: { authorization: `Bearer ${token}` } });
  for (const [at, others] of [
    [one, [leader, two]],
    [leader, [one, two]],
  ] as const) {
    const token = makeToken(uuid, key, Date.now());
    expect((await use(at, token)).status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, 700));
    for (const other of others) expect((await use(other, token)).body.code).toBe('AGENT_JWT_ALREADY_USED');
  }
  stop.abort();
  await Promise.all(sharing);
});

const post = (address: string, path: string, token: string, body: unknown) =>
  fetch(`http://${address}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  });

test.concurrent('times of a replica with another clock are converted to the clock of the leader', async () => {
  const ahead = { ...systemClock, wall: () => Date.now() + 3_600_000 };
  await using leader = await replicaOf();
  await using follower = await replicaOf({ clock: ahead });
  follow(follower, leader);
  await settled();
  const token = makeToken(uuid, key, ahead.wall());
  await follower.call('GET', '/config', { headers: { authorization: `Bearer ${token}` } });
  await until(() => leader.agents.observations.get(uuid) !== undefined);
  const contactAt = leader.agents.observations.get(uuid)?.contactAt ?? 0;
  expect(Math.abs(Date.now() - contactAt)).toBeLessThan(5_000);
});

test.concurrent('the time of a stored revision is not converted, since a leader wrote it, and a list that is read again keeps its first time', async () => {
  await using leader = await replicaOf();
  const [now, behind] = [Date.now(), 60_000];
  const delta = (listedAt: number, stored?: number) => {
    const sent = { revision: 'b', imageId: 'web:2', rebuildCount: 0, at: listedAt };
    const sentRevisions = { m: { ...sent, ...(stored !== undefined && { storedAfter: stored }) } };
    return { uuid, contactAt: listedAt, waitSeconds: 0, sentRevisions, listedAt };
  };
  const sentAt = now - behind;
  const deltas = [delta(sentAt - 5_000, now - 10_000), delta(sentAt - 1_000, now - 10_000)];
  await post(leader.address, '/internal/observations', 'replica', { sentAt, deltas });
  const { sentRevisions, listedAt = 0 } = leader.agents.observations.get(uuid) ?? {};
  expect(sentRevisions?.m).toMatchObject({ at: listedAt - 4_000, after: now - 10_000 });
  expect(sentRevisions?.m).not.toHaveProperty('storedAfter');
});

test.concurrent('replicas may send each other larger messages than an agent may send', async () => {
  await using replica = await replicaOf();
  const marks = Array.from({ length: 100_000 }, (_, i) => [i, 1]);
  const body = { replica: 'other', cursor: 0, marks };
  expect((await post(replica.address, '/internal/tokens', 'replica', body)).status).toBe(200);
});

test.concurrent('callers without a replica token get 401, and a replica that does not lead responds 409', async () => {
  let asked = 0;
  await using replica = await replicaOf({
    credentials: {
      token: async () => 'replica',
      verify: async (token) => {
        asked++;
        return token === 'replica';
      },
    },
  });
  expect((await fetch(`http://${replica.address}/internal/observations`, { method: 'POST' })).status).toBe(401);
  for (let i = 0; i < 3; i++) {
    expect(
      (await post(replica.address, '/internal/observations', 'stranger', { sentAt: Date.now(), deltas: [] })).status,
    ).toBe(401);
    expect(
      (await post(replica.address, '/internal/observations', 'replica', { sentAt: Date.now(), deltas: [] })).status,
    ).toBe(200);
  }
  expect(asked).toBe(2);
  expect((await post(replica.address, '/internal/secrets', 'replica', {})).status).toBe(404);
  follow(replica, undefined);
  expect(
    (await post(replica.address, '/internal/observations', 'replica', { sentAt: Date.now(), deltas: [] })).status,
  ).toBe(409);
});

test.concurrent('silent connections of one address to the internal port make room for those of replicas', async () => {
  await using replica = await replicaOf();
  const [host = '', port = ''] = replica.address.split(':');
  let ended = 0;
  const silent = await Promise.all(
    Array.from({ length: 250 }, async () => {
      const socket = connect({ host, port: Number(port), localAddress: '127.0.0.2' });
      socket.on('close', () => ended++).on('error', () => {});
      await once(socket, 'connect');
      return socket;
    }),
  );
  await until(() => ended >= 50, 20_000);
  const batch = { sentAt: Date.now(), deltas: [] };
  expect((await post(replica.address, '/internal/observations', 'replica', batch)).status).toBe(200);
  for (const socket of silent) socket.destroy();
});

test.concurrent('a failed token review is 503, and observations stay with the follower until it works', async () => {
  let works = false;
  await using leader = await replicaOf({
    credentials: {
      token: async () => 'replica',
      verify: async () => {
        if (!works) throw new Error('the API server is away');
        return true;
      },
    },
  });
  await using follower = await replicaOf({ log: silentLog });
  follow(follower, leader);
  await settled();
  await report(follower, '1');
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(versionAt(leader)).toBeUndefined();
  await report(follower, '2');
  works = true;
  await until(() => versionAt(leader) === '2');
});

test.concurrent('a leader that hangs delays a read for its deadline only; then the observations of this replica count', async () => {
  await using follower = await replicaOf({ leadership: undefined });
  const hanging = createServer(() => {});
  await new Promise<void>((resolve) => hanging.listen(0, '127.0.0.1', resolve));
  const { port } = hanging.address() as { port: number };
  follow(follower, { address: `127.0.0.1:${port}` });
  await settled();
  await report(follower, '1');
  // Nothing but its own deadline ends the read.
  const live = await follower.agents.currentValues.of([uuid], new AbortController().signal);
  expect(live.get(uuid)?.report.version).toBe('1');
  hanging.closeAllConnections();
  hanging.close();
});

test.concurrent('an agent of another make that reads its list at one replica and then at another gets a rebuild once, whichever of them leads', async () => {
  await using leader = await replicaOf();
  await using follower = await replicaOf();
  follow(follower, leader);
  await settled();
  const replicas = [leader, follower];
  const listAt = async (replica: Replica) =>
    (await replica.as(node, key, 'GET', '/microservices', { thirdParty: true })).body.microservices[0];
  const { uuid: id, revision, imageId } = await listAt(leader);
  const sent = { revision, imageId, rebuildCount: 0, at: Date.now() };
  const running = changed(node, (copy) => {
    const one = { uuid: id, state: 'RUNNING' as const, containerId: 'c', revision, sent };
    copy.status = { observedGeneration: 1, microservices: [one] };
  });
  // The status is not written: what was sent is known in memory alone.
  for (const { stores } of replicas) stores.nodes.set(running);
  for (const [turn, order] of [replicas, [...replicas].reverse(), replicas].entries()) {
    const edited = changed(application, ({ spec }) => {
      Object.assign(spec.microservices?.[0] ?? {}, { container: { env: [{ key: 'TURN', value: `${turn}` }] } });
    });
    for (const { stores } of replicas) stores.applications.set(edited);
    const rebuilds = [];
    for (const replica of [...order, ...order]) rebuilds.push((await listAt(replica)).rebuild);
    expect(rebuilds).toEqual([true, false, false, false]);
  }
});

test.concurrent('the list of an agent of another make waits a second at most for a leader that does not answer', async () => {
  await using follower = await replicaOf();
  follow(follower, undefined);
  await settled();
  const { status, body } = await follower.as(node, key, 'GET', '/microservices', { thirdParty: true });
  expect([status, body.microservices.length]).toEqual([200, 1]);
});
