import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { equal } from './compare.ts';

/** No Kubernetes object has a member `__proto__`. */
const json = fc.jsonValue({ maxDepth: 3 }).filter((value) => !JSON.stringify(value).includes('__proto__'));

describe('equal', () => {
  test('finds an object equal to its copy, and different once a member was added, changed or removed', () => {
    const object = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), json, { minKeys: 1 });
    fc.assert(
      fc.property(object, fc.nat(), json, (from, at, value) => {
        const [key = ''] = Object.keys(from).slice(at % Object.keys(from).length);
        expect(equal(from, structuredClone(from))).toBe(true);
        const { [key]: former, ...rest } = from;
        expect(equal(from, rest)).toBe(false);
        expect(equal(from, { ...from, e: value })).toBe(false);
        expect(equal(from, { ...from, [key]: [former] })).toBe(false);
      }),
    );
  });

  test.each(['toString', 'constructor', 'hasOwnProperty'])('treats a member called %s like any other', (key) => {
    expect(equal({}, { [key]: 1 })).toBe(false);
    expect(equal({ [key]: 1 }, {})).toBe(false);
    expect(equal({}, { [key]: undefined })).toBe(true);
  });
});
