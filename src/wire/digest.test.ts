import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalJson, digestOf } from './digest.ts';

test('a digest depends on the order of lists and not on the order of keys', () => {
  expect(digestOf({ a: 1, b: { c: 2, d: 3 } })).toBe(digestOf({ b: { d: 3, c: 2 }, a: 1 }));
  expect(digestOf([1, 2])).not.toBe(digestOf([2, 1]));
});

test('the digest of an undefined member is that of an absent one, and not that of null', () => {
  expect(digestOf({ a: undefined })).toBe(digestOf({}));
  expect(digestOf({ a: null })).not.toBe(digestOf({}));
});

test('the canonical text is JSON of the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('the digests of fixed values never change, since a new revision would restart containers', () => {
  expect(digestOf({ image: 'a:1', ports: [{ internal: 80 }] })).toMatchInlineSnapshot(`"52c81970a4aba32b"`);
});
