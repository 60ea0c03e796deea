import { expect, test } from 'vitest';
import { plainFlags, splitLine } from './command-line.ts';

const flags = {
  namespace: { type: 'string', short: 'n', about: '' },
  tail: { type: 'string', about: '' },
  follow: { type: 'boolean', short: 'f', about: '' },
} as const;

test.for([
  [['get', '-n', 'x'], [], 'get', ['-n', 'x']],
  [['-n', 'x', 'get', 'apps'], ['-n', 'x'], 'get', ['apps']],
  [['-nx', '--namespace=y', 'get'], ['-nx', '--namespace=y'], 'get', []],
  [['-n'], ['-n'], undefined, []],
  [['--help'], [], '--help', []],
  [['-f', 'get'], [], '-f', ['get']],
] as const)('%j: flags with a value may stand before the command', ([line, before, name, after]) => {
  expect(splitLine(line, flags)).toEqual({ before, name, after });
});

test.for([
  [['--follow=true'], ['--follow']],
  [['--follow=false', 'a'], ['a']],
  [
    ['--tail', '-1', 'a'],
    ['--tail=-1', 'a'],
  ],
  [
    ['--tail', '--follow'],
    ['--tail', '--follow'],
  ],
  [['--namespace=true'], ['--namespace=true']],
  [
    ['a', '--', '--follow=true', '--tail', '-1'],
    ['a', '--', '--follow=true', '--tail', '-1'],
  ],
] as const)('%j: flags are read as kubectl reads them', ([args, plain]) => {
  expect(plainFlags(args, flags)).toEqual(plain);
});
