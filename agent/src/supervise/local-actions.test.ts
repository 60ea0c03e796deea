import { expect, test } from 'vitest';
import type { MicroserviceRecord } from '../domain/record.ts';
import type { Container } from '../engine-port/container.ts';
import { runKey } from '../engine-port/container.ts';
import { EngineError } from '../engine-port/error.ts';
import { LocalActions } from './local-actions.ts';
import { makeContainer, makeDesired, makeEntry, makeRecord, UUID } from './plan/_util.ts';

const entry = makeEntry({ revision: 'r-7', rebuildCount: 2 });

function createFixture({
  containers = [] as Container[],
  desired = [entry],
  isBusy = false,
  unsaved = undefined as string | undefined,
  known = {} as Partial<MicroserviceRecord>,
} = {}) {
  let record: MicroserviceRecord = makeRecord(entry, { lastGood: makeEntry({ revision: 'r-6' }).view, ...known });
  const calls: string[] = [];
  const call = (name: string) => async (id: string) => void calls.push(`${name} ${id}`);
  const actions = new LocalActions({
    engine: {
      stop: call('stop'),
      remove: call('remove'),
      kill: async (id, signal) => void calls.push(`${signal} ${id}`),
    },
    records: { all: new Map(), get: () => record, isStopSaved: () => unsaved === undefined, problem: unsaved ?? '' },
    scheduler: {
      find: () => (isBusy ? ({} as never) : undefined),
      exclusively: (_uuid, act) => act(new AbortController().signal),
    },
    containers: () => containers,
    desired: () => makeDesired(desired),
    noteStop: () => undefined,
    change: (_uuid, change) => {
      record = change(record);
    },
    until: async (condition) => condition(),
  });
  return { actions, calls, record: () => record };
}

test('a local stop is recorded with the revision and the rebuild count', () => {
  const { actions, record } = createFixture();
  actions.stop(UUID);
  expect(record().stoppedLocally).toEqual({ revision: 'r-7', rebuildCount: 2 });
});

test('a local stop of a microservice on hold is recorded with the revision of the last good view', () => {
  const { actions, record } = createFixture({ desired: [] });
  actions.stop(UUID);
  expect(record().stoppedLocally).toEqual({ revision: 'r-6', rebuildCount: 0 });
});

test('a local start ends a local stop and the back-off after failures', () => {
  const { actions, record } = createFixture();
  actions.stop(UUID);
  actions.start(UUID);
  expect(record()).toMatchObject({ live: { startedLocally: true } });
  expect([record().stoppedLocally, record().failure, record().crash]).toEqual([undefined, undefined, undefined]);
});

test('the error of a failed attempt ends with its failure when a person starts again, the error of a crash stays', () => {
  const failure = {
    step: 'image',
    target: 't',
    count: 1,
    at: 0,
    notBefore: 10,
    reason: 'r',
    message: 'no image',
  } as const;
  for (const [message, error] of [
    ['no image', undefined],
    ['exitCode=3', { message: 'exitCode=3', at: 0 }],
  ] as const) {
    const { actions, record } = createFixture({ known: { failure, error: { message, at: 0 } } });
    actions.start(UUID);
    expect([record().failure, record().error]).toEqual([undefined, error]);
  }
});

test('a local restart records the run that is to end', () => {
  const running = makeContainer(entry);
  const { actions, record } = createFixture({ containers: [running] });
  actions.restart(UUID);
  expect(record().live.restart).toEqual({ key: runKey(running) });
});

test('a local restart of a microservice that does not run starts it', () => {
  const { actions, record } = createFixture({ containers: [makeContainer(entry, { state: 'exited' })] });
  actions.restart(UUID);
  expect(record().live.startedLocally).toBe(true);
});

test('a local removal stops and removes every container of the microservice, and no other', async () => {
  const [old, fresh] = [makeContainer(entry), makeContainer(entry, { generation: 2, state: 'created' })];
  const other = makeContainer(makeEntry({ uuid: '22222222-2222-4222-8222-222222222222' }));
  const { actions, calls, record } = createFixture({ containers: [old, fresh, other] });
  await actions.remove(UUID);
  expect(calls).toEqual([`stop ${old.id}`, `remove ${old.id}`, `stop ${fresh.id}`, `remove ${fresh.id}`]);
  expect(record().live.stopping).toBe(fresh.id);
});

test('a local removal of a microservice that stays busy fails and removes nothing', async () => {
  const { actions, calls } = createFixture({ containers: [makeContainer(entry)], isBusy: true });
  await expect(actions.remove(UUID)).rejects.toEqual(new EngineError('Conflict', 'the microservice is busy'));
  expect(calls).toEqual([]);
});

test('a signal is sent only to the running container', async () => {
  const running = makeContainer(entry, { generation: 2 });
  const { actions, calls } = createFixture({ containers: [makeContainer(entry, { state: 'exited' }), running] });
  await actions.kill(UUID, 'SIGHUP');
  expect(calls).toEqual([`SIGHUP ${running.id}`]);
});

test('a stop, a start and a restart take effect and answer why they are not saved', () => {
  const { actions, record } = createFixture({ unsaved: 'the disk is full' });
  expect(actions.stop(UUID)).toBe('the disk is full');
  expect(record().stoppedLocally).toBeDefined();
  expect(actions.start(UUID)).toBe('the disk is full');
  expect(actions.restart(UUID)).toBe('the disk is full');
  expect(createFixture().actions.stop(UUID)).toBeUndefined();
});
