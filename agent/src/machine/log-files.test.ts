import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { logFiles, logFileWriter } from './log-files.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

const line = (text: string) => `${text.padEnd(99, '.')}\n`;
const names = (directory = folder) => logFiles(directory).map(({ name }) => name);
const size = () => logFiles(folder).reduce((sum, { path }) => sum + statSync(path).size, 0);
const fail = (error: unknown) => {
  throw error;
};

test('log files together stay within the limit, and the oldest lines are removed first', () => {
  const write = logFileWriter(folder, () => ({ total: 3_000, files: 3 }), fail);
  for (let number = 0; number < 100; number++) {
    write(line(`line ${number}`));
    expect(size()).toBeLessThanOrEqual(3_000);
  }
  expect(names()).toEqual(['agent.log.2', 'agent.log.1', 'agent.log']);
  const text = logFiles(folder)
    .map(({ path }) => readFileSync(path, 'utf8'))
    .join('');
  expect(text.match(/line \d+/g)).toEqual(Array.from({ length: 30 }, (_, index) => `line ${70 + index}`));
});

test('a restart appends to the existing log files', () => {
  const limits = () => ({ total: 1_000, files: 2 });
  for (let start = 0; start < 7; start++) logFileWriter(folder, limits, fail)(line(`start ${start}`));
  expect(names()).toEqual(['agent.log.1', 'agent.log']);
  expect(readFileSync(join(folder, 'agent.log.1'), 'utf8')).toContain('start 4');
  expect(readFileSync(join(folder, 'agent.log'), 'utf8')).toContain('start 6');
});

test('limits that change are applied at the next line', () => {
  let limits = { total: 10_000, files: 10 };
  const write = logFileWriter(folder, () => limits, fail);
  for (let number = 0; number < 95; number++) write(line(`line ${number}`));
  expect(names()).toHaveLength(10);
  limits = { total: 400, files: 2 };
  for (let number = 0; number < 5; number++) write(line(`after ${number}`));
  expect(names()).toEqual(['agent.log.1', 'agent.log']);
  expect(size()).toBeLessThanOrEqual(400);
});

test('a line that is longer than a file is written to a new file', () => {
  const write = logFileWriter(folder, () => ({ total: 200, files: 2 }), fail);
  write(line('short'));
  write(`${'x'.repeat(500)}\n`);
  write(line('short'));
  expect(names()).toEqual(['agent.log.1', 'agent.log']);
});

test('a log directory that cannot be created is reported once and tried again', () => {
  const directory = join(folder, 'logs');
  writeFileSync(directory, 'a file is in the way');
  const problems: unknown[] = [];
  const write = logFileWriter(
    directory,
    () => ({ total: 1_000, files: 2 }),
    (error) => problems.push(error),
  );
  write(line('one'));
  write(line('two'));
  expect(problems).toHaveLength(1);
  rmSync(directory);
  write(line('three'));
  expect(readFileSync(join(directory, 'agent.log'), 'utf8')).toBe(line('three'));
  expect(problems).toHaveLength(1);
});
