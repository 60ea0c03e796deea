import { expect, test } from 'vitest';
import { createVirtualClock } from '../kube/_util.ts';
import { createDirectory } from './directory.ts';
import { createLeaderPlaces, type LeaderPlaces, PLACE_TIMES } from './leader-places.ts';
import { createPlaces } from './places.ts';
import type { SessionTarget } from './rules/session.ts';

const EXEC: SessionTarget = { kind: 'exec', node: 'n', microservice: 'm' };
const LOG: SessionTarget = { kind: 'log', node: 'n', microservice: 'm', tail: { lines: 1, follow: true } };
const NODE_LOG: SessionTarget = { kind: 'log', node: 'n', tail: { lines: 1, follow: true } };

test('a sixth session of one microservice has no place until one of the five is over', async () => {
  const places = createPlaces();
  const five = await Promise.all(Array.from({ length: 5 }, () => places.take(EXEC)));
  expect(await places.take(EXEC)).toEqual({ refused: 'this microservice has 5 exec sessions, which is the limit' });
  expect(await places.take(LOG)).toHaveProperty('id');
  expect(await places.take({ ...EXEC, microservice: 'other' })).toHaveProperty('id');
  const [first] = five;
  if (first && 'id' in first) for (let i = 0; i < 2; i++) places.leave(first.id);
  expect(await places.take(EXEC)).toHaveProperty('id');
  expect(await places.take(EXEC)).toHaveProperty('refused');
});

test('where one user has all five sessions of a microservice, one other user gets a sixth', async () => {
  const places = createPlaces();
  const of = (user: string) => places.take({ ...EXEC, user });
  for (let i = 0; i < 5; i++) expect(await of('ann')).toHaveProperty('id');
  expect(await of('ann')).toHaveProperty('refused');
  expect(await of('ben')).toHaveProperty('id');
  for (const user of ['ben', 'cleo']) expect(await of(user)).toHaveProperty('refused');
});

test('where two users have the five sessions of a microservice, a third one gets none', async () => {
  const places = createPlaces();
  const of = (user: string) => places.take({ ...EXEC, user });
  for (const user of ['ann', 'ann', 'ann', 'ann', 'ben']) expect(await of(user)).toHaveProperty('id');
  expect(await of('cleo')).toHaveProperty('refused');
});

test('the logs of a node have five places of their own', async () => {
  const places = createPlaces();
  for (let i = 0; i < 5; i++) expect(await places.take(NODE_LOG)).toHaveProperty('id');
  expect(await places.take(NODE_LOG)).toEqual({ refused: 'this node has 5 log sessions, which is the limit' });
  expect(await places.take({ ...NODE_LOG, node: 'other' })).toHaveProperty('id');
});

test('a place is in no list before its session begins', async () => {
  const places = createPlaces();
  const changes: string[] = [];
  places.subscribe((node) => void changes.push(node));
  const place = await places.take(EXEC);
  const id = 'id' in place ? place.id : '';
  expect(places.lists('n').exec).toEqual([]);
  expect(changes).toEqual([]);
  places.put({ id, target: EXEC, phase: 'pending', attempt: 1 });
  expect(places.lists('n').exec).toMatchObject([{ sessionId: id, status: 'PENDING' }]);
  places.put({ id, target: EXEC, phase: 'active', attempt: 1 });
  expect(places.lists('n').exec).toMatchObject([{ sessionId: id, status: 'ACTIVE' }]);
  expect(changes).toEqual(['n']);
});

/** A leader that knows what there is. */
async function leader() {
  const clock = createVirtualClock();
  const directory = createDirectory();
  const places = createLeaderPlaces({ directory, owner: 'self', clock, times: PLACE_TIMES });
  places.begin();
  await goOn(clock, places, PLACE_TIMES.settle);
  return { clock, directory, places };
}
const A = { owner: 'a/1', address: '192.0.2.1:1' };
const B = { owner: 'b/1', address: '192.0.2.2:1' };

/** Time passes for a leader that looks often. */
async function goOn(clock: ReturnType<typeof createVirtualClock>, places: LeaderPlaces, ms: number) {
  for (let left = ms; left > 0; left -= 1_000) {
    await clock.advance(Math.min(left, 1_000));
    places.sweep();
  }
}
const session = (id: string) => ({ id, target: EXEC, phase: 'pending' as const, attempt: 1 });

test('a new leader grants nothing before every replica could say what it has', async () => {
  const { clock, places } = await leader();
  places.end();
  places.begin();
  expect(() => places.take(A, 'x', EXEC)).toThrow(
    expect.objectContaining({ status: 503, headers: { 'retry-after': '5' } }),
  );
  expect(await places.watch(A, { cursor: 0 })).not.toHaveProperty('changes');
  await clock.advance(PLACE_TIMES.settle);
  expect(places.take(A, 'x', EXEC)).not.toHaveProperty('refused');
});

test('a new leader without other replicas waits for none, and one with others until each has said all it has', async () => {
  const { places } = await leader();
  places.begin();
  places.expect([]);
  expect(places.isSettled).toBe(true);

  places.begin();
  places.publish(A, { isAll: true, sessions: [], gone: [] });
  places.expect(['a', 'b']);
  places.publish(B, { isAll: false, sessions: [], gone: [] });
  expect(places.isSettled).toBe(false);
  places.publish(B, { isAll: true, sessions: [session('of b')], gone: [] });
  expect(places.isSettled).toBe(true);

  places.end();
  places.expect([]);
  expect(places.isSettled).toBe(false);
});

test('a leader that stood still forgets no replica before that had the time to be heard', async () => {
  const { clock, directory, places } = await leader();
  places.publish(A, { isAll: true, sessions: [session('of a')], gone: [] });
  places.take(A, 'granted', LOG);
  await clock.advance(2 * PLACE_TIMES.silent);
  places.sweep();
  expect([directory.get('of a'), directory.get('granted')]).not.toContain(undefined);
  await goOn(clock, places, PLACE_TIMES.silent);
  expect([directory.get('of a'), directory.get('granted')]).toEqual([undefined, undefined]);
});

test('a place that its replica does not name returns, one that it names stays', async () => {
  const { clock, directory, places } = await leader();
  places.take(A, 'lost', EXEC);
  places.take(A, 'kept', EXEC);
  // Everything that the replica has, said before the answer arrived there.
  places.publish(A, { isAll: true, sessions: [], gone: [] });
  expect(directory.get('kept')).toBeDefined();
  places.publish(A, { isAll: false, sessions: [session('kept')], gone: [] });
  await goOn(clock, places, PLACE_TIMES.unconfirmed);
  expect(directory.get('lost')).toBeUndefined();
  expect(directory.get('kept')).toMatchObject({ phase: 'pending' });
});

test('the sessions of a replica that says nothing, or whose address another process has, are gone', async () => {
  const { clock, directory, places } = await leader();
  places.publish(A, { isAll: true, sessions: [session('of a')], gone: [] });
  const { registration } = places.publish(B, { isAll: true, sessions: [session('of b')], gone: ['of a'] });
  expect(directory.get('of a')).toBeDefined();
  await goOn(clock, places, PLACE_TIMES.silent - 1);
  expect(places.publish(B, { isAll: false, sessions: [], gone: [] }).registration).toBe(registration);
  await clock.advance(1);
  places.sweep();
  expect(directory.get('of a')).toBeUndefined();
  places.publish({ ...B, owner: 'b/2' }, { isAll: true, sessions: [], gone: [] });
  expect(directory.get('of b')).toBeUndefined();
});

test('a replica says nothing of the sessions of another one, and nothing of those of the leader', async () => {
  const { directory, places } = await leader();
  places.publish(A, { isAll: true, sessions: [session('of a')], gone: [] });
  directory.put({ ...session('of the leader'), owner: 'self', address: '' });
  const ids = ['of a', 'of the leader'];
  const before = ids.map(directory.get);
  places.publish(B, { isAll: true, sessions: ids.map(session), gone: ids });
  for (const id of ids) expect(places.take(B, id, LOG)).toHaveProperty('refused');
  expect(ids.map(directory.get)).toEqual(before);
});

test('a held request ends with a change and has only what changed', async () => {
  const { places } = await leader();
  places.publish(A, { isAll: true, sessions: [session('one')], gone: [] });
  const all = (await places.watch(A, { cursor: 0 })).changes;
  expect(all).toMatchObject({ isAll: true, nodes: { n: [{ id: 'one' }] } });
  const held = places.watch(A, all ?? { cursor: 0 });
  places.publish(A, { isAll: false, sessions: [{ ...session('two'), target: { ...EXEC, node: 'o' } }], gone: [] });
  const { changes } = await held;
  expect(changes).toMatchObject({ isAll: false, nodes: { o: [{ id: 'two' }] } });
  expect(Object.keys(changes?.nodes ?? {})).toEqual(['o']);
});

test('a request that was held for its time ends with nothing', async () => {
  const { clock, places } = await leader();
  const all = (await places.watch(A, { cursor: 0 })).changes;
  const held = places.watch(A, all ?? { cursor: 0 });
  await clock.advance(PLACE_TIMES.hold);
  expect((await held).changes).toMatchObject({ isAll: false, nodes: {} });
});
