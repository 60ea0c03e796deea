import { describe, expect, test } from 'vitest';
import { KINDS } from '../subjects/kinds.ts';
import { type Structural, toStructural } from './structural.ts';

/** Every pattern of a spec is applied to texts of users, in this process: no text may take it long. */
const BUDGET_MS = 500;
/** Texts are cut here, which is far more than a pattern with a steep cost can bear. */
const LONGEST = 4_096;
const LETTERS = ['a', 'A', '0', '.', '..', '-', '_', '/', '/a', '\\', ':', '@', '+', '*', '?', '=', '%', ' ', '{', '}'];
/** What most patterns refuse, so that all ways to match are tried. */
const ENDS = ['\u0000', '!', '/', '.'];

interface Found {
  pattern: string;
  longest: number;
}

function patternsIn(schema: Structural, found: Map<string, number> = new Map()): Map<string, number> {
  const { pattern, maxLength = LONGEST } = schema as { pattern?: string; maxLength?: number };
  if (pattern !== undefined) found.set(pattern, Math.max(found.get(pattern) ?? 0, Math.min(maxLength, LONGEST)));
  for (const member of Object.values(schema.properties ?? {})) patternsIn(member, found);
  for (const member of [schema.items, schema.additionalProperties]) if (member) patternsIn(member, found);
  return found;
}

const all = new Map<string, number>();
for (const { definition } of Object.values(KINDS)) patternsIn(toStructural(definition.spec), all);
const patterns: Found[] = [...all].map(([pattern, longest]) => ({ pattern, longest }));

describe('a text of the greatest length takes no time at the pattern', () => {
  test.each(patterns)('$pattern', ({ pattern, longest }) => {
    const expression = new RegExp(pattern, 'u');
    const before = process.cpuUsage();
    for (const first of LETTERS)
      for (const second of LETTERS)
        for (const end of ENDS) {
          const piece = first + second;
          expression.test(piece.repeat(Math.ceil(longest / piece.length)).slice(0, longest - end.length) + end);
        }
    const { user, system } = process.cpuUsage(before);
    // All 1,600 of them together.
    expect((user + system) / 1_000).toBeLessThan(BUDGET_MS);
  });
});
