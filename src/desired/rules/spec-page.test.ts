import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { edgeNodeSpecSchema } from '../../api/v3/index.ts';

test('docs/resources/nodes.md says of every field of the spec what it does', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/resources/nodes.md'), 'utf8');
  const [, section = ''] = page.split('## Every field of the spec');
  const rows = (section.split('\n## ')[0] ?? '').split('\n').filter((line) => line.startsWith('| `'));
  const named = rows.flatMap((row) =>
    [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name ?? ''),
  );
  expect(named.sort()).toEqual(Object.keys(edgeNodeSpecSchema.shape).sort());
});
