import { describe, expect, test } from 'vitest';
import { changed, storedApplication, storedNode, storedRegistry, storedSecret } from '../../../testing/stored.ts';
import { HEADERS } from '../../api/names.ts';
import type { Secret } from '../../api/resources.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { desiredState } from '../../desired/rules/desired.ts';
import { fill, keyOf, makeKey, makeToken, startReplica, startWithNode, type TestStores } from '../_util.ts';

const haveOf = (body: { due?: string }) => encodeURIComponent(body.due ?? '');

/** A poll that is held, and whether it has been answered yet. */
async function longPoll(setup: Awaited<ReturnType<typeof startWithNode>>, query = 'wait=60', have?: string) {
  const { replica, node, key, clock } = setup;
  const due = have ?? haveOf((await replica.as(node, key, 'GET', '/changes')).body);
  const before = replica.agents.routes.longPolls;
  const poll = { answered: false };
  const answer = replica.as(node, key, 'GET', `/changes?${query}&have=${due}`).then((got) => {
    poll.answered = true;
    return got;
  });
  await until(() => replica.agents.routes.longPolls === before + 1 || poll.answered);
  return { answer, due, isAnswered: () => poll.answered, clock };
}

async function until(condition: () => boolean) {
  for (let i = 0; i < 200 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
}

test('a poll returns what is due with its digests, and nothing that the agent has saved', async () => {
  const { replica, node, key } = await startWithNode();
  const first = await replica.as(node, key, 'GET', '/changes?wait=60');
  expect(first.body).toMatchObject({ microserviceList: true, microserviceConfig: true });
  expect(first.body.due).toMatch(/^config:[0-9a-f]+,microserviceList:[0-9a-f]+,microserviceConfig:[0-9a-f]+/);
  const second = await replica.as(node, key, 'GET', `/changes?have=${haveOf(first.body)}`);
  expect(second.body).toEqual({ lastUpdated: expect.any(String) });
});

test('/changes and /config/changes give the same response', async () => {
  const { replica, node, key } = await startWithNode();
  const one = await replica.as(node, key, 'GET', '/changes');
  const other = await replica.as(node, key, 'GET', '/config/changes');
  expect(other.body.due).toBe(one.body.due);
});

test('sections have their digests as ETag, and what the agent has saved gets 304', async () => {
  const { replica, node, key } = await startWithNode();
  const { body } = await replica.as(node, key, 'GET', '/changes');
  const read = await replica.as(node, key, 'GET', '/microservices');
  expect(read.body.microservices).toMatchObject([{ name: 'web', imageId: 'registry.example/web:1' }]);
  expect(body.due.split(',')).toEqual(expect.arrayContaining(String(read.headers.etag).slice(1, -1).split(',')));
  const again = await replica.as(node, key, 'GET', '/microservices', {
    headers: { 'if-none-match': String(read.headers.etag) },
  });
  expect([again.status, again.text]).toEqual([304, '']);
});

test('a long poll returns when something becomes due, with its sections', async () => {
  const setup = await startWithNode();
  const { answer, isAnswered } = await longPoll(setup);
  await setup.clock.advance(30_000, { timers: 0 });
  expect(isAnswered()).toBe(false);
  setup.replica.stores.applications.set(
    changed(setup.application, ({ spec }) => {
      Object.assign(spec.microservices?.[0] ?? {}, { images: { amd64: 'registry.example/web:2' } });
    }),
  );
  await setup.clock.advance(1, { timers: 1 });
  expect((await answer).body).toMatchObject({ microserviceList: true });
});

test('a long poll without a change ends without a flag, after 240 s at the latest', async () => {
  const setup = await startWithNode();
  const { answer, isAnswered } = await longPoll(setup, 'wait=100000');
  await setup.clock.advance(239_000, { timers: 0 });
  expect(isAnswered()).toBe(false);
  await setup.clock.advance(1_000, { timers: 1 });
  expect((await answer).body).toEqual({ lastUpdated: expect.any(String) });
});

test('a change between two polls is not missed: the next poll returns at once', async () => {
  const setup = await startWithNode();
  const { replica, node, key } = setup;
  const have = haveOf((await replica.as(node, key, 'GET', '/changes')).body);
  replica.stores.applications.set(
    changed(setup.application, ({ spec }) => {
      spec.microservices = [];
    }),
  );
  expect((await replica.as(node, key, 'GET', `/changes?wait=60&have=${have}`)).body).toMatchObject({
    microserviceList: true,
  });
});

test('changes that concern other nodes, statuses and heartbeats end no long poll', async () => {
  let computed = 0;
  const setup = await startWithNode({
    metrics: { agent: (what, detail) => what === 'desired-state' && detail === 'computed' && computed++ },
  });
  const { replica, node, application, clock } = setup;
  const { isAnswered } = await longPoll(setup);
  const before = computed;
  const { stores } = replica;
  stores.applications.set(storedApplication('other', [{ name: 'a', agent: { name: 'edge-9' } }]));
  stores.nodes.set(storedNode('edge-9'));
  stores.applications.set({
    ...application,
    metadata: { ...application.metadata, resourceVersion: '900000' },
    status: { observedGeneration: 1 },
  });
  stores.nodes.set({
    ...node,
    metadata: { ...node.metadata, resourceVersion: '900001' },
    status: { observedGeneration: 1, lastSeenTime: '2026-01-01T00:00:10Z' },
  });
  await clock.advance(1_000, { timers: 0 });
  expect(isAnswered()).toBe(false);
  // The first status of the node was looked at; nothing else was.
  expect(computed - before).toBeLessThanOrEqual(1);
});

test('a secret that an entry takes a value from ends the long poll of its node; another secret does not', async () => {
  const setup = await startWithNode();
  const { replica, application, clock } = setup;
  const shareable = { labels: { 'skerry.dev/shareable': 'true' } };
  const secret = storedSecret('db', { password: 'one' }, shareable);
  replica.stores.applications.set(
    changed(application, ({ spec }) => {
      const container = { env: [{ key: 'PASSWORD', valueFromSecret: 'db/password' }] };
      Object.assign(spec.microservices?.[0] ?? {}, { container });
    }),
  );
  const missing = await longPoll(setup);
  replica.stores.secrets.set(storedSecret('unrelated', { password: 'x' }, shareable));
  await clock.advance(100, { timers: 0 });
  expect(missing.isAnswered()).toBe(false);
  replica.stores.secrets.set(secret);
  await clock.advance(1, { timers: 1 });
  expect((await missing.answer).body).toMatchObject({ microserviceList: true });
  const resolved = await longPoll(setup);
  replica.stores.secrets.set(changed(secret, ({ data }) => Object.assign(data ?? {}, { password: 'dHdv' })));
  await clock.advance(1, { timers: 1 });
  expect((await resolved.answer).status).toBe(200);
  const read = await replica.as(setup.node, setup.key, 'GET', '/microservices');
  expect(read.body.microservices[0].env).toEqual([{ key: 'PASSWORD', value: 'two', secret: true }]);
});

test('a change of a registry reaches all nodes, spread out', async () => {
  const setup = await startWithNode();
  const { answer } = await longPoll(setup);
  const remote = setup.replica.stores.registries.list().find(({ spec }) => spec.id === 1) ?? storedRegistry('x', 1);
  setup.replica.stores.registries.set(
    changed(remote, ({ spec }) => {
      spec.url = 'mirror.example';
    }),
  );
  await setup.clock.advance(100, { timers: 1 });
  expect((await answer).body).toMatchObject({ registries: true });
});

test('every entry of one write is in one response', async () => {
  const setup = await startWithNode();
  const { replica, node, key, application, clock } = setup;
  const { answer } = await longPoll(setup);
  const names = ['a', 'b', 'c', 'd', 'e'];
  replica.stores.applications.set(
    changed(application, ({ spec }) => {
      const image = { agent: { name: 'edge-1' }, images: { amd64: 'registry.example/x:1' } };
      Object.assign(spec, { microservices: names.map((name) => ({ name, isActivated: true, ...image })) });
    }),
  );
  await clock.advance(1, { timers: 1 });
  const { due } = (await answer).body;
  const read = await replica.as(node, key, 'GET', '/microservices');
  expect(read.body.microservices.map(({ name }: { name: string }) => name).sort()).toEqual(names);
  expect(due.split(',')).toEqual(expect.arrayContaining(String(read.headers.etag).slice(1, -1).split(',')));
});

test('a draining replica ends long polls and refuses new requests', async () => {
  const setup = await startWithNode();
  const { replica, node, key } = setup;
  const { answer, due } = await longPoll(setup);
  await replica.agents.routes.drain(1_000);
  expect(await answer).toMatchObject({ status: 200, body: { lastUpdated: expect.any(String) } });
  const next = await replica.as(node, key, 'GET', `/changes?wait=60&have=${due}`);
  expect(next).toMatchObject({ status: 503, body: { code: 'CONTROLLER_NOT_READY', retryable: true } });
  expect(next.headers['retry-after']).toBe('1');
});

test('a client that disconnects leaves no long poll behind, nor does one that polls repeatedly', async () => {
  const setup = await startWithNode({ limits: { longPollsPerNode: 2 } });
  const { replica, node, key } = setup;
  const { due, answer } = await longPoll(setup);
  const gone = new AbortController();
  const cut = replica.as(node, key, 'GET', `/changes?wait=60&have=${due}`, { signal: gone.signal }).catch(() => 'cut');
  await until(() => replica.agents.routes.longPolls === 2);
  gone.abort();
  expect(await cut).toBe('cut');
  await until(() => replica.agents.routes.longPolls === 1);
  expect(replica.agents.routes.longPolls).toBe(1);
  const second = replica.as(node, key, 'GET', `/changes?wait=60&have=${due}`);
  await until(() => replica.agents.routes.longPolls === 2);
  const third = replica.as(node, key, 'GET', `/changes?wait=60&have=${due}`);
  expect((await answer).status).toBe(200);
  await replica.agents.routes.drain(10);
  await Promise.all([second, third]);
});

test('a long poll ends with 401 when its node is deleted', async () => {
  const setup = await startWithNode();
  const { answer } = await longPoll(setup);
  setup.replica.stores.nodes.remove(setup.node);
  await setup.clock.advance(1, { timers: 1 });
  expect(await answer).toMatchObject({ status: 401, body: { code: 'AGENT_NODE_NOT_FOUND', retryable: false } });
});

test.each([
  ['deleted', (stores: TestStores, secret: Secret, _node: EdgeNode) => stores.secrets.remove(secret)],
  ['replaced', (stores: TestStores, _secret: Secret, node: EdgeNode) => stores.secrets.set(keyOf(node, makeKey()))],
])('a long poll ends with 401 when the key of its node is %s, and other long polls wait on', async (_, change) => {
  const setup = await startWithNode();
  const { replica, node, key, clock } = setup;
  const other = storedNode('edge-2');
  replica.stores.nodes.set(other);
  replica.stores.secrets.set(keyOf(other, key));
  const { answer } = await longPoll(setup);
  const { answer: answerOfOther } = await longPoll({ ...setup, node: other });
  const secret = replica.stores.secrets.list().find((one) => one.metadata.name === `node-key-${node.spec.uuid}`);
  change(replica.stores, secret as Secret, node);
  expect(await answer).toMatchObject({ status: 401, body: { code: 'AGENT_PUBLIC_KEY_NOT_FOUND', retryable: false } });
  expect(replica.agents.routes.longPolls).toBe(1);
  await clock.advance(240_000, { timers: 1 });
  expect((await answerOfOther).status).toBe(200);
});

test('a node in deletion gets the deletion flag, and no other state stops microservices', async () => {
  const setup = await startWithNode();
  const { answer } = await longPoll(setup);
  setup.replica.stores.nodes.set(
    changed(setup.node, ({ metadata }) => {
      metadata.deletionTimestamp = '2026-01-01T00:00:01Z';
    }),
  );
  await setup.clock.advance(1, { timers: 1 });
  expect((await answer).body).toMatchObject({ deleteNode: true });
});

test('an action is sent with its count', async () => {
  const setup = await startWithNode();
  const { answer } = await longPoll(setup);
  setup.replica.stores.nodes.set(
    changed(setup.node, ({ metadata }) => {
      metadata.annotations = { 'skerry.dev/reboot': '3' };
    }),
  );
  await setup.clock.advance(1, { timers: 1 });
  expect((await answer).body).toMatchObject({ reboot: true, actions: { reboot: 3 } });
});

test('a desired state that cannot be computed gets 503 and ends no long poll', async () => {
  let broken = false;
  const setup = await startWithNode({
    desiredState: (inputs) => {
      if (broken) throw new Error('a bug');
      return desiredState(inputs);
    },
  });
  const { isAnswered } = await longPoll(setup);
  broken = true;
  setup.replica.stores.applications.set(
    changed(setup.application, ({ spec }) => {
      spec.description = 'x';
    }),
  );
  await setup.clock.advance(1_000, { timers: 0 });
  expect(isAnswered()).toBe(false);
  const answer = await setup.replica.as(setup.node, setup.key, 'GET', '/microservices');
  expect(answer).toMatchObject({ status: 503, body: { retryable: true } });
  expect(answer.text).not.toContain('bug');
});

const thirdParty = { thirdParty: true };

test('a third-party agent gets `delete: false` for each microservice; our agent has no such member', async () => {
  const { replica, node, key } = await startWithNode();
  const flags = { delete: false, deleteWithCleanUp: false, deleteWithCleanup: false };
  const { body } = await replica.as(node, key, 'GET', '/microservices', thirdParty);
  expect(body.microservices[0]).toMatchObject(flags);
  const one = await replica.as(node, key, 'GET', `/microservices/${body.microservices[0].uuid}`, thirdParty);
  expect(one.body).toMatchObject(flags);
  const ours = await replica.as(node, key, 'GET', '/microservices');
  expect(Object.keys(ours.body.microservices[0])).not.toContain('delete');
});

test('a third-party agent gets every flag, and acknowledges what this replica sent', async () => {
  const { replica, node, key } = await startWithNode();
  const first = await replica.as(node, key, 'GET', '/changes', thirdParty);
  expect(first.body).toMatchObject({ microserviceList: true, reboot: false, fogLogs: false });
  expect(first.body.due).toBeUndefined();
  const repeated = await replica.as(node, key, 'GET', '/changes', thirdParty);
  expect(repeated.body).toEqual(first.body);
  const ack = await replica.as(node, key, 'PATCH', '/changes', {
    ...thirdParty,
    body: { lastUpdated: first.body.lastUpdated },
  });
  expect([ack.status, ack.body]).toEqual([200, {}]);
  expect((await replica.as(node, key, 'GET', '/changes', thirdParty)).body).toMatchObject({ microserviceList: false });
});

test('an acknowledgement that reaches another replica, or the same after a restart, counts while nothing changed', async () => {
  const { replica, node, key, application, clock } = await startWithNode();
  await using other = await startReplica({ clock });
  fill(other.stores, {
    nodes: [...replica.stores.nodes.list()],
    applications: [...replica.stores.applications.list()],
    secrets: [...replica.stores.secrets.list()],
  });
  await clock.advance(1_000, { timers: 0 });
  const { lastUpdated } = (await replica.as(node, key, 'GET', '/changes', thirdParty)).body;
  const body = { lastUpdated };
  const isDue = async () => (await other.as(node, key, 'GET', '/changes', thirdParty)).body.microserviceList;
  expect(await isDue()).toBe(true);
  await other.as(node, key, 'PATCH', '/changes', { ...thirdParty, body });
  expect(await isDue()).toBe(false);
  other.stores.applications.set(
    changed(application, ({ spec }) => {
      Object.assign(spec.microservices?.[0] ?? {}, { images: { amd64: 'registry.example/web:2' } });
    }),
  );
  await other.as(node, key, 'PATCH', '/changes', { ...thirdParty, body });
  expect(await isDue()).toBe(true);
});

test('a third-party agent may acknowledge one of the last four responses; other acknowledgements change nothing', async () => {
  const { replica, node, key, application } = await startWithNode();
  const stamps: string[] = [];
  for (let i = 0; i < 6; i++) {
    replica.stores.applications.set(
      changed(application, ({ spec }) => {
        Object.assign(spec.microservices?.[0] ?? {}, { images: { amd64: `registry.example/web:${i}` } });
      }),
    );
    stamps.push((await replica.as(node, key, 'GET', '/changes', thirdParty)).body.lastUpdated);
  }
  expect(new Set(stamps).size).toBe(6);
  expect([...stamps].sort()).toEqual(stamps);
  const acknowledge = (lastUpdated: unknown) =>
    replica.as(node, key, 'PATCH', '/changes', { ...thirdParty, body: { lastUpdated } });
  const isDue = async () => (await replica.as(node, key, 'GET', '/changes', thirdParty)).body.microserviceList;
  for (const stamp of [stamps[0], stamps[1], '2030-01-01T00:00:00.000Z', 'rubbish']) {
    expect((await acknowledge(stamp)).status).toBe(200);
    expect(await isDue()).toBe(true);
  }
  await acknowledge(stamps[4]);
  expect(await isDue()).toBe(true);
  await acknowledge(stamps[5]);
  expect(await isDue()).toBe(false);
  await acknowledge(stamps[4]);
  expect(await isDue()).toBe(false);
  expect((await acknowledge(7)).status).toBe(400);
});

test('an action counts as executed when a third-party agent acknowledges it', async () => {
  const { replica, node, key } = await startWithNode();
  replica.stores.nodes.set(
    changed(node, ({ metadata }) => {
      metadata.annotations = { 'skerry.dev/prune': '2' };
    }),
  );
  const { body } = await replica.as(node, key, 'GET', '/changes', thirdParty);
  expect(body.prune).toBe(true);
  await replica.as(node, key, 'PATCH', '/config/changes', { ...thirdParty, body: { lastUpdated: body.lastUpdated } });
  const observed = replica.agents.observations.get(node.spec.uuid ?? '');
  expect(observed?.report.actions).toEqual({ prune: 2 });
  expect(observed?.reportedAt).toBeUndefined();
});

test('a large response is compressed for clients that accept gzip, and for no others', async () => {
  const { replica, node, key, application } = await startWithNode();
  replica.stores.applications.set(
    changed(application, ({ spec }) => {
      const env = [{ key: 'LONG', value: 'x'.repeat(20_000) }];
      Object.assign(spec.microservices?.[0] ?? {}, { container: { env } });
    }),
  );
  const plain = await replica.as(node, key, 'GET', '/microservices');
  expect(plain.headers).not.toHaveProperty('content-encoding');
  const lengths: Record<string, number> = {};
  for (const encoding of ['gzip', 'deflate, gzip;q=0.5', 'br', 'gzip;q=0', '']) {
    const bearer = makeToken(node.spec.uuid ?? '', key, Date.parse('2026-01-01T00:00:01Z'));
    const answer = await fetch(`${replica.url}/api/v3/agent/microservices`, {
      headers: { authorization: `Bearer ${bearer}`, [HEADERS.agent]: '1', 'accept-encoding': encoding },
    });
    lengths[encoding] = Number(answer.headers.get('content-length'));
    expect(await answer.json()).toEqual(plain.body);
  }
  const whole = Number(plain.headers['content-length']);
  expect(lengths.br).toBe(whole);
  expect(lengths['gzip;q=0']).toBe(whole);
  expect(lengths.gzip).toBeLessThan(2_000);
  expect(lengths['deflate, gzip;q=0.5']).toBeLessThan(2_000);
});

test('a third-party agent does not get a rebuild again while it may be executing it', async () => {
  const { replica, node, key, application, clock } = await startWithNode();
  replica.stores.applications.set(
    changed(application, ({ metadata }) => {
      metadata.annotations = { 'skerry.dev/rebuild': '{"web":1}' };
    }),
  );
  const list = async () => (await replica.as(node, key, 'GET', '/microservices', thirdParty)).body.microservices[0];
  const { uuid, revision, imageId, ...first } = await list();
  expect(first).toMatchObject({ rebuild: true, rebuildCount: 1 });
  // Before the status says what was sent, and with it.
  expect((await list()).rebuild).toBe(false);
  const sent = { revision, imageId, rebuildCount: 1, at: clock.wall() };
  replica.stores.nodes.set(
    changed(node, (copy) => {
      copy.status = { observedGeneration: 1, microservices: [{ uuid, state: 'PULLING', sent }] };
    }),
  );
  expect((await list()).rebuild).toBe(false);
  await clock.advance(6 * 60_000, { timers: 0 });
  expect((await list()).rebuild).toBe(true);
  const { lastUpdated } = (await replica.as(node, key, 'GET', '/changes', thirdParty)).body;
  await replica.as(node, key, 'PATCH', '/changes', { ...thirdParty, body: { lastUpdated } });
  expect((await list()).rebuild).toBe(false);
  // The image is large. The acknowledgement no longer counts, so that the list is read again.
  await clock.advance(6 * 60_000, { timers: 0 });
  const again = await replica.as(node, key, 'GET', '/changes', thirdParty);
  expect(again.body).toMatchObject({ microserviceList: true });
  expect((await list()).rebuild).toBe(false);
});

test('a third-party agent gets an edit of a running microservice as a rebuild, once for each revision', async () => {
  const { replica, node, key, application, clock } = await startWithNode();
  const list = async () => (await replica.as(node, key, 'GET', '/microservices', thirdParty)).body.microservices[0];
  const cycle = async () => {
    const { lastUpdated } = (await replica.as(node, key, 'GET', '/changes', thirdParty)).body;
    const one = await list();
    await replica.as(node, key, 'PATCH', '/changes', { ...thirdParty, body: { lastUpdated } });
    return one;
  };
  const { uuid, revision, imageId, rebuild } = await cycle();
  expect(rebuild).toBe(false);
  const sent = { revision, imageId, rebuildCount: 0, at: clock.wall() };
  replica.stores.nodes.set(
    changed(node, (copy) => {
      copy.status = {
        observedGeneration: 1,
        microservices: [{ uuid, state: 'RUNNING', containerId: 'c', revision, sent }],
      };
    }),
  );
  const edit = (value: string) =>
    replica.stores.applications.set(
      changed(application, ({ spec }) => {
        Object.assign(spec.microservices?.[0] ?? {}, { container: { env: [{ key: 'MODE', value }] } });
      }),
    );
  for (const value of ['fast', 'slow']) {
    edit(value);
    expect((await replica.as(node, key, 'GET', '/changes', thirdParty)).body.microserviceList).toBe(true);
    expect(await cycle()).toMatchObject({ rebuild: true, rebuildCount: 0, env: [{ key: 'MODE', value }] });
    expect((await cycle()).rebuild).toBe(false);
  }
});

test.each([
  ['once its container is replaced', 1_000, true],
  ['15 s later at the latest', 15_000, false],
])(
  'a third-party agent that was sent a rebuild reads its list for another change %s, so that it does not lose the rebuild',
  async (_, ms, isReplaced) => {
    const { replica, node, key, application, clock } = await startWithNode();
    await using other = await startReplica({ clock });
    const list = async () => (await replica.as(node, key, 'GET', '/microservices', thirdParty)).body.microservices;
    const poll = async (at = replica) => (await at.as(node, key, 'GET', '/changes', thirdParty)).body;
    const acknowledge = ({ lastUpdated }: { lastUpdated: string }, at = replica) =>
      at.as(node, key, 'PATCH', '/changes', { ...thirdParty, body: { lastUpdated } });
    await list();
    const image = { images: { amd64: 'registry.example/web:2' } };
    replica.stores.applications.set(
      changed(application, ({ spec }) => Object.assign(spec.microservices?.[0] ?? {}, image)),
    );
    const seen = await poll();
    const [{ uuid, revision, imageId }] = await list();
    await acknowledge(seen);
    const sent = { revision, imageId, rebuildCount: 0, at: clock.wall() };
    const report = (item: { revision: string; startTime: number }) =>
      replica.stores.nodes.set(
        changed(node, (copy) => {
          copy.status = {
            observedGeneration: 1,
            microservices: [{ uuid, state: 'RUNNING', containerId: 'c', sent, ...item }],
          };
        }),
      );
    report({ revision: 'r1-former', startTime: sent.at - 1_000 });
    replica.stores.applications.set(storedApplication('other', [{ name: 'a', agent: { name: 'edge-1' } }]));
    const early = await poll();
    expect(early).toMatchObject({ microserviceList: false, microserviceConfig: false });
    fill(other.stores, {
      nodes: [...replica.stores.nodes.list()],
      applications: [...replica.stores.applications.list()],
      secrets: [...replica.stores.secrets.list()],
    });
    for (const at of [replica, other]) await acknowledge(early, at);
    await clock.advance(ms, { timers: 0 });
    if (isReplaced) report({ revision, startTime: sent.at + 500 });
    // Its acknowledgement is none of what was left out.
    expect((await poll()).microserviceList).toBe(true);
    if (!isReplaced) expect((await poll(other)).microserviceList).toBe(true);
  },
);

test('a third-party agent that acknowledged an edit and runs its former container a minute later gets it again, seldom and as long as it does', async () => {
  const { replica, node, key, clock } = await startWithNode();
  const list = async () => (await replica.as(node, key, 'GET', '/microservices', thirdParty)).body.microservices[0];
  const poll = async () => (await replica.as(node, key, 'GET', '/changes', thirdParty)).body;
  const acknowledge = async () => {
    const { lastUpdated } = await poll();
    await replica.as(node, key, 'PATCH', '/changes', { ...thirdParty, body: { lastUpdated } });
  };
  const [{ uuid, revision, imageId }] = (await replica.as(node, key, 'GET', '/microservices')).body.microservices;
  const sent = { revision, imageId, rebuildCount: 0, at: clock.wall() + 200_001 };
  const report = (status: { state: string; startTime?: number }) =>
    replica.stores.nodes.set(
      changed(node, (copy) => {
        const one = { uuid, containerId: 'c', revision: 'r1-former', sent, ...status };
        copy.status = { observedGeneration: 1, microservices: [one as never] };
      }),
    );
  report({ state: 'RUNNING', startTime: sent.at - 1_000 });
  // Acknowledged after all replicas have caught up, it counts for good.
  await poll();
  await clock.advance(200_000, { timers: 0 });
  await acknowledge();
  await clock.advance(59_000, { timers: 0 });
  expect([(await poll()).microserviceList, (await list()).rebuild]).toEqual([false, false]);
  await clock.advance(2_000, { timers: 0 });
  expect([(await poll()).microserviceList, (await list()).rebuild]).toEqual([true, true]);
  await acknowledge();
  expect([(await poll()).microserviceList, (await list()).rebuild]).toEqual([false, false]);
  await clock.advance(40_000, { timers: 0 });
  expect((await poll()).microserviceList).toBe(false);
  await clock.advance(30_000, { timers: 0 });
  expect([(await poll()).microserviceList, (await list()).rebuild]).toEqual([true, true]);
  await acknowledge();
  await clock.advance(600_000, { timers: 0 });
  for (const under of [{ state: 'PULLING' }, { state: 'RUNNING', startTime: sent.at + 1_000 }, { state: 'RUNNING' }]) {
    report(under);
    expect((await poll()).microserviceList).toBe(false);
  }
});

test('a third-party agent gets a rebuild that a replica which lags behind left out of the list that it acknowledged', async () => {
  const { replica, node, key, application, clock } = await startWithNode();
  const list = async () => (await replica.as(node, key, 'GET', '/microservices', thirdParty)).body.microservices[0];
  const { uuid, revision, imageId } = await list();
  replica.stores.applications.set(
    changed(application, ({ metadata }) => {
      metadata.annotations = { 'skerry.dev/rebuild': '{"web":1}' };
    }),
  );
  const { lastUpdated } = (await replica.as(node, key, 'GET', '/changes', thirdParty)).body;
  replica.stores.nodes.set(
    changed(node, (copy) => {
      const sent = { revision, imageId, rebuildCount: 0, at: clock.wall() };
      copy.status = { observedGeneration: 1, microservices: [{ uuid, state: 'RUNNING', sent }] };
    }),
  );
  await replica.as(node, key, 'PATCH', '/changes', { ...thirdParty, body: { lastUpdated } });
  await clock.advance(30_000, { timers: 0 });
  expect((await list()).rebuild).toBe(true);
});

test('a microservice that starts and crashes for ever makes a third-party agent read nothing again, and an edit that is taken back does', async () => {
  const { replica, node, key, clock } = await startWithNode();
  const cycle = async () => {
    const { lastUpdated, ...flags } = (await replica.as(node, key, 'GET', '/changes', thirdParty)).body;
    await replica.as(node, key, 'PATCH', '/changes', { ...thirdParty, body: { lastUpdated } });
    return Object.values(flags).filter((flag) => flag === true).length;
  };
  const uuid = '5f0e2c1e-0000-4000-8000-000000000000';
  for (let i = 0; i < 3; i++) {
    await cycle();
    await clock.advance(200_000, { timers: 0 });
  }
  let present = node;
  for (let restartCount = 1; restartCount <= 20; restartCount++) {
    const { generation } = present.metadata;
    present = changed(present, (copy) => {
      const state = restartCount % 2 ? 'RUNNING' : 'EXITING';
      copy.status = { observedGeneration: 1, microservices: [{ uuid, state, restartCount }] };
    });
    if (generation !== undefined) present.metadata.generation = generation;
    replica.stores.nodes.set(present);
    await clock.advance(15_000, { timers: 0 });
    if (restartCount % 4 === 0) expect(await cycle()).toBe(0);
  }
  const edited = changed(present, ({ spec }) => Object.assign(spec, { logLevel: 'DEBUG' }));
  for (const next of [edited, changed(present, () => {})]) replica.stores.nodes.set(next);
  await cycle();
  await clock.advance(30_000, { timers: 0 });
  expect(await cycle()).toBeGreaterThan(0);
});

test('an entry that may no longer run keeps its admitted view for a third-party agent, and is a hold for our agent', async () => {
  const { replica, node, key, application, clock } = await startWithNode();
  const viewed = await replica.as(node, key, 'GET', '/microservices', thirdParty);
  expect(viewed.body.microservices).toMatchObject([{ imageId: 'registry.example/web:1' }]);
  expect(replica.agents.observations.get(node.spec.uuid ?? '')?.sentRevisions).toEqual({
    [viewed.body.microservices[0].uuid]: {
      revision: expect.any(String),
      imageId: 'registry.example/web:1',
      rebuildCount: 0,
      at: clock.wall(),
    },
  });
  replica.stores.applications.set(
    changed(application, ({ spec }) => {
      Object.assign(spec.microservices?.[0] ?? {}, {
        images: { amd64: 'registry.example/web:2', registry: 'nowhere' },
      });
    }),
  );
  const ours = await replica.as(node, key, 'GET', '/microservices');
  expect(ours.body.microservices).toMatchObject([{ hold: true, reason: 'RegistryNotFound' }]);
  const theirs = await replica.as(node, key, 'GET', '/microservices', thirdParty);
  expect(theirs.body.microservices).toEqual(viewed.body.microservices);
});

test('a second node with the same name gets nothing that is meant for the older one', async () => {
  const { replica, node, key } = await startWithNode();
  const younger = storedNode('edge-1b', { name: 'edge-1' }, { creationTimestamp: '2026-02-01T00:00:00Z' });
  const youngerKey = makeKey();
  replica.stores.nodes.set(younger);
  replica.stores.secrets.set(keyOf(younger, youngerKey));
  expect((await replica.as(younger, youngerKey, 'GET', '/microservices')).body.microservices).toEqual([]);
  expect((await replica.as(node, key, 'GET', '/microservices')).body.microservices).toHaveLength(1);
});

test('reads that are not implemented return empty lists, and absent objects get 404', async () => {
  const { replica, node, key } = await startWithNode({ caCert: () => 'cGVt' });
  const read = async (path: string) => (await replica.as(node, key, 'GET', path)).body;
  expect(await read('/models')).toEqual({ models: [] });
  expect(await read('/knowledge')).toEqual({ knowledge: [] });
  expect(await read('/runtimeClasses')).toEqual({ runtimeClasses: [] });
  expect(await read('/volumeMounts')).toEqual({ volumeMounts: [] });
  expect(await read('/exec/sessions')).toEqual({ execSessions: [] });
  expect(await read('/logs/sessions')).toEqual({ logSessions: [] });
  expect(await read('/tunnel')).toMatchObject({ code: 'TUNNEL_NOT_FOUND', retryable: false });
  expect(await read('/version')).toMatchObject({ code: 'VERSION_COMMAND_NOT_FOUND' });
  const certificate = await replica.as(node, key, 'GET', '/cert');
  expect([certificate.headers['content-type'], certificate.text]).toEqual(['text/plain; charset=utf-8', 'cGVt']);
  const [{ uuid }] = (await read('/microservices')).microservices;
  expect(await read(`/microservices/${uuid}`)).toMatchObject({ uuid, name: 'web' });
  expect(await read('/microservices/other')).toMatchObject({ code: 'MICROSERVICE_NOT_FOUND' });
});

test('a requested version has a provisioning key, which each read renews, ten at once and then one in ten seconds', async () => {
  const issued: string[] = [];
  const { replica, node, key, clock } = await startWithNode({
    versionKeys: { issueForVersion: async (_node, { key }) => issued.push(key) > 0 },
  });
  const annotations = { 'skerry.dev/version': '{"count":1,"command":"upgrade","semver":"2.0.0"}' };
  replica.stores.nodes.set(
    changed(node, ({ metadata }) => {
      metadata.annotations = annotations;
    }),
  );
  const { body, headers } = await replica.as(node, key, 'GET', '/version');
  expect(body).toEqual({
    versionCommand: 'upgrade',
    semver: '2.0.0',
    provisionKey: issued[0],
    expirationTime: clock.wall() + 20 * 60_000,
  });
  await clock.advance(60_000, { timers: 0 });
  expect((await replica.as(node, key, 'GET', '/version')).body).toMatchObject({
    provisionKey: issued[1],
    expirationTime: clock.wall() + 20 * 60_000,
  });
  const known = { headers: { 'if-none-match': String(headers.etag) } };
  expect((await replica.as(node, key, 'GET', '/version', known)).status).toBe(304);
  // Each key is a write.
  const statuses: number[] = [];
  for (let i = 0; i < 12; i++) statuses.push((await replica.as(node, key, 'GET', '/version')).status);
  expect(statuses.at(-1)).toBe(429);
  expect(new Set(issued).size).toBe(2 + statuses.filter((status) => status === 200).length);
});

test('a contact of our agent has its version, instance and boot', async () => {
  const { replica, node, key, clock } = await startWithNode();
  await replica.as(node, key, 'GET', '/config', {
    headers: { [HEADERS.instance]: 'machine', [HEADERS.boot]: 'first' },
  });
  expect(replica.agents.observations.get(node.spec.uuid ?? '')).toEqual({
    report: {},
    contactAt: clock.wall(),
    waitSeconds: 0,
    agent: '1.0.0',
    instances: { machine: { boot: 'first', seenAt: clock.wall() } },
    sentRevisions: {},
  });
});

describe('the authorities of the controller', () => {
  const start = async () => {
    const listeners = new Set<() => void>();
    let caCert = 'Zmlyc3Q=';
    const setup = await startWithNode({
      caCert: () => caCert,
      caCertChanges: (listener) => {
        listeners.add(listener);
        return { [Symbol.dispose]: () => void listeners.delete(listener) };
      },
    });
    return {
      ...setup,
      change(text: string) {
        caCert = text;
        for (const listener of listeners) listener();
      },
    };
  };
  const having = (due: string, authorities: string) => `${due}${encodeURIComponent(`,authorities:${authorities}`)}`;

  test('are due for an agent that has another list, which gets them from GET /cert', async () => {
    const { replica, node, key } = await start();
    const { body } = await replica.as(node, key, 'GET', '/changes');
    const first = await replica.as(node, key, 'GET', `/changes?have=${having(haveOf(body), '0')}`);
    expect(first.body).toMatchObject({ authorities: true, due: expect.stringMatching(/^authorities:[0-9a-f]{16}$/) });
    expect((await replica.as(node, key, 'GET', '/cert')).text).toBe('Zmlyc3Q=');
    const digest = first.body.due.split(':')[1];
    const second = await replica.as(node, key, 'GET', `/changes?have=${having(haveOf(body), digest)}`);
    expect(second.body).toEqual({ lastUpdated: expect.any(String) });
  });

  test('end a long poll when they change', async () => {
    const setup = await start();
    const { body } = await setup.replica.as(setup.node, setup.key, 'GET', '/changes');
    const probe = await setup.replica.as(setup.node, setup.key, 'GET', `/changes?have=${having(haveOf(body), '0')}`);
    const have = having(haveOf(body), probe.body.due.split(':')[1]);
    const { answer, isAnswered } = await longPoll(setup, 'wait=60', have);
    expect(isAnswered()).toBe(false);
    setup.change('bmV4dA==');
    await setup.clock.advance(50, { timers: 1 });
    expect((await answer).body).toMatchObject({ authorities: true });
  });

  test('bring no poll back of an agent that sends no digest of them, also when they change', async () => {
    const setup = await start();
    const { answer, due, isAnswered } = await longPoll(setup);
    expect(isAnswered()).toBe(false);
    setup.change('bmV4dA==');
    await setup.clock.advance(50, { timers: 1 });
    expect((await answer).body).toEqual({ lastUpdated: expect.any(String) });
    const next = await longPoll(setup, 'wait=60', due);
    expect(next.isAnswered()).toBe(false);
  });

  test('are due as none when the controller has none any more', async () => {
    const { replica, node, key, change } = await start();
    const { body } = await replica.as(node, key, 'GET', '/changes');
    change('');
    const reply = await replica.as(node, key, 'GET', `/changes?have=${having(haveOf(body), 'abc')}`);
    expect(reply.body).toMatchObject({ authorities: true, due: '' });
    const none = await replica.as(node, key, 'GET', `/changes?have=${having(haveOf(body), '0')}`);
    expect(none.body).toEqual({ lastUpdated: expect.any(String) });
    expect((await replica.as(node, key, 'GET', '/cert')).status).toBe(404);
  });
});

test('a tunnel is a flag that a change of its Secret sets again, only for its node, and closed without a key', async () => {
  const { replica, node, key } = await startWithNode({
    tunnel: {
      ...{ host: 'bastion.example', port: 2222, username: 'tunnel', localPort: 22, secretName: 'tunnels' },
      ports: { first: 2000, last: 2009 },
    },
  });
  const other = storedNode('edge-2');
  const otherKey = makeKey();
  replica.stores.nodes.set(other);
  replica.stores.secrets.set(keyOf(other, otherKey));
  replica.stores.secrets.set(storedSecret('tunnels', { rsaKey: 'FIRST', knownHosts: 'hosts' }));
  const ask = async (action: string, state: 'open' | 'closing') =>
    replica.stores.nodes.set(
      changed(replica.stores.nodes.get('skerry', 'edge-1') as typeof node, (copy) => {
        copy.metadata.annotations = { 'skerry.dev/tunnel': action };
        copy.status = { observedGeneration: 1, tunnel: { remotePort: 2001, state } };
      }),
    );
  const read = async (thirdParty = false) => (await replica.as(node, key, 'GET', '/tunnel', { thirdParty })).body;
  const due = async (have = '') => {
    const { body } = await replica.as(node, key, 'GET', `/changes?have=${have}`);
    return { flag: body.tunnel === true, digest: /tunnel:[0-9a-f]+/.exec(body.due)?.[0] ?? '' };
  };
  expect((await due()).flag).toBe(false);
  await ask('open', 'open');
  const first = await due();
  expect(first.flag).toBe(true);
  expect((await due(first.digest)).flag).toBe(false);
  const open = {
    host: 'bastion.example',
    port: 2222,
    username: 'tunnel',
    remotePort: 2001,
    localPort: 22,
    closed: false,
  };
  const whole = { ...open, rsaKey: 'FIRST', password: '', knownHosts: 'hosts' };
  for (const body of [await read(), await read(true)]) expect(body).toEqual({ tunnel: whole, ...whole });
  expect((await replica.as(other, otherKey, 'GET', '/tunnel')).body).toMatchObject({ code: 'TUNNEL_NOT_FOUND' });

  replica.stores.secrets.set(storedSecret('tunnels', { rsaKey: 'SECOND', knownHosts: 'hosts' }));
  const second = await due(first.digest);
  expect(second.flag).toBe(true);
  expect((await read()).rsaKey).toBe('SECOND');
  await ask('close', 'closing');
  expect((await due(second.digest)).flag).toBe(true);
  expect(await read()).toMatchObject({ closed: true, rsaKey: '', password: '', knownHosts: '', remotePort: 2001 });
});
