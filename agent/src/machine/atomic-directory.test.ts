import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { holdsTree, makeInnerDirectory, readTree, switchedAt, writeFileOnce, writeTree } from './atomic-directory.ts';

let folder: string;
let mask: number;
const directory = () => join(folder, 'secrets/m1');
const tree = (files: Record<string, string>) =>
  new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]));
const mode = (path: string) => (lstatSync(join(directory(), path)).mode & 0o777).toString(8);

beforeEach(() => {
  mask = process.umask(0o077);
  folder = temporaryFolder();
  makeInnerDirectory(join(folder, 'secrets'));
});
afterEach(() => void process.umask(mask));

describe('a directory that is written as a whole', () => {
  test('has each file below its name, through relative links alone', () => {
    writeTree(directory(), tree({ a: '1', 'tls/cert/x.pem': '2' }));
    expect(readFileSync(join(directory(), 'a'), 'utf8')).toBe('1');
    expect(readFileSync(join(directory(), 'tls/cert/x.pem'), 'utf8')).toBe('2');
    expect(readlinkSync(join(directory(), 'a'))).toBe('..data/a');
    expect(readlinkSync(join(directory(), '..data'))).toMatch(/^\.\.[0-9a-f]{16}$/);
    expect(readTree(directory())).toEqual(tree({ a: '1', 'tls/cert/x.pem': '2' }));
  });

  test('is readable for every user of a container, whatever the umask is, and its parent is not', () => {
    writeTree(directory(), tree({ 'tls/key': '1' }));
    expect([mode(''), mode('..data/'), mode('..data/tls'), mode('tls/key')]).toEqual(['755', '755', '755', '644']);
    expect((lstatSync(join(folder, 'secrets')).mode & 0o777).toString(8)).toBe('750');
  });

  test('shows new files, lacks removed ones, and keeps nothing of older content', () => {
    writeTree(directory(), tree({ a: '1', gone: '1', 'file-then-directory': '1' }));
    const before = readlinkSync(join(directory(), '..data'));
    writeTree(directory(), tree({ a: '2', 'new': '2', 'file-then-directory/x': '2' }));
    expect(readdirSync(directory()).sort()).toEqual(
      ['..data', readlinkSync(join(directory(), '..data')), 'a', 'file-then-directory', 'new'].sort(),
    );
    expect(readlinkSync(join(directory(), '..data'))).not.toBe(before);
    expect(readFileSync(join(directory(), 'file-then-directory/x'), 'utf8')).toBe('2');
  });

  test('replaces what something else left in its place', () => {
    writeTree(directory(), tree({ a: '1' }));
    mkdirSync(join(directory(), 'b'));
    symlinkSync('/etc', join(directory(), 'c'));
    writeTree(directory(), tree({ a: '1', b: '2', c: '3' }));
    expect(['b', 'c'].map((name) => readlinkSync(join(directory(), name)))).toEqual(['..data/b', '..data/c']);
  });

  test('has no file when its content is empty', () => {
    writeTree(directory(), tree({ a: '1' }));
    writeTree(directory(), tree({}));
    expect(readdirSync(directory()).filter((name) => !name.startsWith('..'))).toEqual([]);
    expect(readTree(directory())?.size).toBe(0);
  });

  test('counts as held only with this content and the links to it', () => {
    const content = tree({ a: '1', 'b/c': '2' });
    expect(holdsTree(directory(), content)).toBe(false);
    writeTree(directory(), content);
    expect(holdsTree(directory(), content)).toBe(true);
    expect(holdsTree(directory(), tree({ a: '1' }))).toBe(false);
    expect(holdsTree(directory(), tree({ a: '1', 'b/c': '3' }))).toBe(false);
    rmSync(join(directory(), 'b'));
    expect(holdsTree(directory(), content)).toBe(false);
    expect(switchedAt(directory())).toBeGreaterThan(Date.now() - 600_000);
  });

  test('is not read through a switch that leads out of it', () => {
    mkdirSync(directory(), { recursive: true });
    symlinkSync('../../etc', join(directory(), '..data'));
    expect(readTree(directory())).toBeUndefined();
  });
});

test('a file that never changes is written once', () => {
  const path = join(folder, 'secrets/m1@k');
  writeFileOnce(path, Buffer.from('1'));
  chmodSync(path, 0o600);
  writeFileOnce(path, Buffer.from('2'));
  expect(readFileSync(path, 'utf8')).toBe('1');
  writeFileSync(`${path}.tmp`, 'left over');
  rmSync(path);
  writeFileOnce(path, Buffer.from('3'));
  expect(readFileSync(path, 'utf8')).toBe('3');
  expect((lstatSync(path).mode & 0o777).toString(8)).toBe('644');
  expect(readdirSync(join(folder, 'secrets'))).toEqual(['m1@k']);
});
