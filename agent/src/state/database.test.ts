import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { makeEntry, makeRecord, UUID } from '../supervise/plan/_util.ts';
import { type Database, memoryDatabase } from './database.ts';
import { identityFile, newIdentity, newKey } from './identity.ts';
import { openSqliteDatabase } from './sqlite-database.ts';

let folder: string;
let path: string;
beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder, 'data', 'agent.db');
});

const row = makeRecord(makeEntry(), { restartCount: 3, live: { startedLocally: true } });
const saved = { ...row, live: {} };

const kinds: Record<string, () => { database: Database; reopen: () => Database }> = {
  'a database in memory': () => {
    const database = memoryDatabase();
    return { database, reopen: () => database };
  },
  'a database on disk': () => {
    const { database } = openSqliteDatabase(path, 0);
    return {
      database,
      reopen: () => {
        database[Symbol.dispose]();
        return openSqliteDatabase(path, 0).database;
      },
    };
  },
};

for (const [kind, make] of Object.entries(kinds))
  describe(kind, () => {
    test('everything that was saved is read when it is opened again', () => {
      const { database, reopen } = make();
      database.saveRecords([row], []);
      database.saveResponses(new Map([['microservices', { digests: { microserviceList: 'ab' }, body: '{}' }]]));
      database.saveImage('sha256:1', 'a:1');
      database.saveValue('bootId', 'b1');
      using next = reopen();
      expect(next.records()).toEqual(new Map([[UUID, saved]]));
      expect(next.responses()).toEqual(
        new Map([['microservices', { digests: { microserviceList: 'ab' }, body: '{}' }]]),
      );
      expect(next.images()).toEqual(new Map([['sha256:1', 'a:1']]));
      expect(next.value('bootId')).toBe('b1');
    });

    test('nothing that was removed is read when it is opened again', () => {
      const { database, reopen } = make();
      database.saveRecords([row], []);
      database.saveRecords([], [UUID]);
      database.saveImage('sha256:1', 'a:1');
      database.forgetImage('sha256:1');
      database.saveValue('bootId', 'b1');
      database.saveValue('bootId', undefined);
      database.saveResponses(new Map([['config', { digests: {}, body: '{}' }]]));
      database.forgetController();
      using next = reopen();
      expect([next.records().size, next.images().size, next.responses().size, next.value('bootId')]).toEqual([
        0,
        0,
        0,
        undefined,
      ]);
    });
  });

describe('a database on disk', () => {
  test('can be read only by its owner', () => {
    using database = openSqliteDatabase(path, 0).database;
    expect(database.value('bootId')).toBeUndefined();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'data')).mode & 0o777).toBe(0o700);
  });

  test('does not contain replaced responses, or any response of a controller that the agent left', () => {
    using database = openSqliteDatabase(path, 0).database;
    const save = (password: string) =>
      database.saveResponses(new Map([['registries', { digests: {}, body: JSON.stringify({ password }) }]]));
    const contains = (text: string) =>
      ['', '-wal'].some((part) => existsSync(path + part) && readFileSync(path + part).includes(text));
    save('former'.repeat(1000));
    expect(contains('former')).toBe(true);
    save('present'.repeat(500));
    expect([contains('former'), contains('present')]).toEqual([false, true]);
    database.forgetController();
    expect(contains('present')).toBe(false);
  });

  describe('written by an earlier version', () => {
    const sum = (...values: unknown[]) => createHash('sha256').update(JSON.stringify(values)).digest('base64url');

    /** Writes a database of version 2, in which a member of records had another name. */
    function writeFormer(text: string): void {
      openSqliteDatabase(path, 0).database[Symbol.dispose]();
      using sqlite = new DatabaseSync(path);
      sqlite.prepare('INSERT INTO microservices VALUES (?, ?, ?)').run(UUID, text, sum(UUID, text));
      sqlite.prepare('UPDATE whole SET sum = ?').run(sum([sum(UUID, text)]));
      sqlite.exec('PRAGMA user_version = 2');
    }

    test('keeps its records, also a local stop', () => {
      const { live, stoppedLocally, ...rest } = { ...row, stoppedLocally: undefined };
      writeFormer(JSON.stringify({ ...rest, localHold: { revision: 'r-1', rebuildOrder: 2 } }));
      const opened = openSqliteDatabase(path, 1);
      using database = opened.database;
      expect(opened.setAside).toBeUndefined();
      expect(database.records()).toEqual(
        new Map([[UUID, { ...rest, stoppedLocally: { revision: 'r-1', rebuildCount: 2 }, live: {} }]]),
      );
    });

    test('loses its position; the bound, the list and the actions are renamed', () => {
      openSqliteDatabase(path, 0).database[Symbol.dispose]();
      const list = {
        microservices: [{ uuid: UUID, rebuildOrder: 3 }],
        keep: { reason: 'StoreRestored', accept: '2.b', store: '2.b.0' },
      };
      const values = [
        ['storeMark', '1.aaaaaaaa.3'],
        ['seen', 'a:1.2'],
        ['orders', '{}'],
      ] as const;
      const document = ['microservices', '{}', JSON.stringify(list)] as const;
      const sqlite = new DatabaseSync(path);
      for (const pair of values) sqlite.prepare('INSERT INTO "values" VALUES (?, ?, ?)').run(...pair, sum(...pair));
      sqlite.prepare('INSERT INTO documents VALUES (?, ?, ?, ?)').run(...document, sum(...document));
      const sums = [...values, document].map((row) => sum(...row)).sort();
      sqlite.prepare('UPDATE whole SET sum = ?').run(sum(sums));
      sqlite.exec('PRAGMA user_version = 2');
      sqlite.close();
      using database = openSqliteDatabase(path, 1).database;
      expect((['epochPosition', 'notOlderThan', 'actions'] as const).map((name) => database.value(name))).toEqual([
        undefined,
        'a:1.2',
        '{}',
      ]);
      expect(JSON.parse(database.responses().get('microservices')?.body ?? '')).toEqual({
        microservices: [{ uuid: UUID, rebuildCount: 3 }],
        retainUnlisted: { reason: 'DatastoreRestored', acceptEpoch: '2.b', position: '' },
      });
    });

    test('is set aside when its rows do not match their checksums', () => {
      writeFormer(JSON.stringify(row));
      using sqlite = new DatabaseSync(path);
      sqlite.exec("UPDATE microservices SET row = json_set(row, '$.restartCount', 9)");
      sqlite.close();
      const opened = openSqliteDatabase(path, 1);
      using database = opened.database;
      expect(opened.setAside).toBe(`${path}.damaged-1`);
      expect(database.records().size).toBe(0);
    });
  });

  const damages: Record<string, () => void> = {
    'is not a database': () => writeFileSync(path, 'x'.repeat(8192)),
    'is truncated': () => truncateSync(path, statSync(path).size - 4096),
    'was written by a newer agent': () => {
      const database = new DatabaseSync(path);
      database.exec('PRAGMA user_version = 99');
      database.close();
    },
  };
  for (const [name, damage] of Object.entries(damages))
    test(`that ${name} is set aside and replaced by an empty one, and only the last such file remains`, () => {
      for (const wall of [1, 2]) {
        const { database } = openSqliteDatabase(path, 0);
        database.saveRecords([row], []);
        database[Symbol.dispose]();
        damage();
        const opened = openSqliteDatabase(path, wall);
        expect(opened.setAside).toBe(`${path}.damaged-${wall}`);
        expect(opened.database.records().size).toBe(0);
        opened.database[Symbol.dispose]();
      }
      expect(readdirSync(join(folder, 'data')).filter((name) => /^agent\.db\.damaged/.test(name))).toEqual([
        'agent.db.damaged-2',
      ]);
    });
});

describe('the identity file', () => {
  test('is read as it was saved, and only its owner can read it', () => {
    const file = identityFile(
      join(folder, 'identity.json'),
      () => 7,
      () => {},
    );
    expect(file.load()).toBeUndefined();
    const identity = { ...newIdentity(), nodeKey: newKey() };
    file.save(identity);
    expect(file.load()).toEqual(identity);
    expect(statSync(join(folder, 'identity.json')).mode & 0o777).toBe(0o600);
  });

  test('is set aside, not overwritten, when it cannot be parsed', () => {
    const damaged: string[] = [];
    const file = identityFile(
      join(folder, 'identity.json'),
      () => 7,
      (at) => damaged.push(at),
    );
    writeFileSync(join(folder, 'identity.json'), '{"instance": 1}');
    expect(file.load()).toBeUndefined();
    expect(damaged).toEqual([join(folder, 'identity.json.damaged-7')]);
    expect(readdirSync(folder)).toEqual(['identity.json.damaged-7']);
  });

  test('gets an instance id that is known, and otherwise a new one', () => {
    const { instance } = newIdentity();
    expect(newIdentity(instance).instance).toBe(instance);
    expect(newIdentity('nonsense').instance).toMatch(/^[0-9a-f]{32}$/);
  });
});

test('a copy of the database in a spare directory follows no link that another user put there, and does not stay', () => {
  // A file where the directory of the database should be stands for a disk that takes no writes.
  writeFileSync(join(folder, 'data'), '');
  const [spare, victim] = [join(folder, 'spare'), join(folder, 'victim')];
  mkdirSync(spare, { mode: 0o777 });
  const planted = ['', '-wal', '-shm'].map((part) => join(spare, `agent-${process.pid}.db${part}`));
  for (const link of planted) symlinkSync(victim, link);
  using database = openSqliteDatabase(path, 0, [spare]).database;
  expect(database.problem()).toBeDefined();
  expect(existsSync(victim)).toBe(false);
  expect(
    readdirSync(spare)
      .map((name) => join(spare, name))
      .sort(),
  ).toEqual(planted.sort());
});
