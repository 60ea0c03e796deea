import fs, { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { editText, removeDurably, writeDurably } from './disk.ts';

/** Files on a disk that writes them and does not confirm their directory. */

const { fsyncSync } = fs;
afterEach(() => confirmDirectories(fsyncSync));

function confirmDirectories(confirm: typeof fsyncSync): void {
  fs.fsyncSync = confirm;
  syncBuiltinESMExports();
}

const failOnDirectories = () =>
  confirmDirectories((file) => {
    if (fs.fstatSync(file).isDirectory()) throw new Error('EIO: i/o error, fsync');
    fsyncSync(file);
  });

describe('a change of a file whose directory the disk does not confirm is refused, and', () => {
  const CHANGES: Record<string, (file: string) => void> = {
    'the file of a write': (file) => writeDurably(file, 'new'),
    'the file of a removal': (file) => removeDurably(file),
    'the file of an edit': (file) => editText(file, () => 'new'),
  };
  for (const [what, change] of Object.entries(CHANGES))
    test(`${what} has its former content and mode`, () => {
      const file = join(temporaryFolder(), 'row.json');
      const former = Buffer.from([0xff, 0x00, 0x41]);
      writeFileSync(file, former, { mode: 0o600 });
      failOnDirectories();
      expect(() => change(file)).toThrow('EIO');
      expect(readFileSync(file)).toEqual(former);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(readdirSync(join(file, '..'))).toEqual(['row.json']);
    });

  test('a file that was not there is not there', () => {
    const folder = join(temporaryFolder(), 'rows');
    mkdirSync(folder);
    failOnDirectories();
    expect(() => writeDurably(join(folder, 'row.json'), 'new')).toThrow('EIO');
    expect(() => editText(join(folder, 'settings.yaml'), () => 'new')).toThrow('EIO');
    expect(readdirSync(folder)).toEqual([]);
  });
});
