import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { AGENT_ROUTES, theftRow } from './node-key-page.ts';

const page = readFileSync(join(import.meta.dirname, '../docs/spec/node-key.md'), 'utf8');

test.each(AGENT_ROUTES.map((route) => [`${route.method} ${route.path}`, route] as const))(
  'docs/spec/node-key.md says what a thief of the key of a node gains by %s',
  (request, { theft }) => {
    expect(page).toContain(theftRow(request, theft));
  },
);
