import { expect, test } from 'vitest';
import { imageText } from './image.ts';

test.each([
  ['shop/web:1', 'shop/web:1.O', 'shop/web:1 (wanted 1.O)'],
  ['web:1', 'web:2', 'web:1 (wanted 2)'],
  ['web', 'web:2', 'web (wanted 2)'],
  ['web:2', 'web', 'web:2 (wanted web)'],
  ['registry:5000/web:1', 'registry:5000/web:2', 'registry:5000/web:1 (wanted 2)'],
  ['registry:5000/web:1', 'registry:5000/api:1', 'registry:5000/web:1 (wanted registry:5000/api:1)'],
  ['web:1', 'web@sha256:ab', 'web:1 (wanted sha256:ab)'],
  ['web:1', 'web:1', 'web:1'],
  [undefined, 'web:1', 'web:1'],
  ['', 'web:1', 'web:1'],
  ['web:1', undefined, 'web:1'],
  [undefined, undefined, ''],
])('where %s runs and %s is wanted, the cell is %j', (running, wanted, text) => {
  expect(imageText(running, wanted)).toBe(text);
});
