import { expect, test } from 'vitest';
import {
  changed,
  NAMESPACE,
  storedApplication,
  storedModel,
  storedNode,
  storedRegistry,
  storedSecret,
  storedVolumeMount,
} from '../../testing/stored.ts';
import { fill, makeClock, makeStores } from '../agents/_util.ts';
import { createLongPolls } from '../agents/long-polls/long-polls.ts';
import { createLookups } from '../datastore/lookups.ts';
import { silentLog } from '../lib/log.ts';
import { entryUuid } from '../rules/names.ts';
import { contentSource, countedVersion } from '../subjects/content/rules/volume-mount/volume-mount.ts';
import { type Digests, flagsOf } from '../wire/sections.ts';
import { createDesiredCache } from './desired-cache.ts';
import { desiredState } from './rules/desired.ts';

const SHAREABLE = { labels: { 'skerry.dev/shareable': 'true' } };
const entry = (name: string, node: string, extra: object = {}) => ({
  name,
  isActivated: true,
  agent: { name: node },
  images: { amd64: 'registry.example/x:1' },
  ...extra,
});

function setUp(nodeCount = 3) {
  const stores = makeStores();
  const nodes = Array.from({ length: nodeCount }, (_, i) => storedNode(`n${i}`, { host: `10.0.0.${i}` }));
  fill(stores, { nodes });
  const computed: string[] = [];
  const cache = createDesiredCache({
    stores,
    namespace: NAMESPACE,
    desiredState: (inputs) => {
      computed.push(inputs.node.metadata.name);
      return desiredState(inputs);
    },
  });
  const uuids = nodes.map(({ spec }) => spec.uuid ?? '');
  const all = () => uuids.map((uuid) => cache.digests(uuid));
  all();
  /** The nodes that are computed anew after a change. */
  const touchedBy = (change: () => void) => {
    all();
    computed.length = 0;
    change();
    all();
    return computed.toSorted();
  };
  return { stores, nodes, uuids, cache, touchedBy };
}

test('a desired state is cached until something that it was made from changes', () => {
  const { stores, cache, uuids, touchedBy } = setUp();
  expect(touchedBy(() => {})).toEqual([]);
  const application = storedApplication('shop', [entry('a', 'n0'), entry('b', 'n1')]);
  expect(touchedBy(() => stores.applications.set(application))).toEqual(['n0', 'n1']);
  const moved = changed(application, ({ spec }) => {
    Object.assign(spec, { microservices: [entry('a', 'n0'), entry('b', 'n2')] });
  });
  expect(touchedBy(() => stores.applications.set(moved))).toEqual(['n0', 'n1', 'n2']);
  const said = {
    ...moved,
    metadata: { ...moved.metadata, resourceVersion: '1000000' },
    status: { observedGeneration: 1 },
  };
  expect(touchedBy(() => stores.applications.set(said))).toEqual([]);
  const renewed = changed(said, ({ metadata }) => {
    metadata.annotations = { 'skerry.dev/rebuild': '{"a":1}' };
    metadata.resourceVersion = '1000001';
  });
  renewed.metadata.generation = said.metadata.generation;
  renewed.metadata.resourceVersion = '1000001';
  expect(touchedBy(() => stores.applications.set(renewed))).toEqual(['n0', 'n2']);

  expect(cache.digests(uuids[0] ?? '')).toBe(cache.digests(uuids[0] ?? ''));
});

test('the end of a wait for a former node affects that node and the new one, and no other node of the application', () => {
  const { stores, uuids, cache, touchedBy } = setUp();
  const application = storedApplication('shop', [entry('a', 'n1'), entry('b', 'n2')]);
  const line = { name: 'a', uuid: entryUuid(application, { name: 'a' }), node: 'n1', state: 'QUEUED', ready: false };
  const since = '2026-01-01T00:00:00.000Z';
  const formerNodes = [{ node: 'n0', uuid: uuids[0] ?? '', since, state: 'Stopping' as const }];
  const said = (lines: object[], resourceVersion: string) =>
    ({
      ...application,
      metadata: { ...application.metadata, resourceVersion },
      status: { observedGeneration: 1, microservices: lines },
    }) as typeof application;
  stores.applications.set(said([{ ...line, formerNodes }], '1000000'));
  expect(cache.state(uuids[1] ?? '')?.microservices).toMatchObject([{ reason: 'MovingFromNode' }]);
  expect(
    touchedBy(() => stores.applications.set(said([{ ...line, state: 'PULLING', formerNodes }], '1000001'))),
  ).toEqual([]);
  expect(touchedBy(() => stores.applications.set(said([line], '1000002')))).toEqual(['n0', 'n1']);
  expect(cache.state(uuids[1] ?? '')?.microservices).toMatchObject([{ name: 'a' }]);
});

test('a node is computed again for what its entries refer to, found or not, and for nothing else', () => {
  const { stores, nodes, touchedBy } = setUp();
  const env = [{ key: 'A', valueFromSecret: 'db/password' }];
  const extraHosts = [{ name: 'peer', address: '${Agents.n2}' }];
  stores.applications.set(
    storedApplication('shop', [entry('a', 'n0', { container: { env, extraHosts } }), entry('b', 'n1')]),
  );
  const secret = storedSecret('db', { password: 'x' }, SHAREABLE);
  expect(touchedBy(() => stores.secrets.set(secret))).toEqual(['n0']);
  expect(touchedBy(() => stores.secrets.set(storedSecret('db2', { password: 'x' }, SHAREABLE)))).toEqual([]);
  expect(touchedBy(() => stores.secrets.remove(changed(secret, () => {})))).toEqual(['n0']);
  const rehosted = changed(nodes[2] ?? storedNode('x'), ({ spec }) => {
    spec.host = '10.9.9.9';
  });
  expect(touchedBy(() => stores.nodes.set(rehosted))).toEqual(['n0', 'n2']);
});

test('a model affects the nodes that it is linked to and those that bind it, and a link only the node that it is about', () => {
  const { stores, touchedBy } = setUp();
  const model = storedModel('tiny', { nodes: ['n0'] });
  expect(touchedBy(() => stores.models.set(model))).toEqual(['n0']);
  const models = { bindPath: '/models', items: [{ name: 'tiny' }] };
  stores.applications.set(storedApplication('shop', [entry('a', 'n1', { models })]));
  const edited = changed(model, ({ spec }) => {
    spec.revision = 'v2';
  });
  expect(touchedBy(() => stores.models.set(edited))).toEqual(['n0', 'n1']);
  const linked = changed(edited, ({ spec }) => {
    spec.nodes = ['n0', 'n2'];
  });
  expect(touchedBy(() => stores.models.set(linked))).toEqual(['n2']);
  const unlinked = changed(linked, ({ spec }) => {
    spec.nodes = ['n2'];
  });
  expect(touchedBy(() => stores.models.set(unlinked))).toEqual(['n0']);
  expect(touchedBy(() => stores.models.remove(changed(unlinked, () => {})))).toEqual(['n1', 'n2']);
});

test('a changed Secret affects the nodes of its volume mount once, and not again when the status counts the change', () => {
  const { stores, touchedBy } = setUp();
  const secret = storedSecret('db', { password: 'x' }, SHAREABLE);
  stores.secrets.set(secret);
  const mount = storedVolumeMount('files', { secretName: 'db', nodes: ['n0', 'n1'] });
  const lookups = createLookups(stores);
  /** The mount with the status that its reconciler writes; a write of a status raises no generation. */
  const counted = (one: typeof mount): typeof mount => ({
    ...changed(one, () => {}),
    metadata: { ...one.metadata, resourceVersion: `${Number(one.metadata.resourceVersion) + 1_000}` },
    status: { observedGeneration: 1, ...countedVersion(one, contentSource(one, lookups)) },
  });
  stores.volumeMounts.set(mount);
  const first = counted(mount);
  stores.volumeMounts.set(first);
  const edited = changed(secret, ({ data = {} }) => {
    data.password = Buffer.from('y').toString('base64');
  });
  expect(touchedBy(() => stores.secrets.set(edited))).toEqual(['n0', 'n1']);
  const second = counted(first);
  expect(second.status?.version).toBe(2);
  expect(touchedBy(() => stores.volumeMounts.set(second))).toEqual([]);
  const { status: _, ...reset } = { ...second, metadata: { ...second.metadata, resourceVersion: '2000000' } };
  expect(touchedBy(() => stores.volumeMounts.set(reset))).toEqual(['n0', 'n1']);
});

test('the password of a registry affects the nodes that pull from it, and only a Secret that may be used counts', () => {
  const { stores, uuids, cache, touchedBy } = setUp();
  const registry = storedRegistry('private', 7, {
    isPublic: false,
    username: 'u',
    passwordSecretRef: { name: 'pull', key: 'password' },
  });
  stores.registries.set(registry);
  stores.applications.set(
    storedApplication('shop', [entry('a', 'n0', { images: { amd64: 'x:1', registry: 7 } }), entry('b', 'n1')]),
  );
  const password = () => cache.state(uuids[0] ?? '')?.registries.find(({ id }) => id === 7)?.password;
  expect(password()).toBe('');
  const stranger = storedSecret('pull', { password: 'the operator' });
  expect(touchedBy(() => stores.secrets.set(stranger))).toEqual(['n0']);
  expect(password()).toBe('');
  const owned = changed(stranger, (copy) => {
    copy.metadata.ownerReferences = [
      { apiVersion: registry.apiVersion, kind: 'Registry', name: 'private', uid: registry.metadata.uid ?? '' },
    ];
  });
  expect(touchedBy(() => stores.secrets.set(owned))).toEqual(['n0']);
  expect(password()).toBe('the operator');
});

test('an application with the name or a uuid of another affects the nodes of both', () => {
  const { stores, touchedBy } = setUp();
  const uuid = '11111111-1111-4111-8111-111111111111';
  stores.applications.set(storedApplication('shop', [entry('a', 'n0', { uuid })]));
  expect(touchedBy(() => stores.applications.set(storedApplication('other', [entry('a', 'n1', { uuid })])))).toEqual([
    'n0',
    'n1',
  ]);
  const namesake = storedApplication('shop2', [entry('x', 'n2')]);
  Object.assign(namesake.spec, { name: 'shop' });
  expect(touchedBy(() => stores.applications.set(namesake))).toEqual(['n0', 'n2']);
});

test('an application affects a node that still reports its containers, although no entry names the node', () => {
  const { stores, nodes, touchedBy } = setUp();
  const application = storedApplication('shop', [entry('a', 'n0')]);
  stores.applications.set(application);
  const reporting = changed(nodes[1] ?? storedNode('x'), (node) => {
    node.status = { observedGeneration: 1, microservices: [{ uuid: 'u', application: 'shop', state: 'RUNNING' }] };
  });
  expect(touchedBy(() => stores.nodes.set(reporting))).toEqual(['n1']);
  const removed = changed(application, ({ spec }) => {
    spec.microservices = [];
  });
  expect(touchedBy(() => stores.applications.set(removed))).toEqual(['n0', 'n1']);
});

test('states that were not used lately are computed again when they are read, and digests are not', () => {
  const stores = makeStores();
  const nodes = [storedNode('a'), storedNode('b')];
  fill(stores, { nodes });
  let computed = 0;
  const cache = createDesiredCache({
    stores,
    namespace: NAMESPACE,
    capacity: 1,
    desiredState: (inputs) => {
      computed++;
      return desiredState(inputs);
    },
  });
  const [a = '', b = ''] = nodes.map(({ spec }) => spec.uuid);
  cache.state(a);
  cache.state(b);
  cache.digests(a);
  expect(computed).toBe(2);
  expect(cache.state(a)).toBeDefined();
  expect(computed).toBe(3);
});

test('a deleted node has no state and leaves nothing behind', () => {
  const { stores, nodes, uuids, cache } = setUp();
  stores.nodes.remove(changed(nodes[0] ?? storedNode('x'), () => {}));
  expect(cache.digests(uuids[0] ?? '')).toBeUndefined();
  expect(cache.state(uuids[0] ?? '')).toBeUndefined();
});

/** Small numbers that look random and are the same each time. */
function createRandom(seed: number) {
  let state = seed;
  return (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state % below;
  };
}

test.for([1, 2, 3, 4, 5])(
  'an agent that polls, reads and stores ends with what is due, whatever changes when (%i)',
  async (seed) => {
    const { stores, cache, uuids } = setUp();
    const clock = makeClock();
    const longPolls = createLongPolls({ digests: cache.digests, clock, log: silentLog, perNode: 4 });
    using _ = cache.subscribe(longPolls.wake);
    const random = createRandom(seed);
    const uuid = uuids[0] ?? '';
    let has: Digests = {};
    let stop = false;
    const agent = (async () => {
      while (!stop) {
        const due = cache.digests(uuid) ?? {};
        if (Object.values(flagsOf(due, has)).includes(true)) {
          // Told of it; something may happen before it is read, and before it is stored.
          for (let i = random(3); i > 0; i--) await Promise.resolve();
          const read = cache.state(uuid)?.digests ?? {};
          for (let i = random(3); i > 0; i--) await Promise.resolve();
          has = read;
          continue;
        }
        await longPolls.arm({ uuid, have: has, seconds: 3_600, signal: { onGone: () => {} } });
      }
    })();
    let application = storedApplication('shop', []);
    for (let i = 0; i < 100; i++) {
      application = changed(application, ({ spec }) => {
        const count = random(4);
        const made = Array.from({ length: count }, (_, n) =>
          entry(`m${n}`, `n${random(3)}`, { config: { i: random(5) } }),
        );
        Object.assign(spec, { microservices: made });
      });
      stores.applications.set(application);
      if (random(2) === 0) await clock.advance(random(3));
    }
    await clock.advance(100);
    expect(has).toEqual(cache.digests(uuid));
    stop = true;
    longPolls.drain();
    await agent;
  },
);

test('a change for all nodes is processed in slices, and one for a single node goes first', async () => {
  const clock = makeClock();
  const looked: string[] = [];
  let now: Digests = { config: '1' };
  // Each look takes a millisecond of the virtual clock.
  const slow = { ...clock, now: () => clock.now() + looked.length };
  const longPolls = createLongPolls({
    digests: (uuid) => {
      looked.push(uuid);
      return now;
    },
    clock: slow,
    log: silentLog,
    perNode: 1,
  });
  const polls = Array.from({ length: 30 }, (_, i) =>
    longPolls.arm({ uuid: `n${i}`, have: now, seconds: 3_600, signal: { onGone: () => {} } }),
  );
  now = { config: '2' };
  longPolls.wake('all');
  await clock.advance(20);
  expect(looked).toHaveLength(8);
  longPolls.wake(new Set(['n25']));
  await clock.advance(1);
  expect(looked[8]).toBe('n25');
  await clock.advance(1_000);
  expect(await Promise.all(polls)).toEqual(Array(30).fill('due'));
  expect(looked).toHaveLength(30);
});
