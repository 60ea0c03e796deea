import { expect, test } from 'vitest';
import { cpusIn } from './cpus.ts';
import { namesToRemove, sortedNames } from './image-store.ts';

const id = `sha256:${'1'.repeat(64)}`;
const digest = `r.example/a@sha256:${'2'.repeat(64)}`;

test.each([
  [
    'the last tag takes the names by digest and the id with it',
    'r.example/a:1',
    [id, digest, 'r.example/a:1'],
    [id, digest, 'r.example/a:1'],
  ],
  [
    'one of two tags of a repository goes alone',
    'r.example/a:1',
    [id, digest, 'r.example/a:1', 'r.example/a:2'],
    ['r.example/a:1'],
  ],
  [
    'with the last tag of a repository its digest goes, where another repository has a tag',
    'r.example/a:1',
    [id, digest, 'r.example/a:1', 'r.example/b:1'],
    ['r.example/a:1', digest],
  ],
  ['an id takes all names', id, [id, digest, 'r.example/a:1'], [id, digest, 'r.example/a:1']],
])('%s', (_what, selector, names, gone) => {
  expect(namesToRemove(selector, names).sort()).toEqual([...gone].sort());
});

test('ids are no names of an image', () => {
  expect(sortedNames([id, digest, 'r.example/a:1'])).toEqual({ tags: ['r.example/a:1'], digests: [digest] });
});

test('a list of CPUs has ranges and numbers', () => {
  expect(cpusIn('0-2,4')).toEqual([0, 1, 2, 4]);
  expect(cpusIn('x,3-1,0-99999999')).toEqual([]);
});
