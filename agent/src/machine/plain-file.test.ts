import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { openPlainFile, type PlainFile } from './plain-file.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});
const at = (name: string) => join(folder, name);

async function textOf(file: PlainFile): Promise<string> {
  const read: Buffer[] = [];
  for await (const piece of file.pieces()) read.push(Buffer.from(piece));
  return Buffer.concat(read).toString();
}

describe('a plain file', () => {
  test('is read more than once', async () => {
    writeFileSync(at('a'), 'content');
    await using file = await openPlainFile(at('a'));
    expect(file.size).toBe(7);
    for (const _ of [1, 2]) expect(await textOf(file)).toBe('content');
  });

  test('is the file that was opened, also when another one gets its name', async () => {
    writeFileSync(at('a'), 'first');
    await using file = await openPlainFile(at('a'));
    writeFileSync(at('b'), 'second');
    renameSync(at('b'), at('a'));
    expect(await textOf(file)).toBe('first');
    symlinkSync('/etc/shadow', at('link'));
    renameSync(at('link'), at('a'));
    expect(await textOf(file)).toBe('first');
  });

  const others: Record<string, [() => string | Promise<string>, RegExp]> = {
    'a link to a file': [
      () => {
        writeFileSync(at('a'), 'x');
        symlinkSync('a', at('link'));
        return at('link');
      },
      /^is a link, not a file$/,
    ],
    'a directory': [
      () => {
        mkdirSync(at('d'));
        return at('d');
      },
      /^is a directory/,
    ],
    'a pipe, which nobody writes to': [
      () => {
        execFileSync('mkfifo', [at('pipe')]);
        return at('pipe');
      },
      /^is a pipe/,
    ],
    'a socket': [
      async () => {
        const server = createServer();
        onTestFinished(() => void server.close());
        await new Promise<void>((resolve) => server.listen(at('socket'), resolve));
        return at('socket');
      },
      /^is a socket/,
    ],
    'a device': [() => '/dev/zero', /^is a device/],
    'a file of the kernel about a process': [() => '/proc/self/environ', /^is a file of the kernel \(proc\)$/],
    'the memory of a process': [() => '/proc/self/mem', /^is a file of the kernel \(proc\)$/],
    'a link of the kernel to an open file': [() => '/proc/self/fd/1', /^is a link/],
    'a file of the kernel about a device': [
      () => '/sys/kernel/mm/transparent_hugepage/enabled',
      /kernel \(sysfs\)|not exist/,
    ],
    nothing: [() => at('nothing'), /^does not exist$/],
    'a file below a file': [
      () => {
        writeFileSync(at('a'), 'x');
        return at('a/b');
      },
      /^does not exist$/,
    ],
    'a name that is too long': [() => at('x'.repeat(300)), /^is too long$/],
  };
  test.each(Object.entries(others))('is not %s', async (_, [make, error]) => {
    await expect(openPlainFile(await make())).rejects.toThrow(error);
  });
});
