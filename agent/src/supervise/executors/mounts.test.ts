import { chmodSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { mayWrite, prepareMounts } from './mounts.ts';

const isRoot = process.getuid?.() === 0;
let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

function mount(path: string, user?: string): string {
  const source = join(folder, path);
  prepareMounts({ user, mounts: [{ source, target: '/data', readOnly: false, relabel: false }] }, undefined, folder);
  const { uid, gid, mode } = statSync(source);
  return `${uid}:${gid} ${(mode & 0o777).toString(8)}`;
}

test('mayWrite follows owner, group and mode of a directory, and is always true for root', () => {
  const directory = { uid: 1000, gid: 50, mode: 0o755 };
  expect(mayWrite({ uid: 1000, gid: 1 }, directory)).toBe(true);
  expect(mayWrite({ uid: 2000, gid: 50 }, directory)).toBe(false);
  expect(mayWrite({ uid: 2000, gid: 50 }, { ...directory, mode: 0o775 })).toBe(true);
  expect(mayWrite({ uid: 2000, gid: 1 }, { ...directory, mode: 0o777 })).toBe(true);
  expect(mayWrite({ uid: 0, gid: 0 }, directory)).toBe(true);
  expect(mayWrite(undefined, directory)).toBe(false);
});

describe.skipIf(!isRoot)('a volume', () => {
  test('that is shared is writable for every user that mounts it', () => {
    expect(mount('shared/pool', '1000:1000')).toBe('0:0 777');
    expect(mount('shared/pool', '2000:2000')).toBe('0:0 777');
  });
  test('that is shared and was created for one user becomes writable for the next user', () => {
    mount('shared/pool', '1000');
    chmodSync(join(folder, 'shared/pool'), 0o755);
    expect(mount('shared/pool', '0')).toBe('0:0 755');
    expect(mount('shared/pool', '2000')).toBe('0:0 777');
  });
  test('that is private belongs to the present user of its microservice', () => {
    expect(mount('data/uuid/own', '1000:1001')).toBe('1000:1001 755');
    chmodSync(join(folder, 'data/uuid/own'), 0o700);
    expect(mount('data/uuid/own', '2000')).toBe('2000:2000 700');
    expect(mount('data/uuid/own')).toBe('2000:2000 700');
  });
  test('that is private is writable for every user when the view names no user', () =>
    expect(mount('data/uuid/own')).toBe('0:0 777'));
});
