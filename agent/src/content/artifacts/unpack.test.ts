import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { linkSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeEach, expect, test } from 'vitest';
import { makeTar, pax, type TarPart } from '../../../../src/lib/tar/_parts.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { ArtifactError } from './error.ts';
import { LIMITS } from './file-name.ts';
import { ArtifactStore } from './store.ts';
import { type ArchiveForm, unpack } from './unpack.ts';

let folder: string;
let store: ArtifactStore;
let looks: number;
beforeEach(async () => {
  folder = temporaryFolder();
  store = new ArtifactStore(join(folder, 'artifacts'));
  await store.open();
  looks = 0;
});

/** Unpacks an archive; the contents of its files by their paths. */
async function unpacked(bytes: Buffer, form: ArchiveForm = 'tar', change: Partial<Parameters<typeof unpack>[1]> = {}) {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  writeFileSync(store.blob(sha256), bytes);
  const deps = { store, owner: 'models/u', claim: () => {}, checkRoom: async () => void looks++, ...change };
  const files = await unpack({ name: 'a.tar', sha256, size: bytes.length, form }, deps, new AbortController().signal);
  return Object.fromEntries(files.map((file) => [file.path, readFileSync(store.blob(file.sha256), 'utf8')]));
}

test.each(['pax', 'gnu', 'ustar', 'v7'])(
  'an archive that tar has written in the format %s is unpacked, packed or not',
  async (format) => {
    const source = join(folder, 'source');
    const long = format === 'pax' || format === 'gnu' ? `${'long'.repeat(60)}.txt` : 'short.txt';
    mkdirSync(join(source, 'sub'), { recursive: true });
    writeFileSync(join(source, long), 'one');
    writeFileSync(join(source, 'sub/empty'), '');
    writeFileSync(join(source, 'sub/two.bin'), 'x'.repeat(100_000));
    linkSync(join(source, 'sub/two.bin'), join(source, 'sub/twin.bin'));
    const archive = join(folder, 'a.tar');
    expect(spawnSync('tar', ['--format', format, '--sort=name', '-cf', archive, '-C', source, '.']).status).toBe(0);
    const bytes = readFileSync(archive);
    const two = 'x'.repeat(100_000);
    const expected = { [long]: 'one', 'sub/empty': '', 'sub/twin.bin': two, 'sub/two.bin': two };
    expect(await unpacked(bytes)).toEqual(expected);
    expect(await unpacked(gzipSync(bytes), 'tar+gzip')).toEqual(expected);
  },
);

const file = { path: 'a.txt', content: 'a' };
const comments = Array.from({ length: 600 }, () => ({ path: 'g', type: 'g', content: 'c'.repeat(60_000) }));
const HOSTILE: Record<string, [TarPart[] | Buffer, RegExp, ArchiveForm?]> = {
  'a path that leads out': [[{ path: '../../etc/cron.d/x', content: 'x' }], /no path below a directory/],
  'an absolute path': [[{ path: '/etc/passwd', content: 'x' }], /no path below a directory/],
  'a path in a pax record that leads out': [
    [{ path: 'x', type: 'x', content: pax('path', '../up') }, file],
    /"\.\.\/up" is no path below a directory/,
  ],
  'a long name that leads out': [
    [{ path: 'x', type: 'L', content: `${'a/../'.repeat(60)}../x\0` }, file],
    /no path below|too long/,
  ],
  'a directory that leads out': [[{ path: '../up/', type: '5' }], /no path below a directory/],
  'a symbolic link': [
    [
      { path: 'l', type: '2', target: '/etc' },
      { path: 'l/x', content: 'x' },
    ],
    /the link "l" to "\/etc"/,
  ],
  'a hard link to a file of the machine': [
    [{ path: 'l', type: '1', target: '/etc/shadow' }],
    /the link "l" to "\/etc\/shadow"/,
  ],
  'extended headers alone, as many as fit': [comments, /bytes of extended headers/],
  'a character device': [[{ path: 'null', type: '3' }], /the special file "null"/],
  'a block device': [[{ path: 'sda', type: '4' }], /the special file "sda"/],
  'a pipe': [[{ path: 'p', type: '6' }], /the special file "p"/],
  'a sparse file': [[{ path: 'x', type: 'x', content: pax('GNU.sparse.major', '1') }, file], /sparse file/],
  'a path of slashes': [
    [{ path: 'x', type: 'x', content: pax('path', `${'/'.repeat(65_000)}x`) }, file],
    /is too long/,
  ],
  'content that belongs to no file': [[{ path: '.', content: 'x'.repeat(2048) }], /"\." is no path below a directory/],
  'content without a name': [[{ path: '', content: 'x' }], /"" is no path below a directory/],
  'two files of one name': [[file, { path: './a.txt', content: 'b' }], /two files named "a.txt"/],
  'a file that is longer than the archive': [[{ path: 'x', content: 'x', size: 2 ** 32 }], /ends within an entry/],
  'a name longer than an archive may say': [
    [{ path: 'x', type: 'L', content: 'a'.repeat(100_000) }, file],
    /too long a name/,
  ],
  'bytes that are no archive': [Buffer.alloc(4096, 'x'), /no tar archive/],
  'a damaged packing': [gzipSync(makeTar(file)).fill(0, 20, 30), /a\.tar/, 'tar+gzip'],
  'a packing that was cut': [
    gzipSync(makeTar({ path: 'x', content: 'x'.repeat(9999) })).subarray(0, 60),
    /a\.tar/,
    'tar+gzip',
  ],
  'more entries than an artifact may have': [
    Array.from({ length: LIMITS.files + 1 }, () => ({ path: 'd/', type: '5' })),
    /more than 20000 entries/,
  ],
};
test.each(Object.entries(HOSTILE))(
  'an archive with %s is refused, and nothing is made of it',
  async (_, [parts, text, form]) => {
    const bytes = Buffer.isBuffer(parts) ? parts : makeTar(...parts);
    const error = await unpacked(bytes, form).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(ArtifactError);
    expect(error.code).toBe('Invalid');
    expect(error.message).toMatch(text);
    expect(readdirSync(folder)).toEqual(['artifacts']);
  },
);

test('an archive that grows beyond the room on the disk ends with that, after 16 MiB at most', async () => {
  const bomb = gzipSync(makeTar({ path: 'zeros', content: Buffer.alloc(64 * 1024 ** 2) }));
  expect(bomb.length).toBeLessThan(100_000);
  const checkRoom = async () => {
    if (looks++ > 0) throw new ArtifactError('DiskFull', 'it needs more');
  };
  await expect(unpacked(bomb, 'tar+gzip', { checkRoom })).rejects.toMatchObject({ code: 'DiskFull' });
  const [written = ''] = readdirSync(join(folder, 'artifacts/partial')).filter((name) => !name.includes('.'));
  expect(readFileSync(join(folder, 'artifacts/partial', written)).length).toBeLessThan(18 * 1024 ** 2);
});

test('an archive of extended headers is left as soon as it is no longer wanted', async () => {
  const bytes = makeTar(...comments);
  const archive = { name: 'a.tar', sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length };
  writeFileSync(store.blob(archive.sha256), bytes);
  const deps = { store, owner: 'models/u', claim: () => {}, checkRoom: async () => {} };
  const unwanted = AbortSignal.abort(new Error('unwanted'));
  await expect(unpack({ ...archive, form: 'tar' }, deps, unwanted)).rejects.toThrow('unwanted');
});
