import { describe, expect, test } from 'vitest';
import { makeApplication, makeClock, makeStores } from './_util.ts';
import { createFreshness } from './freshness.ts';

/** A replica over its own view of the same world. `live` is what the API server says of its version. */
function makeReplica(replica: string, live: () => Promise<string> = () => Promise.reject(new Error('no cluster'))) {
  const clock = makeClock();
  const { applications, nodes } = makeStores();
  let asked = 0;
  const liveVersion = () => {
    asked++;
    return live();
  };
  const freshness = createFreshness({ stores: [nodes, applications], replica, liveVersion, clock });
  for (const store of [nodes, applications]) store.swap([], '10');
  return {
    clock,
    applications,
    ...freshness,
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
  test('answers at once when it has seen what the agent has seen', () => {
    const [a, b] = [makeReplica('a'), makeReplica('b')];
    for (const { applications } of [a, b]) applications.set(app(20));
    expect(a.reached(b.mark(undefined))).toBeUndefined();
    expect(a.reached(undefined)).toBeUndefined();
  });

  test('waits for what another has seen, and answers once it has seen it, too', async () => {
    const [a, b] = [makeReplica('a'), makeReplica('b')];
    b.applications.set(app(20));
    const waiting = outcome(a.reached(b.mark(undefined)));
    await a.clock.advance(500);
    a.applications.set(app(20));
    await a.clock.advance(500);
    expect(await waiting).toBe('answers');
    expect(a.asked).toBe(0);
  });

  test('is not asked to have seen a bookmark that only another was sent', () => {
    const [a, b] = [makeReplica('a'), makeReplica('b')];
    b.applications.progress('900');
    expect(a.reached(b.mark(undefined))).toBeUndefined();
  });

  test('that does not come to know it refuses, and so it does without the cluster', async () => {
    for (const live of [async () => '30', () => Promise.reject(new Error('no cluster'))]) {
      const [a, b] = [makeReplica('a', live), makeReplica('b')];
      b.applications.set(app(20));
      const waiting = outcome(a.reached(b.mark(undefined)));
      await a.clock.advance(3_000);
      expect(await waiting).toMatch(/lags behind/);
    }
  });

  test('asks the API server no more often than once in five seconds', async () => {
    const [a, b] = [makeReplica('a', async () => '30'), makeReplica('b')];
    b.applications.set(app(20));
    const all = Array.from({ length: 50 }, () => outcome(a.reached(b.mark(undefined))));
    await a.clock.advance(3_000);
    expect(new Set(await Promise.all(all))).toEqual(new Set(['this replica lags behind: ask again']));
    expect(a.asked).toBe(1);
  });

  test('answers when the cluster itself is behind the mark, since it was restored', async () => {
    const [a, b] = [makeReplica('a', async () => '12'), makeReplica('b')];
    b.applications.set(app(20));
    const waiting = outcome(a.reached(b.mark(undefined)));
    await a.clock.advance(3_000);
    expect(await waiting).toBe('answers');
  });

  test('knows its own marks, also those of writes that its watch has not shown yet', () => {
    const a = makeReplica('a');
    a.applications.observe(app(20));
    expect(a.reached(a.mark(undefined))).toBeUndefined();
  });

  test('hands the mark on that it was shown, where that is newer', () => {
    const [a, b, c] = [makeReplica('a'), makeReplica('b'), makeReplica('c')];
    b.applications.set(app(20));
    a.applications.progress('25');
    const mark = a.mark(b.mark(undefined));
    expect(mark).toBe('a:0.20');
    expect(c.reached(mark)).toBeDefined();
    c.reached(mark)?.catch(() => {});
  });

  test.each(['', 'a', 'a:', ':1.2', 'a:1.x', `a:${'1'.repeat(30)}`, 'a:1.2\r\nx'])('takes no notice of %j', (mark) => {
    const a = makeReplica('a');
    expect(a.reached(mark)).toBeUndefined();
    expect(a.mark(mark)).toBe('a:0.0');
  });
});
