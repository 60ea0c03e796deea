import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { AGENT_ERROR_CODES, REST_ERROR_CODES } from './error-codes.ts';

const page = (name: string) => readFileSync(new URL(`../../docs/spec/${name}`, import.meta.url), 'utf8');
const codesOf = (text: string) => text.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g) ?? [];

test('docs/spec/agent-channel.md has every code of agents at its statuses', () => {
  const section = page('agent-channel.md').split('\n## Errors\n')[1]?.split('\n## ')[0] ?? '';
  const rows = [...section.matchAll(/^\| ([\d, ]+) \| (.*?) \|/gm)].flatMap(([, statuses = '', codes = '']) =>
    codesOf(codes).map((code) => [code, statuses.split(', ').map(Number)] as const),
  );
  expect(rows.map(([code]) => code).sort()).toEqual(Object.keys(AGENT_ERROR_CODES).sort());
  for (const [code, status] of Object.entries(AGENT_ERROR_CODES)) expect(new Map(rows).get(code)).toContain(status);
});

test('docs/spec/rest-v3.md names no code in its tables of codes that does not exist', () => {
  const section = page('rest-v3.md').split('\n### Error codes\n')[1]?.split('\n## ')[0] ?? '';
  const known: readonly string[] = Object.values(REST_ERROR_CODES).flat();
  const named = [...section.matchAll(/^\| ([A-Z_, ]+) \|/gm)].flatMap(([, codes = '']) => codesOf(codes));
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((code) => !known.includes(code))).toEqual([]);
});
