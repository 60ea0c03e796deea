import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { contentOf, formsIn, keptContent } from './_forms.ts';
import { openSqliteDatabase } from './sqlite-database.ts';

/** Databases that releases of the agent left behind (hack/last-release.ts keeps one of each form). */
const KEPT = join(import.meta.dirname, 'testdata');
let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

/** Tables and their definitions, spelled alike. */
function definitions(path: string): string[] {
  using sqlite = new DatabaseSync(path, { readOnly: true });
  const rows = sqlite.prepare('SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL').all() as { sql: string }[];
  return rows.map(({ sql }) => sql).sort();
}

test('there is a database of a released form', () => {
  expect(formsIn(KEPT).length).toBeGreaterThan(0);
});

describe.each(formsIn(KEPT))('a database of form %i, which a release wrote', (form) => {
  const open = () => {
    const path = join(folder, 'agent.db');
    copyFileSync(join(KEPT, `form-${form}.db`), path);
    const { database, setAside } = openSqliteDatabase(path, 1);
    return { path, database, setAside };
  };

  test('opens with everything that it held', () => {
    const { database, setAside } = open();
    using _ = database;
    expect(setAside).toBeUndefined();
    expect(contentOf(database)).toEqual(keptContent(KEPT, form));
  });

  test('has the tables of a new database once it was opened', () => {
    const { path, database } = open();
    database[Symbol.dispose]();
    const fresh = join(folder, 'fresh.db');
    openSqliteDatabase(fresh, 1).database[Symbol.dispose]();
    expect(definitions(path)).toEqual(definitions(fresh));
  });
});
