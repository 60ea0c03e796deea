import { chmodSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Digests } from '../../../src/wire/sections.ts';
import { exists, listDirectory, makeDirectory, removePath, setAside } from '../disk.ts';
import type { DocumentName, Store, StoredDocument, ValueName } from './store.ts';
import { readRows, rowText } from './store.ts';

/** Steps from an empty database to the present one; `PRAGMA user_version` tells how many were taken. */
const MIGRATIONS = [
  `CREATE TABLE documents (name TEXT PRIMARY KEY, digests TEXT NOT NULL, body TEXT NOT NULL) STRICT;
   CREATE TABLE microservices (uuid TEXT PRIMARY KEY, row TEXT NOT NULL) STRICT;
   CREATE TABLE images (id TEXT PRIMARY KEY, reference TEXT NOT NULL) STRICT;
   CREATE TABLE "values" (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;`,
];

export interface OpenedStore {
  store: Store;
  /** where a database that could not be read was put */
  setAside?: string;
}

/**
 * Opens the database, or makes it. One that is damaged, or that a newer agent wrote, is set aside and begun anew: the
 * controller and the containers' labels know what it knew.
 */
export function openSqliteStore(path: string, wall: number): OpenedStore {
  makeDirectory(dirname(path), 0o700);
  try {
    return { store: open(path) };
  } catch (error) {
    if (!isDamage(error)) throw error;
    const suffix = `.damaged-${wall}`;
    for (const part of ['', '-wal', '-shm']) setAside(path + part, suffix);
    forgetOlder(path);
    return { store: open(path), setAside: path + suffix };
  }
}

class Damaged extends Error {}

/** SQLITE_CORRUPT, SQLITE_NOTADB */
const DAMAGE_CODES = new Set([11, 26]);

function isDamage(error: unknown): boolean {
  return error instanceof Damaged || DAMAGE_CODES.has((error as { errcode?: number }).errcode ?? 0);
}

/** Of the databases set aside, the last one stays for whoever wants to know. */
function forgetOlder(path: string): void {
  const name = path.slice(dirname(path).length + 1);
  const old = listDirectory(dirname(path)).filter((each) => each.startsWith(`${name}.damaged-`));
  for (const each of old.slice(0, -1)) removePath(join(dirname(path), each));
}

function open(path: string): Store {
  const isNew = !exists(path);
  const database = new DatabaseSync(path);
  try {
    if (isNew) chmodSync(path, 0o600);
    // FULL: a transaction that has returned is on the disk, since the controller is told of it next.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;');
    const [check] = database.prepare('PRAGMA quick_check(1)').all() as { quick_check: string }[];
    if (check?.quick_check !== 'ok') throw new Damaged(check?.quick_check);
    migrate(database);
    return wrap(database);
  } catch (error) {
    database.close();
    throw error;
  }
}

/** A database as it is found, for looking at. */
export interface Examined {
  state: 'ok' | 'absent' | 'damaged' | 'newer' | 'unreadable';
  detail: string;
  /** what the controller said last, as far as it can be read */
  documents: Map<DocumentName, StoredDocument>;
}

/** Looks at a database without changing it, also while an agent works with it. */
export function examineSqliteStore(path: string): Examined {
  const documents = new Map<DocumentName, StoredDocument>();
  if (!exists(path)) return { state: 'absent', detail: `${path} is made when the agent starts`, documents };
  try {
    using database = new DatabaseSync(path, { readOnly: true, timeout: 2000 });
    const [check] = database.prepare('PRAGMA quick_check(1)').all() as { quick_check: string }[];
    if (check?.quick_check !== 'ok') return { state: 'damaged', detail: `${path}: ${check?.quick_check}`, documents };
    const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
    if (version > MIGRATIONS.length)
      return {
        state: 'newer',
        detail: `${path} has version ${version}, this agent knows ${MIGRATIONS.length}`,
        documents,
      };
    for (const { name, digests, body } of database.prepare('SELECT name, digests, body FROM documents').all())
      documents.set(name as DocumentName, { digests: JSON.parse(String(digests)), body: String(body) });
    return { state: 'ok', detail: path, documents };
  } catch (error) {
    return {
      state: isDamage(error) ? 'damaged' : 'unreadable',
      detail: `${path}: ${(error as Error).message}`,
      documents,
    };
  }
}

function migrate(database: DatabaseSync): void {
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  if (version > MIGRATIONS.length) throw new Damaged(`written by a newer agent (${version})`);
  for (const [index, step] of MIGRATIONS.entries())
    if (index >= version) database.exec(`BEGIN; ${step} PRAGMA user_version = ${index + 1}; COMMIT;`);
}

function wrap(database: DatabaseSync): Store {
  const put = (table: string, key: string, columns: string[]) =>
    database.prepare(
      `INSERT INTO "${table}" (${[key, ...columns]}) VALUES (?${', ?'.repeat(columns.length)})
       ON CONFLICT (${key}) DO UPDATE SET ${columns.map((column) => `${column} = excluded.${column}`)}`,
    );
  const statements = {
    documents: database.prepare('SELECT name, digests, body FROM documents'),
    putDocument: put('documents', 'name', ['digests', 'body']),
    forgetDocuments: database.prepare('DELETE FROM documents'),
    rows: database.prepare('SELECT row FROM microservices'),
    putRow: put('microservices', 'uuid', ['row']),
    removeRow: database.prepare('DELETE FROM microservices WHERE uuid = ?'),
    images: database.prepare('SELECT id, reference FROM images'),
    putImage: put('images', 'id', ['reference']),
    removeImage: database.prepare('DELETE FROM images WHERE id = ?'),
    value: database.prepare('SELECT value FROM "values" WHERE name = ?'),
    putValue: put('values', 'name', ['value']),
    removeValue: database.prepare('DELETE FROM "values" WHERE name = ?'),
  };
  const together = (act: () => void) => {
    database.exec('BEGIN IMMEDIATE');
    try {
      act();
      database.exec('COMMIT');
    } catch (error) {
      database.exec('ROLLBACK');
      throw error;
    }
  };
  return {
    documents: () =>
      new Map(
        (statements.documents.all() as { name: DocumentName; digests: string; body: string }[]).map(
          ({ name, digests, body }): [DocumentName, StoredDocument] => [
            name,
            { digests: JSON.parse(digests) as Digests, body },
          ],
        ),
      ),
    saveDocuments: (documents) =>
      together(() => {
        for (const [name, { digests, body }] of documents)
          statements.putDocument.run(name, JSON.stringify(digests), body);
      }),
    rows: () => readRows((statements.rows.all() as { row: string }[]).map(({ row }) => row)),
    saveRows: (changed, removed) => {
      if (changed.length + removed.length === 0) return;
      together(() => {
        for (const row of changed) statements.putRow.run(row.uuid, rowText(row));
        for (const uuid of removed) statements.removeRow.run(uuid);
      });
    },
    images: () =>
      new Map(
        (statements.images.all() as { id: string; reference: string }[]).map(({ id, reference }) => [id, reference]),
      ),
    saveImage: (id, reference) => void statements.putImage.run(id, reference),
    forgetImage: (id) => void statements.removeImage.run(id),
    value: (name: ValueName) => (statements.value.get(name) as { value: string } | undefined)?.value,
    saveValue: (name, value) =>
      void (value === undefined ? statements.removeValue.run(name) : statements.putValue.run(name, value)),
    forgetController: () => void statements.forgetDocuments.run(),
    [Symbol.dispose]: () => {
      if (database.isOpen) database.close();
    },
  };
}
