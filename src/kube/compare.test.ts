import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonical, covers, equal, mergeDiff } from './compare.ts';

/** No object of Kubernetes has a member of this name. */
const json = fc.jsonValue({ maxDepth: 3 }).filter((value) => !JSON.stringify(value).includes('__proto__'));

/** RFC 7386, as written there. */
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

/** Kubernetes objects hold no nulls, which is what a merge patch needs to be exact. */
const withoutNulls = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_key, inner) => (inner === null ? undefined : inner)) ?? '{}');

describe('mergeDiff', () => {
  test('gives a patch that turns the one object into the other', () => {
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

  test('names only what differs and removes with null', () => {
    const from = { phase: 'Ready', counts: { a: 1, b: 2 }, list: [1, 2] };
    expect(mergeDiff(from, { phase: 'Ready', counts: { a: 1, b: 3 }, list: [1] })).toEqual({
      counts: { b: 3 },
      list: [1],
    });
    expect(mergeDiff(from, { counts: { a: 1, b: 2 }, list: [1, 2] })).toEqual({ phase: null });
  });
});

describe('covers', () => {
  const cases: Record<string, { live: unknown; desired: unknown; want: boolean }> = {
    'defaults and status that the server added do not matter': {
      live: { spec: { a: 1, defaulted: true }, status: {} },
      desired: { spec: { a: 1 } },
      want: true,
    },
    'a changed value matters': { live: { a: 1 }, desired: { a: 2 }, want: false },
    'a missing value matters': { live: {}, desired: { a: 1 }, want: false },
    'defaults within list items do not matter': {
      live: { ports: [{ port: 1, protocol: 'TCP' }] },
      desired: { ports: [{ port: 1 }] },
      want: true,
    },
    'an item more matters': { live: { args: ['a', 'b'] }, desired: { args: ['a'] }, want: false },
    'the order of arguments matters': { live: { args: ['b', 'a'] }, desired: { args: ['a', 'b'] }, want: false },
    'finalizers of others do not matter': {
      live: { metadata: { finalizers: ['x', 'ours'] } },
      desired: { metadata: { finalizers: ['ours'] } },
      want: true,
    },
    'owners of others do not matter, ours does': {
      live: { metadata: { ownerReferences: [{ uid: 'x' }] } },
      desired: { metadata: { ownerReferences: [{ uid: 'ours' }] } },
      want: false,
    },
    'an empty map is covered by an absent one': { live: {}, desired: { labels: {} }, want: true },
    'undefined means no opinion': { live: { a: 1 }, desired: { a: undefined }, want: true },
    'a list is not a map': { live: { a: {} }, desired: { a: [1] }, want: false },
  };
  test.each(Object.entries(cases))('%s', (_name, { live, desired, want }) => {
    expect(covers(live, desired)).toBe(want);
  });

  test('everything covers itself', () => {
    fc.assert(fc.property(json, (value) => covers(value, structuredClone(value))));
  });
});

test('canonical text does not depend on the order of keys, and does on values', () => {
  expect(canonical({ b: [{ y: 1, x: 2 }], a: 1 })).toBe(canonical({ a: 1, b: [{ x: 2, y: 1 }] }));
  expect(canonical({ a: [1, 2] })).not.toBe(canonical({ a: [2, 1] }));
});
