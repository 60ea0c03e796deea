import { expect, test } from 'vitest';
import { storeBytes } from './sizes.ts';

test.each([
  ['10g', 10 * 2 ** 30],
  ['10', 10 * 2 ** 30],
  ['512 MB', 512 * 2 ** 20],
  ['1m', 2 ** 20],
  ['2 Tb', 2 * 2 ** 40],
  ['0g', undefined],
  ['-1', undefined],
  ['1.5g', undefined],
  ['10k', undefined],
  ['10 gib', undefined],
  ['999999999999999t', undefined],
  ['', undefined],
])('the size "%s" is %s bytes', (text, bytes) => expect(storeBytes(text)).toBe(bytes));
