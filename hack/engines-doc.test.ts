import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { FIELDS } from '../agent/src/engines/_fields.ts';
import { render } from './engines-doc.ts';
import { ROOT } from './paths.ts';

const rowsOf = (page: string) =>
  [...page.matchAll(/^\| (.+?) \|.* (.+?) \|$/gm)]
    .map(([row]) => row.split(' | '))
    .map((cells) => [cells[0], cells.at(-1)]);

test('docs/engines.md has exactly the rows of the table of fields', () => {
  const committed = readFileSync(join(ROOT, 'docs/engines.md'), 'utf8');
  const results = ['docker', 'podman'].map((kind) => ({ kind, version: '', fields: {} }));
  expect(rowsOf(committed)).toEqual(rowsOf(render(results)));
  for (const { kind } of results) expect(committed).toContain(`| ${kind} `);
  expect(committed, 'a row was not tried').not.toContain('not tried');
});

test('docs/engines.md has the reason of each field that an engine does not honour, once below the table', () => {
  const fields = Object.fromEntries(
    FIELDS.map(({ field }, index) => [field, index < 2 ? 'no such thing' : 'honoured']),
  );
  const page = render([{ kind: 'docker', version: '1', fields }]);
  expect(page.match(/\| no \[1\] \|/g)).toHaveLength(2);
  expect(page).toContain('\n[1] no such thing\n');
});
