import { chmodSync, chownSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { closeDirectory, directoryProblem, roomProblem } from './data-directory.ts';

let directory: string;
beforeEach(() => {
  directory = temporaryFolder();
  chmodSync(directory, 0o755);
});
const modeOf = (path: string) => statSync(path).mode & 0o7777;
const inIt = (name: string) => join(directory, name);

test('a data directory that does not exist is made for the agent alone', () => {
  closeDirectory(inIt('data'));
  expect([modeOf(inIt('data')), modeOf(inIt('data/volumes'))]).toEqual([0o700, 0o750]);
});

test.each([
  ['is empty', []],
  ['is a new file system', ['lost+found']],
  [
    'holds only what the agent makes',
    [
      ...['agent.db', 'agent.db-wal', 'agent.db.damaged-1700000000000-shm', 'agent.lock', 'agent.lock-journal'],
      ...['identity.json', 'identity.json.damaged-1', 'local-api.json', 'volumes', 'artifacts', 'programs', 'run'],
    ],
  ],
])('a data directory that others may open and that %s is closed', (_name, files) => {
  for (const name of files) mkdirSync(inIt(name));
  closeDirectory(directory);
  expect(modeOf(directory)).toBe(0o700);
  expect(directoryProblem(directory)).toBeUndefined();
});

test('a data directory with files of others keeps its mode, and the problem says what to do', () => {
  writeFileSync(inIt('agent.db'), '');
  writeFileSync(inIt('photos.tar'), '');
  closeDirectory(directory);
  expect(modeOf(directory)).toBe(0o755);
  expect(directoryProblem(directory)).toMatch(/is open to other users \(mode 755\).*chmod 700/);
});

test.runIf(process.getuid?.() === 0)('a data directory of another user is a problem and keeps its mode', () => {
  chownSync(directory, 65534, 65534);
  closeDirectory(directory);
  expect(modeOf(directory)).toBe(0o755);
  expect(directoryProblem(directory)).toMatch(/belongs to user 65534/);
});

test('volumes are closed to others in any data directory', () => {
  mkdirSync(inIt('volumes'), { mode: 0o755 });
  writeFileSync(inIt('photos.tar'), '');
  closeDirectory(directory);
  expect(modeOf(inIt('volumes'))).toBe(0o750);
});

test('volumes that an administrator closed further stay as they are', () => {
  mkdirSync(inIt('volumes'), { mode: 0o700 });
  closeDirectory(directory);
  expect(modeOf(inIt('volumes'))).toBe(0o700);
});

test('a disk of the data directory without room is a problem before anything has to be written', () => {
  const size = (available: number) => ({ total: 16 * 1024 ** 2, available, files: 100, freeFiles: 50 });
  expect(roomProblem('/data', size(0))).toMatch(/^the disk of \/data is full: .*make room/);
  expect(roomProblem('/data', size(1024 ** 2))).toBeUndefined();
  expect(roomProblem(inIt('absent'))).toBeUndefined();
});
