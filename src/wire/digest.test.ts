import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalJson, digestOf } from './digest.ts';

test('key order does not matter, order of lists does', () => {
  expect(digestOf({ a: 1, b: { c: 2, d: 3 } })).toBe(digestOf({ b: { d: 3, c: 2 }, a: 1 }));
  expect(digestOf([1, 2])).not.toBe(digestOf([2, 1]));
});

test('an absent member and an undefined one are the same, null is not', () => {
  expect(digestOf({ a: undefined })).toBe(digestOf({}));
  expect(digestOf({ a: null })).not.toBe(digestOf({}));
});

test('the text is JSON of the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('digests are pinned: a revision must not change with an upgrade', () => {
  expect(digestOf({ image: 'a:1', ports: [{ internal: 80 }] })).toMatchInlineSnapshot(`"52c81970a4aba32b"`);
});
