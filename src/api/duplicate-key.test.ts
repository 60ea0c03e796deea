import fc from 'fast-check';
import { expect, test } from 'vitest';
import { duplicateKey } from './duplicate-key.ts';

test.each([
  ['{"a":1,"b":2,"a":3}', 'a'],
  ['{"a":{"b":1,"b":2}}', 'b'],
  ['[{"a":1},{"a":1}]', undefined],
  ['{"a":{"a":1},"b":{"a":1}}', undefined],
  ['{"a":["b","b"],"b":"a"}', undefined],
  ['{"a":1,"\\u0061":2}', 'a'],
  ['{"a\\"":1,"a\\"":2}', 'a"'],
  ['{"x":"\\\\","x":1}', 'x'],
  ['{"a":",\\"a\\":","b":[],"c":{}}', undefined],
  ['"a"', undefined],
])('the member that %s has twice is %s', (text, name) => {
  expect(duplicateKey(text)).toBe(name);
});

test('no JSON text that an object makes has a member twice', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 1), (value, indent) => {
      expect(duplicateKey(JSON.stringify(value, undefined, indent))).toBeUndefined();
    }),
    { seed: 1, numRuns: 300 },
  );
});
