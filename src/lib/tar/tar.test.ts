import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { makeTar as makeAny } from './_parts.ts';
import { readTar, TarError, type TarOptions } from './read.ts';
import { END, header, makeTar, padding, type TarHeader } from './write.ts';

/** In pieces of odd sizes, as a network delivers them. */
async function* pieces(bytes: Buffer, size = 1_000) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** The entries of an archive with their content. */
async function entriesOf(bytes: Buffer, options?: TarOptions) {
  const entries = [];
  for await (const { content, ...entry } of readTar(pieces(bytes), options)) {
    const read: Buffer[] = [];
    for await (const piece of content) read.push(Buffer.from(piece));
    entries.push({ ...entry, content: Buffer.concat(read) });
  }
  return entries;
}

const listing = (input: Buffer) =>
  execFileSync('tar', ['-tf', '-'], { input, encoding: 'utf8', env: { ...process.env, LC_ALL: 'C.UTF-8' } }).trim();

test.each(['gnu', 'pax', 'ustar', 'v7'])('an archive of tar of the system in the format %s is read', async (format) => {
  const folder = temporaryFolder();
  const long = `${'folder-with-a-long-name/'.repeat(format === 'gnu' || format === 'pax' ? 12 : 2)}file`;
  const bytes = randomBytes(300_001);
  const contents = { [long]: Buffer.from('deep'), bytes, empty: Buffer.alloc(0), größe: Buffer.from('name') };
  mkdirSync(join(folder, dirname(long)), { recursive: true });
  for (const [path, content] of Object.entries(contents)) writeFileSync(join(folder, path), content);
  chmodSync(join(folder, 'größe'), 0o700);
  symlinkSync('bytes', join(folder, 'link'));
  const out = execFileSync('tar', [`--format=${format}`, '-cf', '-', '-C', folder, '.'], { maxBuffer: 2 ** 24 });
  const entries = await entriesOf(out);
  const files = entries.filter(({ type }) => type === 'file');
  expect(Object.fromEntries(files.map(({ path, content }) => [path.slice('./'.length), content]))).toEqual(contents);
  expect(entries.find(({ path }) => path === './größe')?.mode).toBe(0o700);
  expect(entries.find(({ path }) => path === './link')).toMatchObject({ type: 'symlink', target: 'bytes' });
  expect(entries.find(({ path }) => path === `./${dirname(long)}/`)).toMatchObject({ type: 'directory', size: 0 });
});

test.each(['ustar', 'gnu'] as const)('an archive in the form %s is read as it was written', async (form) => {
  const long = form === 'gnu' ? 'x'.repeat(300) : `${'f'.repeat(90)}/${'g'.repeat(90)}`;
  const written: TarHeader[] = [
    { path: 'folder', type: 'directory', mode: 0o750 },
    { path: long, type: 'file', size: 700, mode: 0o640 },
    { path: 'link', type: 'symlink', target: form === 'gnu' ? long : 'x', mode: 0o777 },
  ];
  const blocks = written.flatMap((entry) => [
    header(entry, form),
    Buffer.alloc(entry.size ?? 0, 'x'),
    padding(entry.size ?? 0),
  ]);
  const bytes = Buffer.concat([...blocks, END]);
  expect(listing(bytes).split('\n')).toEqual(['folder/', long, 'link']);
  const read = await entriesOf(bytes);
  expect(read).toMatchObject(
    written.map((entry) => ({ ...entry, ...(entry.path === 'folder' && { path: 'folder/' }) })),
  );
  expect(read[1]?.content).toEqual(Buffer.alloc(700, 'x'));
});

test('paths in the form ustar may have 255 bytes when a folder ends within the first 155', () => {
  const path = `${'f'.repeat(90)}/${'g'.repeat(90)}`;
  expect(listing(makeTar([{ path, type: 'file', content: Buffer.from('x') }]))).toBe(path);
  expect(() => makeTar([{ path: 'x'.repeat(101), type: 'file' }])).toThrow('too long');
});

test('a file of more than 8 GiB has its size in its header', async () => {
  const size = 2 ** 33 + 1;
  for await (const entry of readTar(pieces(header({ path: 'big', type: 'file', size }, 'gnu')))) {
    expect(entry.size).toBe(size);
    break;
  }
});

test('an archive that ends within an entry is refused, wherever it ends', async () => {
  const bytes = makeTar([
    { path: 'a', type: 'file', content: Buffer.from('a') },
    { path: 'b', type: 'file' },
  ]);
  for (const length of [1, 511, 512, 513, 1023, 1025, 1535])
    await expect(entriesOf(bytes.subarray(0, length)), String(length)).rejects.toThrow(TarError);
  for (const [length, count] of [
    [0, 0],
    [1024, 1],
    [1536, 2],
    [1600, 2],
  ] as const)
    expect(await entriesOf(bytes.subarray(0, length)), String(length)).toHaveLength(count);
});

test('content of an entry of an unknown type is passed over', async () => {
  const bytes = makeAny({ path: 'x', type: 'Z', content: 'z'.repeat(1000) }, { path: 'a', content: 'a' });
  expect((await entriesOf(bytes)).map(({ path, type }) => [path, type])).toEqual([
    ['x', 'other'],
    ['a', 'file'],
  ]);
});

test.each([
  ['to the end of the source when asked for', true, 0],
  ['to the end of the archive otherwise', false, 9_000],
])('an archive is read %s', async (_, toEnd, left) => {
  const source = pieces(Buffer.concat([makeTar([]), Buffer.alloc(9_000)]), 1_024);
  const kept = { [Symbol.asyncIterator]: () => ({ next: () => source.next() }) };
  for await (const _entry of readTar(kept, { toEnd }));
  let rest = 0;
  for await (const piece of source) rest += piece.length;
  expect(rest).toBe(left);
});
