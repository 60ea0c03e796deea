import { describe, expect, test } from 'vitest';
import { makeApplication, makeClock, makeStores } from '../_util.ts';
import { createNotOlderThan } from './not-older-than.ts';

/** A replica over its own view of the same world. `live` is what the API server says of its version. */
function makeReplica(replica: string, live: () => Promise<string> = () => Promise.reject(new Error('no cluster'))) {
  const clock = makeClock();
  const { applications, nodes } = makeStores();
  let asked = 0;
  const liveVersion = () => {
    asked++;
    return live();
  };
  const notOlderThan = createNotOlderThan({ stores: [nodes, applications], replica, liveVersion, clock });
  for (const store of [nodes, applications]) store.swap([], '10');
  return {
    clock,
    applications,
    ...notOlderThan,
    get asked() {
      return asked;
    },
  };
}

const app = (version: number) => makeApplication(`a-${version}`, [], { resourceVersion: String(version) });
const outcome = (promise: Promise<void> | undefined) =>
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

  test('reads the API server at most once in five seconds', async () => {
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
    expect(bound).toBe('a:0.20');
    expect(c.reached(bound)).toBeDefined();
    c.reached(bound)?.catch(() => {});
  });

  test.each(['', 'a', 'a:', ':1.2', 'a:1.x', `a:${'1'.repeat(30)}`, 'a:1.2\r\nx'])(
    'ignores the malformed bound %j',
    (bound) => {
      const a = makeReplica('a');
      expect(a.reached(bound)).toBeUndefined();
      expect(a.bound(bound)).toBe('a:0.0');
    },
  );
});
