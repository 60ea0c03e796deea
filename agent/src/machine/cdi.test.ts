import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { discoverCdi } from './cdi.ts';
import { createLog, type LogEntry } from './log.ts';

let folder: string;
let etc: string;
let run: string;
let logged: LogEntry[];
let list: () => readonly string[];

beforeEach(() => {
  folder = temporaryFolder();
  [etc, run] = [join(folder, 'etc'), join(folder, 'run')];
  mkdirSync(etc);
  logged = [];
  const discover = discoverCdi(createLog({ level: 'DEBUG', write: (entry) => void logged.push(entry) }));
  list = () => discover([etc, run]);
});

const spec = (kind: string, ...names: string[]) =>
  `kind: ${kind}\ndevices: ${JSON.stringify(names.map((name) => ({ name })))}\n`;
const left = () =>
  logged.filter(({ message }) => message === 'A CDI specification is left out').map(({ path }) => path);

test('the devices of all directories are listed once each and sorted, and a directory that does not exist has none', () => {
  writeFileSync(join(etc, 'b.yaml'), spec('v/gpu', '1', '0'));
  writeFileSync(join(etc, 'a.json'), JSON.stringify({ kind: 'a/fpga', devices: [{ name: 'x' }] }));
  writeFileSync(join(etc, 'notes.txt'), 'hello');
  expect(list()).toEqual(['a/fpga=x', 'v/gpu=0', 'v/gpu=1']);
  mkdirSync(run);
  writeFileSync(join(run, 'c.yml'), spec('v/gpu', '1', '2'));
  expect(list()).toEqual(['a/fpga=x', 'v/gpu=0', 'v/gpu=1', 'v/gpu=2']);
  expect(left()).toEqual([]);
});

test('a specification that changes or goes is noticed, and a link is followed', () => {
  const path = join(etc, 'a.yaml');
  writeFileSync(join(folder, 'real'), spec('v/c', 'one'));
  symlinkSync(join(folder, 'real'), path);
  expect(list()).toEqual(['v/c=one']);
  rmSync(path);
  expect(list()).toEqual([]);
  writeFileSync(path, spec('v/c', 'two'));
  expect(list()).toEqual(['v/c=two']);
});

test('a specification that cannot be read is left out, and the log says it once per change', () => {
  const path = join(etc, 'bad.yaml');
  writeFileSync(path, 'kind: nothing\n');
  writeFileSync(join(etc, 'good.yaml'), spec('v/c', 'a'));
  expect([list(), list()]).toEqual([['v/c=a'], ['v/c=a']]);
  expect(left()).toEqual([path]);
  writeFileSync(path, 'kind: nothing at all\n');
  utimesSync(path, 1, 1);
  expect(list()).toEqual(['v/c=a']);
  expect(left()).toEqual([path, path]);
});

test('what is longer than a mebibyte, a directory and a pipe are left out without waiting', () => {
  writeFileSync(join(etc, 'long.yaml'), `${spec('v/c', 'a')}#${'x'.repeat(1024 * 1024)}`);
  mkdirSync(join(etc, 'folder.yaml'));
  expect(spawnSync('mkfifo', [join(etc, 'pipe.yaml')]).status).toBe(0);
  expect(list()).toEqual([]);
  expect(left()).toHaveLength(3);
});

test('of a directory with very many files only some are read', () => {
  for (let i = 0; i < 70; i++) writeFileSync(join(etc, `${String(i).padStart(2, '0')}.yaml`), spec('v/c', `d${i}`));
  expect(list()).toHaveLength(64);
});
