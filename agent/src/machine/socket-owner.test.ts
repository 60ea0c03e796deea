import { expect, test } from 'vitest';
import { startedBy } from './socket-owner.ts';

test('a process with the rights of root belongs to the user who started it', () => {
  expect(startedBy('Name:\tsu\nUmask:\t0022\nUid:\t1000\t0\t0\t0\nGid:\t1000\t0\t0\t0\n')).toBe(1000);
  expect(startedBy('Name:\tnode\nUid:\t0\t0\t0\t0\n')).toBe(0);
  expect(startedBy('')).toBe(-1);
});
