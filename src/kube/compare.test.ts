import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonical, covers, equal, mergeDiff } from './compare.ts';

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
    expect(covers({}, { [key]: { a: 1 } })).toBe(false);
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

describe('a live object covers the desired one or not', () => {
  const cases: Record<string, { live: unknown; desired: unknown; want: boolean }> = {
    'it does with defaults and a status that the server added': {
      live: { spec: { a: 1, defaulted: true }, status: {} },
      desired: { spec: { a: 1 } },
      want: true,
    },
    'it does not with another value': { live: { a: 1 }, desired: { a: 2 }, want: false },
    'it does not without a value': { live: {}, desired: { a: 1 }, want: false },
    'it does with defaults in the items of a list': {
      live: { ports: [{ port: 1, protocol: 'TCP' }] },
      desired: { ports: [{ port: 1 }] },
      want: true,
    },
    'it does not with an additional item of a list': {
      live: { args: ['a', 'b'] },
      desired: { args: ['a'] },
      want: false,
    },
    'it does not with another order of a list': {
      live: { args: ['b', 'a'] },
      desired: { args: ['a', 'b'] },
      want: false,
    },
    'it does with additional finalizers': {
      live: { metadata: { finalizers: ['x', 'ours'] } },
      desired: { metadata: { finalizers: ['ours'] } },
      want: true,
    },
    'it does not without a desired owner reference': {
      live: { metadata: { ownerReferences: [{ uid: 'x' }] } },
      desired: { metadata: { ownerReferences: [{ uid: 'ours' }] } },
      want: false,
    },
    'it does without a map that is empty in the desired one': { live: {}, desired: { labels: {} }, want: true },
    'it does with a value that is undefined in the desired one': {
      live: { a: 1 },
      desired: { a: undefined },
      want: true,
    },
    'it does not with a map in place of a list': { live: { a: {} }, desired: { a: [1] }, want: false },
  };
  test.each(Object.entries(cases))('%s', (_name, { live, desired, want }) => {
    expect(covers(live, desired)).toBe(want);
  });

  test('it does with equal values', () => {
    fc.assert(fc.property(json, (value) => covers(value, structuredClone(value))));
  });
});

test('the canonical text depends on values and not on the order of keys', () => {
  expect(canonical({ b: [{ y: 1, x: 2 }], a: 1 })).toBe(canonical({ a: 1, b: [{ x: 2, y: 1 }] }));
  expect(canonical({ a: [1, 2] })).not.toBe(canonical({ a: [2, 1] }));
});
