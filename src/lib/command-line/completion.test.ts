import { expect, test } from 'vitest';
import { PROGRAM } from './_program.ts';
import { completionOf } from './completion.ts';

test.for([
  [['l'], 'logs\nload\n:4\n'],
  [['he'], 'help\n:4\n'],
  [['cr'], 'crew\n:4\n'],
  [['crew', ''], 'ls\nrm\n:4\n'],
  [['help', 'crew', 'l'], 'ls\n:4\n'],
  [['-n', 'x', 'logs', ''], 'logs 1\nlogs 2\n:4\n'],
  [['logs', '-ft', 'logs 1'], 'logs 1\n:4\n'],
  [['logs', 'a', ''], ':4\n'],
  [['logs', '--fo'], '--follow\n:4\n'],
  [['logs', '-o', 'y'], 'yaml\n:4\n'],
  [['logs', '--tail', ''], ':4\n'],
  [['load', '-f', ''], ':0\n'],
  [['sail', ''], ':4\n'],
] as const)('%j is completed', async ([line, printed]) => {
  expect(await completionOf(line, PROGRAM, async ({ name }) => [`${name} 1`, `${name} 2`])).toBe(printed);
});
