import { describe, expect, test } from 'vitest';
import { storedApplication } from '../../../testing/stored.ts';
import { makeClock, makeStores } from '../_util.ts';
import { createNotOlderThan } from './not-older-than.ts';

/** A replica over its own view of the same world. `live` is what the API server says of its version. */
function makeReplica(replica: string, live: () => Promise<string> = () => Promise.reject(new Error('no cluster'))) {
  const clock = makeClock();
  const { applications, nodes } = makeStores();
  const stores = { nodes, applications };
  let asked = 0;
  const liveVersion = () => {
    asked++;
    return live();
  };
  /** stores that were to be listed again, by name */
  const listed: string[] = [];
  const listAgain = (name: string) => void listed.push(name);
  const { bound, reached } = createNotOlderThan({ stores, replica, liveVersion, listAgain, clock });
  for (const store of Object.values(stores)) store.swap([], '10');
  return {
    clock,
    nodes,
    applications,
    listed,
    bound,
    reached: (presented: string | undefined, node = 'edge-1') => reached(presented, node),
    get asked() {
      return asked;
    },
  };
}

const app = (version: number) => storedApplication(`a-${version}`, [], { resourceVersion: String(version) });
const outcome = (promise: Promise<string> | undefined) =>
  Promise.resolve(promise).then(
    () => 'answers',
    (error: Error) => error.message,
  );

describe('a replica', () => {
  test('responds at once when it has the state of the last response to the agent', () => {
    const [a, b] = [makeReplica('a'), makeReplica('b')];
    for (const { applications } of [a, b]) applications.set(app(20));
    expect(a.reached(b.bound(undefined))).toBeUndefined();
    expect(a.reached(undefined)).toBeUndefined();
  });

  test('waits for a state that another replica has, and responds once it has it', async () => {
    const [a, b] = [makeReplica('a'), makeReplica('b')];
    b.applications.set(app(20));
    const waiting = outcome(a.reached(b.bound(undefined)));
    await a.clock.advance(500);
    a.applications.set(app(20));
    await a.clock.advance(500);
    expect(await waiting).toBe('answers');
    expect(a.asked).toBe(0);
  });

  test('needs no bookmark that only another replica received', () => {
    const [a, b] = [makeReplica('a'), makeReplica('b')];
    b.applications.progress('900');
    expect(a.reached(b.bound(undefined))).toBeUndefined();
  });

  test('that does not reach the bound responds 503, also without the API server', async () => {
    for (const live of [async () => '30', () => Promise.reject(new Error('no cluster'))]) {
      const [a, b] = [makeReplica('a', live), makeReplica('b')];
      b.applications.set(app(20));
      const waiting = outcome(a.reached(b.bound(undefined)));
      await a.clock.advance(3_000);
      expect(await waiting).toMatch(/lags behind/);
    }
  });

  test('reads the API server once for all requests that wait at the same time', async () => {
    const [a, b] = [makeReplica('a', async () => '30'), makeReplica('b')];
    b.applications.set(app(20));
    const all = Array.from({ length: 50 }, () => outcome(a.reached(b.bound(undefined))));
    await a.clock.advance(3_000);
    expect(new Set(await Promise.all(all))).toEqual(new Set(['this replica lags behind: ask again']));
    expect(a.asked).toBe(1);
  });

  test('responds when the API server itself is behind the bound, since etcd was restored', async () => {
    const [a, b] = [makeReplica('a', async () => '12'), makeReplica('b')];
    b.applications.set(app(20));
    const waiting = outcome(a.reached(b.bound(undefined)));
    await a.clock.advance(3_000);
    expect(await waiting).toBe('answers');
    expect(a.listed).toEqual([]);
  });

  test('leaves out of the next bound what is ahead of the API server, so that the agent is served at once from then on', async () => {
    const [a, c] = [makeReplica('a', async () => '12'), makeReplica('c')];
    const waiting = a.reached('old:11.900');
    a.nodes.progress('11');
    await a.clock.advance(3_000);
    const valid = await waiting;
    expect(valid).toBe('old:nodes=11');
    expect(a.bound(valid)).toBe('a:nodes=11');
    c.nodes.progress('12');
    expect(c.reached(a.bound(valid))).toBeUndefined();
  });

  test('lists a store again that has not come as far as a bound of another datastore, and serves the next request', async () => {
    // Copied by kubectl into an empty etcd: the new datastore is at 500, its applications were last listed at 10.
    const a = makeReplica('a', async () => '500');
    const waiting = outcome(a.reached('old:0.300'));
    await a.clock.advance(3_000);
    expect(await waiting).toMatch(/lags behind/);
    expect(a.listed).toEqual(['applications']);
    a.applications.swap([], '501');
    expect(a.reached('old:0.300')).toBeUndefined();
  });

  test('lists all stores again that are behind, also when others are ignored', async () => {
    const a = makeReplica('a', async () => '500');
    const first = outcome(a.reached('old:900.300'));
    await a.clock.advance(3_000);
    expect(await first).toMatch(/lags behind/);
    expect(a.listed).toEqual(['applications']);
    const b = makeReplica('b', async () => '500');
    const second = outcome(b.reached('old:400.300'));
    await b.clock.advance(3_000);
    expect(await second).toMatch(/lags behind/);
    expect(b.listed).toEqual(['nodes', 'applications']);
  });

  test('serves a request whose store catches up while the API server is read', async () => {
    const a = makeReplica('a', async () => {
      a.applications.progress('31');
      return '31';
    });
    const waiting = outcome(a.reached('b:0.30'));
    await a.clock.advance(3_000);
    expect(await waiting).toBe('answers');
    expect(a.listed).toEqual([]);
  });

  test('lists nothing again without the API server', async () => {
    const a = makeReplica('a');
    const waiting = outcome(a.reached('b:0.30'));
    await a.clock.advance(3_000);
    expect(await waiting).toMatch(/lags behind/);
    expect(a.listed).toEqual([]);
  });

  test('lists a store again at most once in 30 seconds, and at most three times in ten minutes for one node', async () => {
    const a = makeReplica('a', async () => '500');
    const ask = async (node: string) => {
      const waiting = outcome(a.reached('old:0.300', node));
      await a.clock.advance(3_000);
      expect(await waiting).toMatch(/lags behind/);
    };
    for (const node of ['n1', 'n2', 'n3']) await ask(node);
    expect(a.listed).toHaveLength(1);
    for (let i = 0; i < 10; i++) {
      await a.clock.advance(30_000);
      await ask('n1');
    }
    expect(a.listed).toHaveLength(3);
    await ask('n2');
    expect(a.listed).toHaveLength(4);
  });

  test('does not take a version that was read before the request for a proof that the bound is of another datastore', async () => {
    let live = '20';
    const a = makeReplica('a', async () => live);
    const first = outcome(a.reached('b:0.20'));
    await a.clock.advance(3_000);
    expect(await first).toMatch(/lags behind/);
    // Another replica shows a newer change to the agent, which presents it here at once.
    live = '25';
    const second = outcome(a.reached('b:0.25'));
    await a.clock.advance(3_000);
    expect(await second).toMatch(/lags behind/);
    expect(a.asked).toBe(2);
  });

  test('has reached its own bounds, also those of writes that its watch has not shown yet', () => {
    const a = makeReplica('a');
    a.applications.observe(app(20));
    expect(a.reached(a.bound(undefined))).toBeUndefined();
  });

  test('passes the presented bound on where that is newer', () => {
    const [a, b, c] = [makeReplica('a'), makeReplica('b'), makeReplica('c')];
    b.applications.set(app(20));
    a.applications.progress('25');
    const bound = a.bound(b.bound(undefined));
    expect(bound).toBe('a:applications=20');
    expect(c.reached(bound)).toBeDefined();
    c.reached(bound)?.catch(() => {});
  });

  test('keeps the versions of stores that only another release has', () => {
    expect(makeReplica('a').bound('b:bus=7,nodes=20')).toBe('a:bus=7,nodes=20');
  });

  test('reads the bound of a former release, which has the versions alone', () => {
    const a = makeReplica('a');
    expect(a.bound('old:12.11.0.0.0.0.0.0.0.0.3')).toBe('a:nodes=12,applications=11,volumeMounts=3');
  });

  test.each([
    '',
    'a',
    'a:',
    ':1.2',
    'a:1.x',
    `a:${'1'.repeat(30)}`,
    'a:1.2\r\nx',
    'a:nodes=x',
    'a:nodes=1,,',
    ':nodes=1',
  ])('ignores the malformed bound %j', (bound) => {
    const a = makeReplica('a');
    expect(a.reached(bound)).toBeUndefined();
    expect(a.bound(bound)).toBe('a:');
  });
});
