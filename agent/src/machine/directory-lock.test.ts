import { spawn } from 'node:child_process';
import { chmodSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { AgentError } from '../domain/agent-error.ts';
import { holdDirectory } from './directory-lock.ts';

let directory: string;
beforeEach(() => {
  directory = temporaryFolder();
});

test('a second agent on one data directory is refused with the process id of the first', () => {
  const first = holdDirectory(directory, silentLog);
  expect(() => holdDirectory(directory, silentLog)).toThrow(
    new AgentError('CONFLICT', `another agent (process ${process.pid}) works with ${directory}; stop it first`),
  );
  first[Symbol.dispose]();
  holdDirectory(directory, silentLog)[Symbol.dispose]();
});

test('a lock ends with its process, also after SIGKILL', async () => {
  const module = join(import.meta.dirname, 'directory-lock.ts');
  const script = `
    const { holdDirectory } = await import(${JSON.stringify(module)});
    globalThis.lock = holdDirectory(${JSON.stringify(directory)}, console);
    process.stdout.write('held');
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script]);
  await new Promise((resolve) => child.stdout.once('data', resolve));
  expect(() => holdDirectory(directory, silentLog)).toThrow(`process ${child.pid}`);
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await gone;
  holdDirectory(directory, silentLog)[Symbol.dispose]();
});

test('an agent starts without a lock when the lock file cannot be created', () => {
  const file = join(directory, 'file');
  writeFileSync(file, '');
  holdDirectory(join(file, 'below'), silentLog)[Symbol.dispose]();
});

test('the lock can be opened by the user of the agent alone, also when an earlier agent made it for all', () => {
  const file = join(directory, 'agent.lock');
  writeFileSync(file, '');
  chmodSync(file, 0o644);
  // What is there besides keeps the directory itself open.
  writeFileSync(join(directory, 'other'), '');
  chmodSync(directory, 0o755);
  using _lock = holdDirectory(directory, silentLog);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});
