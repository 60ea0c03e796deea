import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { makeEntry, makeRecord, UUID } from '../supervise/plan/_util.ts';
import type { Database } from './database.ts';
import { openSqliteDatabase } from './sqlite-database.ts';

/** Databases as released versions left them: `form-<n>.db` by the number of their migrations, and `form-<n>.json`, what they hold. */

/** The numbers of the forms in a folder. */
export function formsIn(folder: string): number[] {
  return readdirSync(folder)
    .flatMap((name) => /^form-(\d+)\.db$/.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);
}

const VALUES = ['instance', 'bootId', 'actions', 'ending', 'epochPosition', 'notOlderThan'] as const;

/** Everything that a database holds, as JSON. */
export function contentOf(database: Database): unknown {
  return {
    responses: Object.fromEntries(database.responses()),
    records: Object.fromEntries(
      [...database.records()].map(([uuid, { live, ...record }]) => [uuid, JSON.parse(JSON.stringify(record))]),
    ),
    images: Object.fromEntries(database.images()),
    values: Object.fromEntries(VALUES.map((name) => [name, database.value(name) ?? null])),
  };
}

/** Writes a database of the present form, with something of everything; returns the number of the form. One that is kept stays. */
export function writeSample(folder: string): number {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-form-'));
  try {
    const path = join(dir, 'agent.db');
    const { database } = openSqliteDatabase(path, 0);
    fill(database);
    const content = contentOf(database);
    database[Symbol.dispose]();
    const form = formOf(path);
    const kept = join(folder, `form-${form}`);
    if (existsSync(`${kept}.db`)) return form;
    mkdirSync(folder, { recursive: true });
    copyFileSync(path, `${kept}.db`);
    writeFileSync(`${kept}.json`, `${JSON.stringify(content, undefined, 2)}\n`);
    return form;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** What the database of a form held, in the words of this version. */
export const keptContent = (folder: string, form: number): unknown =>
  JSON.parse(readFileSync(join(folder, `form-${form}.json`), 'utf8'));

function formOf(path: string): number {
  using sqlite = new DatabaseSync(path);
  sqlite.exec('PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE');
  return (sqlite.prepare('PRAGMA user_version').get() as { user_version: number }).user_version;
}

function fill(database: Database): void {
  const other = '22222222-2222-4222-8222-222222222222';
  const [entry, second] = [makeEntry({ env: [{ key: 'A', value: 'b' }] }), makeEntry({ uuid: other })];
  const list = { microservices: [entry.view, second.view], retainUnlisted: undefined };
  const save = (name: 'microservices' | 'registries' | 'config', digests: object, body: unknown) =>
    database.saveResponses(new Map([[name, { digests, body: JSON.stringify(body) }]]));
  save('microservices', { microserviceList: 'ab12' }, list);
  save(
    'registries',
    { registries: 'cd34' },
    { registries: [{ id: 7, url: 'one.example', username: 'u', password: 'p' }] },
  );
  save('config', { config: 'ef56' }, { statusFrequency: 10 });
  const records = [
    makeRecord(entry, {
      containerId: 'c'.repeat(64),
      lastGood: entry.view,
      restartCount: 3,
      crash: { target: 'r-1', count: 2, at: 1000, notBefore: 2000 },
      exit: { key: 'x', cause: 'Crash' },
      failure: {
        step: 'start',
        target: 'r-1',
        count: 1,
        at: 1000,
        notBefore: 2000,
        reason: 'EngineError',
        message: 'no',
      },
      lastError: 'no',
      lastErrorAt: 1000,
    }),
    makeRecord(second, { uuid: other, stoppedLocally: { revision: 'r-1', rebuildCount: 2 } }),
    makeRecord(makeEntry({ uuid: UUID.replaceAll('1', '3') }), { gone: true }),
  ];
  database.saveRecords(records, []);
  database.saveImage('sha256:1', 'one.example/a:1');
  for (const name of VALUES) database.saveValue(name, name === 'actions' ? '{"reboot":2}' : `${name}-1`);
}
