import { expect, test } from 'vitest';
import type { Structural } from '../../../api/structural.ts';
import { bounded } from './bounded.ts';

const schema: Structural = {
  type: 'object',
  properties: {
    text: { type: 'string', maxLength: 3 },
    count: { type: 'integer', minimum: 0, maximum: 10 },
    part: { type: 'number', minimum: 0 },
    list: { type: 'array', maxItems: 2, items: { type: 'string', maxLength: 1 } },
  },
};

test.each([
  ['cuts texts', { text: 'abcd' }, { text: 'abc' }],
  ['cuts lists, and the texts in them', { list: ['ab', 'c', 'd'] }, { list: ['a', 'c'] }],
  ['moves numbers into their range', { count: 11, part: -1 }, { count: 10, part: 0 }],
  ['rounds integers, and no other numbers', { count: 1.6, part: 1.6 }, { count: 2, part: 1.6 }],
  ['leaves out a value that is no number', { count: Number.NaN }, {}],
  ['leaves out unknown and undefined members', { other: 1, text: undefined }, {}],
  ['keeps values within the bounds', { text: 'abc', list: [] }, { text: 'abc', list: [] }],
])('%s', (_, value, want) => {
  expect(bounded(value, schema)).toStrictEqual(want);
});
