import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SavedName } from '../../../src/wire/sections.ts';
import type { SavedResponse } from '../domain/desired.ts';
import {
  canWrite,
  copyFile,
  exists,
  listDirectory,
  makeDirectory,
  makePrivateFile,
  privateDirectory,
  removePath,
  setAside,
} from '../machine/disk.ts';
import { errorText } from '../machine/log.ts';
import type { Database, ValueName } from './database.ts';
import { copyDatabase, memoryDatabase, readRecords, recordText } from './database.ts';

/** Steps from an empty database to the present one; `PRAGMA user_version` is how many were taken. */
const MIGRATIONS = [
  `CREATE TABLE documents (name TEXT PRIMARY KEY, digests TEXT NOT NULL, body TEXT NOT NULL) STRICT;
   CREATE TABLE microservices (uuid TEXT PRIMARY KEY, row TEXT NOT NULL) STRICT;
   CREATE TABLE images (id TEXT PRIMARY KEY, reference TEXT NOT NULL) STRICT;
   CREATE TABLE "values" (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;`,
  `ALTER TABLE documents ADD COLUMN sum TEXT NOT NULL DEFAULT '';
   ALTER TABLE microservices ADD COLUMN sum TEXT NOT NULL DEFAULT '';
   ALTER TABLE images ADD COLUMN sum TEXT NOT NULL DEFAULT '';
   ALTER TABLE "values" ADD COLUMN sum TEXT NOT NULL DEFAULT '';
   UPDATE documents SET sum = checksum(name, digests, body);
   UPDATE microservices SET sum = checksum(uuid, row);
   UPDATE images SET sum = checksum(id, reference);
   UPDATE "values" SET sum = checksum(name, value);
   CREATE TABLE whole (id INTEGER PRIMARY KEY CHECK (id = 1), sum TEXT NOT NULL) STRICT;
   INSERT INTO whole VALUES (1, '');`,
  // Records call a stop by a person on the machine `stoppedLocally`, which was `localHold`.
  `UPDATE microservices SET row = json_remove(json_set(row, '$.stoppedLocally', row -> '$.localHold'), '$.localHold')
     WHERE json_valid(row) AND row -> '$.localHold' IS NOT NULL;
   UPDATE microservices SET sum = checksum(uuid, row);`,
  // Not `storeMark`: its position is one of another epoch log, so it would pass for a position that was lost.
  `DELETE FROM "values" WHERE name = 'storeMark';
   UPDATE "values" SET name = 'notOlderThan' WHERE name = 'seen';
   UPDATE "values" SET sum = checksum(name, value);
   UPDATE documents SET body = json_remove(json_set(body, '$.retainUnlisted', json_object(
       'reason', 'DatastoreRestored', 'acceptEpoch', body ->> '$.keep.accept', 'position', '')), '$.keep')
     WHERE name = 'microservices' AND json_valid(body) AND body -> '$.keep' IS NOT NULL;
   UPDATE documents SET sum = checksum(name, digests, body);`,
  // Only a member's name is quoted like this: quotes inside a JSON string have a backslash before them.
  `UPDATE documents SET body = replace(body, '"rebuildOrder":', '"rebuildCount":') WHERE name = 'microservices';
   UPDATE documents SET sum = checksum(name, digests, body);
   UPDATE microservices SET row = replace(row, '"rebuildOrder":', '"rebuildCount":');
   UPDATE microservices SET sum = checksum(uuid, row);
   UPDATE "values" SET name = 'actions' WHERE name = 'orders';
   UPDATE "values" SET sum = checksum(name, value);`,
];
/** From this version on there are sums, which show whether a database is sound before anything in it is changed. */
const FIRST_WITH_SUMS = 2;

/** Tables by their columns, the key first; each row has a `sum` of them as well. */
const COLUMNS = {
  documents: ['name', 'digests', 'body'],
  microservices: ['uuid', 'row'],
  images: ['id', 'reference'],
  values: ['name', 'value'],
} as const;

export interface OpenedDatabase {
  database: Database;
  /** where a database that could not be read was put */
  setAside?: string;
}

/**
 * Opens the database, or makes it. One that is damaged, or that a newer agent wrote, is set aside, and a new one is made: the
 * controller and the containers' labels know what it knew. Where the disk takes no writes (full, read-only) what the
 * database holds is read all the same, by way of a copy in one of `spares`; nothing can be saved then, until the disk
 * takes writes again.
 *
 * Guarantee: for whatever is found at `path`, and whatever the disk does, there is a database; what it shows was saved
 * together, all of it or nothing.
 */
export function openSqliteDatabase(path: string, wall: number, spares: readonly string[] = []): OpenedDatabase {
  try {
    makeDirectory(dirname(path), 0o700);
    if (!takesWrites(dirname(path))) throw new Error(`${dirname(path)} takes no writes`);
    return openOrBegin(path, wall);
  } catch (error) {
    if (isBusy(error) || takesWrites(dirname(path))) throw error;
    return { database: whileUnwritable(path, readByCopy(path, spares), wall, errorText(error)) };
  }
}

function openOrBegin(path: string, wall: number): OpenedDatabase {
  try {
    return { database: open(path) };
  } catch (error) {
    // The disk is fine and no other process has it open: it is the file.
    if (isBusy(error)) throw error;
    const suffix = `.damaged-${wall}`;
    for (const part of PARTS) setAside(path + part, suffix);
    forgetOlder(path);
    return { database: open(path), setAside: path + suffix };
  }
}

/** Files of one database. */
const PARTS = ['', '-wal', '-shm'] as const;
/** What a database of an agent at rest may still want to write at once, bytes. */
const ROOM = 256 * 1024;

function takesWrites(directory: string): boolean {
  return canWrite(directory, ROOM);
}

class Damaged extends Error {}

/** SQLITE_CORRUPT, SQLITE_NOTADB */
const DAMAGE_CODES = new Set([11, 26]);

function isDamage(error: unknown): boolean {
  return error instanceof Damaged || DAMAGE_CODES.has((error as { errcode?: number }).errcode ?? 0);
}

/** SQLITE_BUSY: another process has it open. */
function isBusy(error: unknown): boolean {
  return (error as { errcode?: number }).errcode === 5;
}

/** Removes all databases that were set aside except the last one, which stays for diagnosis. */
function forgetOlder(path: string): void {
  const name = path.slice(dirname(path).length + 1);
  const old = listDirectory(dirname(path)).filter((each) => each.startsWith(`${name}.damaged-`));
  for (const each of old.slice(0, -1)) removePath(join(dirname(path), each));
}

/** What a database holds that cannot be opened where it is; nothing when it is damaged, too. */
function readByCopy(path: string, spares: readonly string[]): Database {
  const memory = memoryDatabase();
  for (const spare of spares) {
    let place: string | undefined;
    try {
      makeDirectory(spare, 0o755);
      // Others may write in a spare directory, and the copy has all passwords.
      place = privateDirectory(spare, 'agent-db-');
      const copy = join(place, 'agent.db');
      for (const part of ['', '-wal']) copyFile(path + part, copy + part);
      using database = open(copy);
      copyDatabase(database, memory);
      return memory;
    } catch {
      // The next directory may work; without any, the agent knows nothing and changes nothing.
    } finally {
      if (place) removePath(place);
    }
  }
  return memory;
}

/** A database whose disk takes no writes. Each attempt to save tries whether it does by now. */
function whileUnwritable(path: string, known: Database, wall: number, reason: string): Database {
  let current: Database | undefined;
  const writable = (): Database => {
    if (current) return current;
    if (!takesWrites(dirname(path))) throw new Error(reason);
    current = openOrBegin(path, wall).database;
    copyDatabase(known, current);
    return current;
  };
  const problem = () => {
    try {
      writable();
      return undefined;
    } catch (error) {
      return errorText(error);
    }
  };
  const now = () => current ?? known;
  return {
    responses: () => now().responses(),
    saveResponses: (responses) => writable().saveResponses(responses),
    records: () => now().records(),
    saveRecords: (changed, removed) => writable().saveRecords(changed, removed),
    images: () => now().images(),
    saveImage: (id, reference) => writable().saveImage(id, reference),
    forgetImage: (id) => writable().forgetImage(id),
    value: (name) => now().value(name),
    saveValue: (name, value) => writable().saveValue(name, value),
    forgetController: () => writable().forgetController(),
    problem,
    [Symbol.dispose]: () => current?.[Symbol.dispose](),
  };
}

function open(path: string): Database {
  if (!exists(path)) makePrivateFile(path);
  const sqlite = new DatabaseSync(path);
  try {
    sqlite.function('checksum', { deterministic: true, varargs: true }, checksum);
    // FULL: a transaction that has returned is on the disk, since its digest is sent to the controller next.
    sqlite.exec('PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;');
    // Documents carry passwords: what is replaced or removed is overwritten.
    sqlite.exec('PRAGMA secure_delete = ON');
    const damage = structureDamage(sqlite);
    if (damage !== undefined) throw new Damaged(damage);
    migrate(sqlite);
    verify(sqlite);
    return createDatabase(sqlite);
  } catch (error) {
    sqlite.close();
    throw error;
  }
}

/** A database as it is found, for looking at. */
export interface Examined {
  state: 'ok' | 'absent' | 'damaged' | 'newer' | 'unreadable';
  detail: string;
  /** what the controller said last, as far as it can be read */
  responses: Map<SavedName, SavedResponse>;
}

/** Looks at a database without changing it, also while an agent works with it. */
export function examineSqliteDatabase(path: string): Examined {
  const responses = new Map<SavedName, SavedResponse>();
  if (!exists(path)) return { state: 'absent', detail: `${path} is made when the agent starts`, responses };
  try {
    using sqlite = new DatabaseSync(path, { readOnly: true, timeout: 2000 });
    const damage = structureDamage(sqlite);
    if (damage !== undefined) throw new Damaged(damage);
    const version = versionOf(sqlite);
    if (version > MIGRATIONS.length) {
      const detail = `${path} has version ${version}, this agent knows ${MIGRATIONS.length}`;
      return { state: 'newer', detail, responses };
    }
    if (version >= FIRST_WITH_SUMS) {
      sqlite.function('checksum', { deterministic: true, varargs: true }, checksum);
      verify(sqlite);
    }
    return { state: 'ok', detail: path, responses: readDocuments(sqlite.prepare(DOCUMENTS).all()) };
  } catch (error) {
    const state = isDamage(error) ? 'damaged' : 'unreadable';
    return { state, detail: `${path}: ${(error as Error).message}`, responses };
  }
}

/** The damage to the structure of a database; undefined where there is none. */
function structureDamage(sqlite: DatabaseSync): string | undefined {
  const { quick_check: found } = sqlite.prepare('PRAGMA quick_check(1)').get() as { quick_check: string };
  return found === 'ok' ? undefined : found;
}

function versionOf(sqlite: DatabaseSync): number {
  return (sqlite.prepare('PRAGMA user_version').get() as { user_version: number }).user_version;
}

/**
 * SQLite finds a page that is damaged in its structure, not one that has other text in it, or that is a sound page of
 * another time: each row has a sum, and all rows together.
 */
function verify(sqlite: DatabaseSync): void {
  for (const [table, columns] of Object.entries(COLUMNS)) {
    const wrong = sqlite.prepare(`SELECT 1 FROM "${table}" WHERE sum IS NOT checksum(${columns}) LIMIT 1`).get();
    if (wrong) throw new Damaged(`a row of ${table} is not as it was written`);
  }
  if (!sealer(sqlite).isSealed()) throw new Damaged('the rows were not written together');
}

/** The sum of all rows, which each transaction leaves behind. */
function sealer(sqlite: DatabaseSync) {
  const tables = Object.keys(COLUMNS).map((table) => `SELECT sum FROM "${table}"`);
  const sums = sqlite.prepare(`${tables.join(' UNION ALL ')} ORDER BY sum`);
  const read = sqlite.prepare('SELECT sum FROM whole');
  const write = sqlite.prepare('UPDATE whole SET sum = ?');
  const present = () => checksum(sums.all().map(({ sum }) => sum));
  return {
    seal: () => void write.run(present()),
    isSealed: () => read.get()?.sum === present(),
  };
}

function checksum(...values: unknown[]): string {
  return createHash('sha256').update(JSON.stringify(values)).digest('base64url');
}

function migrate(sqlite: DatabaseSync): void {
  const version = versionOf(sqlite);
  if (version > MIGRATIONS.length) throw new Damaged(`written by a newer agent (${version})`);
  if (version >= FIRST_WITH_SUMS && version < MIGRATIONS.length) verify(sqlite);
  for (const [index, step] of MIGRATIONS.entries())
    if (index >= version) {
      sqlite.exec(`BEGIN; ${step}`);
      if (index === MIGRATIONS.length - 1) sealer(sqlite).seal();
      sqlite.exec(`PRAGMA user_version = ${index + 1}; COMMIT;`);
    }
}

const DOCUMENTS = 'SELECT name, digests, body FROM documents';

function readDocuments(rows: readonly Record<string, unknown>[]): Map<SavedName, SavedResponse> {
  return new Map(
    rows.map(({ name, digests, body }) => [
      name as SavedName,
      { digests: JSON.parse(String(digests)), body: String(body) },
    ]),
  );
}

function createDatabase(sqlite: DatabaseSync): Database {
  const put = (table: keyof typeof COLUMNS) => {
    const columns = COLUMNS[table];
    const values = columns.map((_, i) => `?${i + 1}`);
    const [key, ...others] = columns;
    return sqlite.prepare(
      `INSERT INTO "${table}" (${columns}, sum) VALUES (${values}, checksum(${values}))
       ON CONFLICT (${key}) DO UPDATE SET ${[...others, 'sum'].map((column) => `${column} = excluded.${column}`)}`,
    );
  };
  const statements = {
    responses: sqlite.prepare(DOCUMENTS),
    putDocument: put('documents'),
    forgetDocuments: sqlite.prepare('DELETE FROM documents'),
    rows: sqlite.prepare('SELECT row FROM microservices'),
    putRow: put('microservices'),
    removeRow: sqlite.prepare('DELETE FROM microservices WHERE uuid = ?'),
    images: sqlite.prepare('SELECT id, reference FROM images'),
    putImage: put('images'),
    removeImage: sqlite.prepare('DELETE FROM images WHERE id = ?'),
    value: sqlite.prepare('SELECT value FROM "values" WHERE name = ?'),
    putValue: put('values'),
    removeValue: sqlite.prepare('DELETE FROM "values" WHERE name = ?'),
  };
  const { seal } = sealer(sqlite);
  const together = (act: () => unknown) => {
    sqlite.exec('BEGIN IMMEDIATE');
    try {
      act();
      seal();
      sqlite.exec('COMMIT');
    } catch (error) {
      // SQLite may have rolled back by itself: a full disk, an input or output error.
      if (sqlite.isTransaction) sqlite.exec('ROLLBACK');
      throw error;
    }
  };
  /** Removes replaced content from the write-ahead log as well. */
  const forgetFormer = () => {
    try {
      sqlite.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    } catch {
      // What was to be saved is saved; the next time will do.
    }
  };
  return {
    responses: () => readDocuments(statements.responses.all()),
    saveResponses: (responses) => {
      together(() => {
        for (const [name, { digests, body }] of responses)
          statements.putDocument.run(name, JSON.stringify(digests), body);
      });
      forgetFormer();
    },
    records: () => readRecords((statements.rows.all() as { row: string }[]).map(({ row }) => row)),
    saveRecords: (changed, removed) => {
      if (changed.length + removed.length === 0) return;
      together(() => {
        for (const row of changed) statements.putRow.run(row.uuid, recordText(row));
        for (const uuid of removed) statements.removeRow.run(uuid);
      });
      if (removed.length > 0) forgetFormer();
    },
    images: () =>
      new Map(
        (statements.images.all() as { id: string; reference: string }[]).map(({ id, reference }) => [id, reference]),
      ),
    saveImage: (id, reference) => together(() => statements.putImage.run(id, reference)),
    forgetImage: (id) => together(() => statements.removeImage.run(id)),
    value: (name: ValueName) => (statements.value.get(name) as { value: string } | undefined)?.value,
    saveValue: (name, value) =>
      together(() => (value === undefined ? statements.removeValue.run(name) : statements.putValue.run(name, value))),
    forgetController: () => {
      together(() => statements.forgetDocuments.run());
      forgetFormer();
    },
    problem: () => undefined,
    [Symbol.dispose]: () => {
      if (sqlite.isOpen) sqlite.close();
    },
  };
}
