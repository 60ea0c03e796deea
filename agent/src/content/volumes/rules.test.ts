import { expect, test } from 'vitest';
import { makeHold, makeView } from '../../supervise/plan/_util.ts';
import { HOUR, having } from './_machine.ts';
import { createMountIndex } from './mount-index.ts';
import { destroyRefusal, type VolumeFacts } from './rules.ts';
import { GRACE, updateUnreferenced } from './unreferenced.ts';
import { isWanted, wantedVolumes } from './wanted.ts';

const NO_VIEWS = { views: () => [], sourceOf: () => 'local' as const };
const A = 'a'.repeat(8);
const B = 'b'.repeat(8);
const OF_A = { uuid: A, name: 'db' };
const POOL = { uuid: null, name: 'pool' };

const facts = (change: Partial<VolumeFacts> = {}): VolumeFacts => ({
  wanted: wantedVolumes([], NO_VIEWS),
  records: new Map([
    [`data/${A}/db`, { at: 0, since: 0 }],
    ['shared/pool', { at: 0, since: 0 }],
  ]),
  now: GRACE,
  mountedBy: () => undefined,
  isControlPlane: () => false,
  ...change,
});
const wantsA = { wanted: wantedVolumes([having(A, 'db', '+pool')], NO_VIEWS) };
const unknown = { wanted: undefined };
const mounted = { mountedBy: () => 'the container x' };
const unclear = { wanted: wantedVolumes([makeHold(B)], NO_VIEWS) };
const controlPlane = { isControlPlane: (uuid: string) => uuid === A };
const cleanup = { now: 0, records: new Map([[`data/${A}/db`, { at: 0, since: 0, cleanup: true as const }]]) };

type Way = Parameters<typeof destroyRefusal>[0];
const CASES: [Way, string, typeof OF_A | typeof POOL, Partial<VolumeFacts>, without: boolean, withForce: boolean][] = [
  // way, situation, volume, facts, destroyed without force, destroyed with force
  ['destroy', 'nothing wants it', OF_A, {}, true, true],
  ['destroy', 'nothing wants it, within the grace', OF_A, { now: 1 }, true, true],
  ['destroy', 'its microservice is wanted', OF_A, wantsA, false, true],
  ['destroy', 'it is mounted', OF_A, mounted, false, false],
  ['destroy', 'it is mounted and wanted', OF_A, { ...mounted, ...wantsA }, false, false],
  ['destroy', 'the desired state is not known', OF_A, unknown, false, true],
  ['destroy', 'it is of the control plane', OF_A, controlPlane, false, false],
  ['destroy', 'nothing wants the shared one', POOL, {}, true, true],
  ['destroy', 'the shared one has a consumer', POOL, wantsA, false, false],
  ['destroy', 'the shared one is mounted', POOL, mounted, false, false],
  ['destroy', 'it is not known who has the shared one', POOL, unclear, false, true],
  ['destroy', 'the desired state is not known, the shared one', POOL, unknown, false, true],
  ['prune', 'the grace is over', OF_A, {}, true, true],
  ['prune', 'the grace lacks a moment', OF_A, { now: GRACE - 1 }, false, true],
  ['prune', 'its record is lost', OF_A, { records: new Map() }, false, true],
  ['prune', 'a person removed it with its volumes', OF_A, cleanup, true, true],
  ['prune', 'its microservice is wanted', OF_A, wantsA, false, false],
  ['prune', 'it is mounted', OF_A, mounted, false, false],
  ['prune', 'it is mounted, and a person removed it with its volumes', OF_A, { ...cleanup, ...mounted }, false, false],
  ['prune', 'the desired state is not known', OF_A, unknown, false, false],
  ['prune', 'it is of the control plane', OF_A, controlPlane, false, false],
  ['prune', 'the shared one has a consumer', POOL, wantsA, false, false],
  ['prune', 'it is not known who has the shared one', POOL, unclear, false, false],
  ['purge', 'nothing wants it, within the grace', OF_A, { now: 1 }, true, true],
  ['purge', 'its microservice is wanted', OF_A, wantsA, false, false],
  ['purge', 'it is mounted', OF_A, mounted, false, false],
  ['purge', 'it is of the control plane', OF_A, controlPlane, false, false],
  ['purge', 'the desired state is not known', OF_A, unknown, false, false],
  ['purge', 'the shared one has a consumer', POOL, wantsA, false, false],
];

test.each(CASES)('%s when %s: destroyed or not', (way, _, key, change, without, withForce) => {
  expect(destroyRefusal(way, key, facts(change), false) === undefined).toBe(without);
  expect(destroyRefusal(way, key, facts(change), true) === undefined).toBe(withForce);
});

test('a shared volume is wanted by the desired view, by the view as it was sent, and by the view of the last run', () => {
  const views = [having(A, '+sent'), having(A, '+good')].flatMap((entry) => (entry.kind === 'run' ? [entry.view] : []));
  const wanted = wantedVolumes([having(A, '+next')], { ...NO_VIEWS, views: () => views });
  expect(['next', 'sent', 'good', 'other'].map((name) => isWanted(`shared/${name}`, wanted))).toEqual([
    ...[true, true, true, false],
  ]);
  // An entry on hold has the names of its last view.
  expect(wantedVolumes([makeHold(A)], { ...NO_VIEWS, views: () => views })?.shared.get('good')).toEqual([
    { uuid: A, application: 'app', name: makeView({ uuid: A }).name, source: 'local' },
  ]);
});

const step = (wanted: VolumeFacts['wanted'], now: number) => ({
  volumes: [`data/${A}/db`],
  isComplete: true,
  wanted,
  now,
  wall: 7,
});
const NONE = wantedVolumes([], NO_VIEWS);
const WANTED = wantedVolumes([having(A)], NO_VIEWS);

test('the time of a volume begins when nothing wants it, ends when something does, and begins anew with a lost record', () => {
  const first = updateUnreferenced(new Map(), step(NONE, 100));
  expect(first.get(`data/${A}/db`)).toEqual({ at: 7, since: 100 });
  expect(updateUnreferenced(first, step(NONE, 100 + HOUR))).toBe(first);
  expect(updateUnreferenced(first, step(undefined, 100 + HOUR))).toBe(first);
  expect(updateUnreferenced(first, step(WANTED, 200))).toEqual(new Map());
  // The counted time was lost, and its record was not.
  expect(updateUnreferenced(first, step(NONE, 5)).get(`data/${A}/db`)).toEqual({ at: 7, since: 5 });
  expect(updateUnreferenced(first, { ...step(NONE, 300), volumes: [] }).size).toBe(0);
  expect(updateUnreferenced(first, { ...step(NONE, 300), volumes: [], isComplete: false }).size).toBe(1);
});

const BY = (at: string, isWhole = true) => [{ at, by: 'x', isWhole }];
const MOUNTS: [string, ReturnType<typeof BY>, used: boolean][] = [
  ['the volume itself', BY('/d/volumes/data/u/n'), true],
  ['a directory in it', BY('/d/volumes/data/u/n/deep/er'), true],
  ['the directory of its microservice, by a container', BY('/d/volumes/data/u'), true],
  ['the directory of volumes, by a container', BY('/d/volumes'), true],
  ['the disk that the directory of volumes lies on', BY('/d/volumes', false), false],
  ['the directory of the agent', BY('/d'), false],
  ['the root of the machine', BY('/'), false],
  ['another volume', BY('/d/volumes/data/u/n2'), false],
  ['a directory whose name begins as its own', BY('/d/volumes/data/u/n.old/x'), false],
];
test.each(MOUNTS)('whether %s counts as a mount of the volume', (_, uses, used) => {
  expect(createMountIndex(uses)('/d/volumes/data/u/n', 3) !== undefined).toBe(used);
});
