import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { tryLock } from '../lock.ts';
import { writePidFile } from '../process.ts';
import { STACK_PROCESS } from './files.ts';
import { logsIn } from './refusal.ts';
import { startStack } from './stack.ts';

let dir: string;
beforeEach(() => {
  dir = temporaryFolder();
});

const refusal = async () => {
  await using _first = tryLock(join(dir, 'lock'));
  return startStack({ dir, log: () => {} }).then(
    () => 'started',
    (error: Error) => error.message,
  );
};

test('a second start is refused with what runs and how to stop it without losing data', async () => {
  mkdirSync(join(dir, 'run'));
  writePidFile(dir, STACK_PROCESS, process.pid);
  writeFileSync(join(dir, 'stack.json'), JSON.stringify({ rest: 'http://127.0.0.1:51121' }));
  expect(await refusal()).toBe(
    [
      `The local stack runs already, as process ${process.pid}.`,
      '  REST      http://127.0.0.1:51121',
      '  kubectl   export KUBECONFIG=.skerry/kubeconfig',
      `To stop it, press Ctrl-C where it runs, or: kill ${process.pid}. Its data stays; make clean removes that as well.`,
    ].join('\n'),
  );
});

test('a start that failed names the folder of logs only when it has some', () => {
  expect(logsIn(dir)).toBe('');
  mkdirSync(join(dir, 'logs'));
  expect(logsIn(dir)).toBe(`\nLogs are in ${join(dir, 'logs')}.\n`);
});

test('a second start while the first one starts or stops is refused as well', async () => {
  expect(await refusal()).toMatch(
    /^The local stack runs already, and is starting or stopping\.\nTo stop it, press Ctrl-C/,
  );
});
