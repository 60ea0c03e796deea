import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { beforeEach, describe, expect, test } from 'vitest';
import { makeTar, type NewEntry } from '../../../src/lib/tar/write.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { archive, extract } from './files.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

/** In pieces of odd sizes, as a network delivers them. */
async function* pieces(bytes: Buffer, size = 1_000) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
async function into(bytes: Buffer, target = join(folder, 'out'), root = 'top') {
  const leftOut: string[] = [];
  const files = await extract(pieces(bytes), { root, target, leftOut: (text) => void leftOut.push(text) });
  return { files, leftOut };
}
const text = (path: string) => readFileSync(join(folder, path), 'utf8');
const LONG = `${'folder-with-a-long-name/'.repeat(12)}file`;

function makeTree(): Buffer {
  const bytes = randomBytes(300_001);
  mkdirSync(join(folder, 'top', LONG, '..'), { recursive: true });
  writeFileSync(join(folder, 'top', LONG), 'deep');
  writeFileSync(join(folder, 'top/bytes'), bytes);
  writeFileSync(join(folder, 'top/empty'), '');
  writeFileSync(join(folder, 'top/größe'), 'name', { mode: 0o700 });
  return bytes;
}

test('tar of the system reads what is sent: names of any length, modes, links and bytes', async () => {
  const bytes = makeTree();
  symlinkSync('bytes', join(folder, 'top/link'));
  const path = join(folder, 'a.tar');
  writeFileSync(path, Buffer.concat(await Readable.from(archive(join(folder, 'top'), 'named')).toArray()));
  execFileSync('tar', ['-xmf', path, '-C', folder]);
  expect(readFileSync(join(folder, 'named/link'))).toEqual(bytes);
  expect([text(`named/${LONG}`), text('named/empty'), text('named/größe')]).toEqual(['deep', '', 'name']);
  expect(statSync(join(folder, 'named/größe')).mode & 0o777).toBe(0o700);
});

test('an archive of tar of the system is written below the target', async () => {
  const bytes = makeTree();
  const out = execFileSync('tar', ['-cf', '-', '-C', folder, './top'], { maxBuffer: 2 ** 24 });
  expect((await into(out)).files).toBe(4);
  expect(readFileSync(join(folder, 'out/bytes'))).toEqual(bytes);
  expect(text(`out/${LONG}`)).toBe('deep');
});

describe('a hostile archive', () => {
  const evil = (...entries: NewEntry[]) => makeTar(entries);
  const file = (path: string): NewEntry => ({ path, type: 'file', content: Buffer.from('evil') });

  test.each(['../evil', 'top/../../evil', 'top/../evil', 'evil', '/evil', 'top/a/../../../evil'])(
    'writes nothing at %s',
    async (path) => {
      await expect(into(evil(file(path)))).rejects.toThrow(/an entry outside of top/);
      expect(existsSync(join(folder, 'evil'))).toBe(false);
    },
  );

  test('makes no links, so that nothing is written through one', async () => {
    mkdirSync(join(folder, 'secret'));
    const link: NewEntry = { path: 'top/link', type: 'symlink', target: '../secret' };
    const { leftOut } = await into(evil({ path: 'top', type: 'directory' }, link, file('top/link/evil')));
    expect(leftOut).toEqual(['"top/link": left out, since it is a symbolic link']);
    expect(existsSync(join(folder, 'secret/evil'))).toBe(false);
    expect(text('out/link/evil')).toBe('evil');
  });

  test('writes no escape sequence to the terminal', async () => {
    const { leftOut } = await into(evil({ path: 'top/\x1b]0;evil\x07\x9b2J', type: 'symlink', target: 'x' }));
    expect(leftOut).toEqual([expect.stringMatching(/^"top\/[^\p{Cc}]*": left out/u)]);
    await expect(into(evil(file('\x1b[2Jevil')))).rejects.toThrow(/^[^\p{Cc}]*$/u);
  });

  test('writes through no link that was there before', async () => {
    mkdirSync(join(folder, 'secret'));
    mkdirSync(join(folder, 'out'));
    symlinkSync('../secret', join(folder, 'out/link'));
    symlinkSync('../secret/evil', join(folder, 'out/direct'));
    await expect(into(evil(file('top/link/evil')))).rejects.toThrow(/out\/link is in the way/);
    await expect(into(evil(file('top/direct')))).rejects.toThrow(/out\/direct is in the way/);
    expect(existsSync(join(folder, 'secret/evil'))).toBe(false);
  });

  test('that is cut off, is none, or has absurd lengths ends with an error', async () => {
    const good = evil(file('top/a'));
    await expect(into(good.subarray(0, 700))).rejects.toThrow(/ends within an entry/);
    await expect(into(Buffer.alloc(5_000, 'x'))).rejects.toThrow(/no tar archive/);
  });
});
