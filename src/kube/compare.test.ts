import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { equal, mergeDiff } from './compare.ts';

/** No Kubernetes object has a member `__proto__`. */
const json = fc.jsonValue({ maxDepth: 3 }).filter((value) => !JSON.stringify(value).includes('__proto__'));

/** The algorithm of RFC 7386. */
function mergePatch(target: unknown, patch: unknown): unknown {
  if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) return patch;
  const base = target !== null && typeof target === 'object' && !Array.isArray(target) ? target : {};
  const result: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(Object.hasOwn(result, key) ? result[key] : undefined, value);
  }
  return result;
}

/** A merge patch is exact only for values without nulls; Kubernetes objects have none. */
const withoutNulls = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_key, inner) => (inner === null ? undefined : inner)) ?? '{}');

describe('mergeDiff', () => {
  test('returns a patch that turns one object into the other, and undefined for equal ones', () => {
    const object = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), json).map(withoutNulls);
    fc.assert(
      fc.property(object, object, (from, to) => {
        const patch = mergeDiff(from, to);
        expect(patch === undefined ? from : mergePatch(from, patch)).toEqual(to);
        expect(patch === undefined).toBe(equal(from, to));
      }),
    );
  });

  test.each(['toString', 'constructor', 'hasOwnProperty'])('treats a member called %s like any other', (key) => {
    expect(mergeDiff({}, { [key]: 1 })).toEqual({ [key]: 1 });
    expect(mergeDiff({ [key]: 1 }, {})).toEqual({ [key]: null });
    expect(equal({}, { [key]: undefined })).toBe(true);
  });

  test('returns only the members that differ, and null for removed ones', () => {
    const from = { phase: 'Ready', counts: { a: 1, b: 2 }, list: [1, 2] };
    expect(mergeDiff(from, { phase: 'Ready', counts: { a: 1, b: 3 }, list: [1] })).toEqual({
      counts: { b: 3 },
      list: [1],
    });
    expect(mergeDiff(from, { counts: { a: 1, b: 2 }, list: [1, 2] })).toEqual({ phase: null });
  });
});
