import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { KINDS } from '../src/subjects/kinds.ts';
import { ROOT } from './paths.ts';
import { repositoryFiles } from './repository.ts';

/** The head of a table that a page shows below a `kubectl get` of kinds of ours. */
const SHOWN = /^ {4}(?:\$ )?kubectl (?:-n \S+ )?get (?<kinds>[\w.,]+)(?<rest> .*)?\n\n? {4}(?<head>NAME .*)$/gm;

/** Without a group kubectl means the core kind by these names. */
const CORE = new Set(['service', 'services', 'secrets', 'configmaps']);

const definitions = Object.values(KINDS).map(({ definition }) => definition);

function columnsOf(kind: string, isWide: boolean): string[] | undefined {
  if (CORE.has(kind)) return undefined;
  const [word] = kind.split('.');
  const found = definitions.find(({ plural, singular, shortNames = [] }) =>
    [plural, singular, ...shortNames].some((name) => name === word),
  );
  const shown = found?.printerColumns.filter(({ priority }) => isWide || !priority);
  return shown && ['NAME', ...shown.map(({ name }) => name.toUpperCase())];
}

const tables = repositoryFiles(ROOT)
  .filter((path) => path.endsWith('.md'))
  .flatMap((path) =>
    [...readFileSync(join(ROOT, path), 'utf8').matchAll(SHOWN)].map(({ groups }) => {
      const { kinds = '', rest = '', head = '' } = groups ?? {};
      const [kind = ''] = kinds.split(',');
      return { path, command: `get ${kinds}${rest}`, columns: columnsOf(kind, / -o wide/.test(rest)), head };
    }),
  )
  .filter(({ command, columns }) => columns && !command.includes('custom-columns'));

test('pages show tables of kubectl get', () => {
  expect(tables.length).toBeGreaterThan(15);
});

test.each(tables)('the table below $command in $path has the columns of its kind', ({ head, columns = [] }) => {
  const [before = '', after] = head.split('<...>').map((part) => part.trim().split(/ +/).join(' '));
  const all = columns.join(' ');
  if (after === undefined) expect(before).toBe(all);
  else expect([all.slice(0, before.length), all.slice(-after.length)]).toEqual([before, after]);
});
