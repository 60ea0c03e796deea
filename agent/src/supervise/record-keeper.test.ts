import { expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { memoryDatabase } from '../state/database.ts';
import { makeEntry, makeRecord, UUID } from './plan/_util.ts';
import { RecordKeeper } from './record-keeper.ts';

const record = makeRecord(makeEntry());

function createFixture() {
  const memory = memoryDatabase();
  memory.saveRecords([record], []);
  const writes: string[] = [];
  let failure: Error | undefined;
  let errors = 0;
  const database = {
    ...memory,
    saveRecords: (...[changed, removed]: Parameters<typeof memory.saveRecords>) => {
      if (failure) throw failure;
      writes.push(`${changed.map(({ uuid }) => uuid)} -${removed}`);
      memory.saveRecords(changed, removed);
    },
  };
  const keeper = new RecordKeeper({ database, log: silentLog, metrics: { add: () => errors++ } });
  return {
    keeper,
    memory,
    writes,
    errors: () => errors,
    fail: (error?: Error) => {
      failure = error;
    },
  };
}

test('records are loaded from the database', () => {
  const { keeper } = createFixture();
  expect(keeper.get(UUID)).toEqual({ ...record, live: {} });
});

test('a record that has changed is saved once', () => {
  const { keeper, memory, writes } = createFixture();
  keeper.update(UUID, (one) => ({ ...one, restartCount: 4 }));
  keeper.save();
  keeper.save();
  expect(writes).toEqual([`${UUID} -`]);
  expect(memory.records().get(UUID)?.restartCount).toBe(4);
});

test('a change of live data causes no write', () => {
  const { keeper, writes } = createFixture();
  keeper.update(UUID, (one) => ({ ...one, live: { startedLocally: true } }));
  keeper.save();
  expect(writes).toEqual([]);
});

test('a record that was removed is removed from the database', () => {
  const { keeper, memory } = createFixture();
  keeper.remove(new Set([UUID]));
  keeper.save();
  expect(memory.records().size).toBe(0);
});

test('an update of a microservice without a record does nothing', () => {
  const { keeper } = createFixture();
  keeper.update('other', (one) => ({ ...one, restartCount: 4 }));
  expect([...keeper.all.keys()]).toEqual([UUID]);
});

test('records that cannot be saved stay in memory, cause a problem, and are saved later', () => {
  const { keeper, memory, errors, fail } = createFixture();
  fail(new Error('disk full'));
  keeper.update(UUID, (one) => ({ ...one, restartCount: 4 }));
  keeper.save();
  expect([keeper.problem, keeper.get(UUID)?.restartCount, errors()]).toEqual(['disk full', 4, 1]);
  fail();
  keeper.save();
  expect([keeper.problem, memory.records().get(UUID)?.restartCount]).toEqual(['', 4]);
});
