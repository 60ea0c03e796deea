import { expect, test } from 'vitest';
import type { Entry } from '../../domain/entry.ts';
import type { Container } from '../../engine-port/container.ts';
import { makeContainer, makeDesired, makeEntry, makeHold, makeRecord } from './_util.ts';
import { unneededContainers } from './unneeded.ts';

const entry = makeEntry({ revision: 'new' });
const record = makeRecord(entry, { lastGood: makeEntry({ revision: 'good' }).view });
const stopped = (id: string, change: Partial<Container> = {}) =>
  makeContainer(entry, { id, state: 'exited', startedAt: 100, revision: 'old', ...change });

const cases: Record<string, [Container[], readonly Entry[] | undefined, string[]]> = {
  'a stopped container of a microservice that is not wanted': [[stopped('a')], [], ['a']],
  'a container of an unwanted microservice that has never run': [
    [stopped('a', { state: 'created', startedAt: 0 })],
    [],
    ['a'],
  ],
  'not one that runs': [[stopped('a', { state: 'running' })], [], []],
  'not one that a person paused': [[stopped('a', { paused: true })], [], []],
  'nothing while it is not known what is wanted': [[stopped('a')], undefined, []],
  'not the only container of a wanted microservice': [[stopped('a')], [entry], []],
  'not the only container of a microservice on hold': [[stopped('a')], [makeHold(entry.uuid)], []],
  'a container of a wanted microservice that ran before the latest one': [
    [stopped('a'), stopped('b', { startedAt: 200, state: 'running' })],
    [entry],
    ['a'],
  ],
  'not the container of the last good revision': [
    [stopped('a', { revision: 'good' }), stopped('b', { startedAt: 200 })],
    [entry],
    [],
  ],
  'not a new container that waits for its start': [
    [stopped('a'), stopped('b', { startedAt: 0, state: 'created' })],
    [entry],
    [],
  ],
};
for (const [title, [containers, desired, want]] of Object.entries(cases))
  test(`unneeded is ${title}`, () => {
    const unneeded = unneededContainers(containers, makeDesired(desired), new Map([[entry.uuid, record]]));
    expect(unneeded.map(({ id }) => id)).toEqual(want);
  });
