import { mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { refreshHostsFile } from './hosts-file.ts';

const TEXT = '127.0.0.1\tlocalhost\n';

test('a hosts file that a container made larger than any text gets its text again', () => {
  const path = join(temporaryFolder(), 'hosts');
  writeFileSync(path, '');
  truncateSync(path, 1024 ** 3);
  refreshHostsFile(path, TEXT);
  expect(readFileSync(path, 'utf8')).toBe(TEXT);
});

test('a hosts file is written in place, and only where its text differs', () => {
  const path = join(temporaryFolder(), 'hosts');
  writeFileSync(path, TEXT.toUpperCase());
  const { ino } = statSync(path);
  refreshHostsFile(path, TEXT);
  const { mtimeNs } = statSync(path, { bigint: true });
  refreshHostsFile(path, TEXT);
  expect(statSync(path, { bigint: true }).mtimeNs).toBe(mtimeNs);
  expect([readFileSync(path, 'utf8'), statSync(path).ino]).toEqual([TEXT, ino]);
});

test('a hosts file that cannot be written is no error', () => {
  const path = join(temporaryFolder(), 'hosts');
  mkdirSync(path);
  expect(() => refreshHostsFile(path, TEXT)).not.toThrow();
});
