import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { CONTAINER_FIELD_NAMES, fieldRow, isAbsent } from './fields.ts';
import { containerSchema } from './schema.ts';

const spec = readFileSync(new URL('../../../docs/spec/workloads.md', import.meta.url), 'utf8');
const section = spec.split('\n## Container fields\n')[1]?.split('\n## ')[0] ?? '';

describe.each(CONTAINER_FIELD_NAMES)('%s', (field) => {
  const { schema, default: absent, example, flatName, wire } = fieldRow(field);

  test('has an example that its schema accepts and that is not the default', () => {
    expect(schema.safeParse(example).error).toBeUndefined();
    expect(isAbsent(field, example)).toBe(false);
  });

  test('has a default that agents accept and that means the same as its absence', () => {
    if (absent === undefined) return;
    expect(wire.safeParse(absent).error).toBeUndefined();
    if (field !== 'healthCheck') expect(isAbsent(field, absent)).toBe(true);
  });

  test('has a line in docs/spec/workloads.md', () => {
    expect(section).toContain(`\`${flatName}\``);
  });
});

test('entries have each field in each of its spellings', () => {
  const spellings = CONTAINER_FIELD_NAMES.flatMap((field) => [field, fieldRow(field).alias?.name ?? field]);
  expect(Object.keys(containerSchema.shape).sort()).toEqual([...new Set(spellings)].sort());
});
