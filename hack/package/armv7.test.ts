import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { BUILTINS, LOADER, LOCK, STARTER, withOwnBuiltins } from './armv7.ts';
import { closure, parsePackages } from './armv7-lock.ts';
import { download } from './parts.ts';

test('the lock for armv7 pins each package by digest, with Node 24, its loader and each of its parts on disk', () => {
  for (const { name, version, path, sha256, license } of LOCK.packages) {
    // An epoch is in no name of a file.
    expect(path).toMatch(/^pool\/main\/[\w./+~-]+_(armhf|all)\.deb$/);
    expect(basename(path)).toContain(`${name}_${version.replace(/^\d+:/, '')}_`);
    expect(sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(license).not.toBe('');
  }
  expect(LOCK.packages.find(({ name }) => name === 'nodejs')?.version).toMatch(/^24\./);
  const files = LOCK.packages.flatMap(({ files }) => files);
  const names = files.map((file) => basename(file));
  expect(names).toContain(LOADER);
  expect(files).toEqual(expect.arrayContaining(BUILTINS.map((path) => path.slice(1))));
  // They lie in one folder.
  expect(new Set(names).size).toBe(names.length);
  expect(LOCK.archives.map((url) => new URL(url).host)).toEqual(['deb.debian.org', 'snapshot.debian.org']);
});

test('Node for armv7 starts by any link with its own loader and libraries, and finds its parts by a descriptor', () => {
  const folder = join(temporaryFolder(), 'with a space');
  const release = join(folder, 'releases/1.0.0');
  mkdirSync(join(release, 'lib'), { recursive: true });
  writeFileSync(join(release, 'node'), STARTER, { mode: 0o755 });
  writeFileSync(join(release, 'lib/part.js'), 'a part');
  // In place of the loader, which does not run here.
  const loader = '#!/bin/sh\nprintf "%s\\n" "$0" "$@"; cat /proc/self/fd/9/////part.js\n';
  writeFileSync(join(release, 'lib', LOADER), loader);
  chmodSync(join(release, 'lib', LOADER), 0o755);
  symlinkSync('releases/1.0.0', join(folder, 'current'));
  const node = join(folder, 'current/node');
  const lib = join(release, 'lib');
  const said = execFileSync(node, ['--flag', 'two words'], { encoding: 'utf8' }).split('\n');
  const given = ['--library-path', lib, '--argv0', node, join(lib, 'node'), '--use-bundled-ca', '--flag', 'two words'];
  expect(said).toEqual([join(lib, LOADER), ...given, 'a part']);
});

test('the parts of Node for armv7 get paths of the same length, and a Node with other paths is refused by name', () => {
  const library = Buffer.from(`before\0${BUILTINS.join('\0')}\0a text with ${BUILTINS[0]} in it`);
  const changed = withOwnBuiltins(library).toString();
  expect(changed).toHaveLength(library.length);
  const paths = changed.split('\0').slice(1, 4);
  expect(paths.map((path) => path.replaceAll(/\/+/g, '/'))).toEqual(
    BUILTINS.map((path) => `/proc/self/fd/9/${basename(path)}`),
  );
  expect(changed).toContain(`a text with ${BUILTINS[0]} in it`);
  expect(() => withOwnBuiltins(Buffer.from('nothing'))).toThrow(BUILTINS[0]);
  expect(() => withOwnBuiltins(Buffer.concat([library, library]))).toThrow(BUILTINS[0]);
});

test('a package of Debian comes from the first archive that has it with its digest, and else the error says what to do', async () => {
  const asked: string[] = [];
  const contents: Record<string, string> = { '/one/a.deb': 'changed', '/two/a.deb': 'as pinned' };
  const server = createServer(({ url = '' }, response) => {
    asked.push(url);
    response.writeHead(url in contents ? 200 : 404).end(contents[url]);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const sha256 = createHash('sha256').update('as pinned').digest('hex');
  const file = { path: 'a.deb', sha256, remedy: 'Renew the lock' };
  expect((await download({ ...file, archives: [`${at}/one`, `${at}/two`] })).toString()).toBe('as pinned');
  expect(asked).toEqual(['/one/a.deb', '/two/a.deb']);
  await expect(download({ ...file, archives: [`${at}/one`, `${at}/none`] })).rejects.toThrow(
    /one\/a\.deb: has the digest .*, and is pinned to \S+\n.*none\/a\.deb: 404\nRenew the lock$/,
  );
});

test('a renewal of the lock follows what packages depend on, and leaves out what is virtual', () => {
  const packages = parsePackages(
    [
      'Package: nodejs\nVersion: 24.1.0-1\nDepends: libc6 (>= 2.34), libnode137 (= 24.1.0-1), a:any | b\nFilename: pool/n.deb\nSHA256: 1',
      'Package: libnode137\nSource: nodejs (24.1.0)\nVersion: 24.1.0-1\nDepends: libc6, nodejs\nFilename: pool/l.deb\nSHA256: 2',
      'Package: libc6\nSource: glibc\nVersion: 2.43-7\nFilename: pool/c.deb\nSHA256: 3',
      'Package: unrelated\nVersion: 1\nFilename: pool/u.deb\nSHA256: 4',
    ].join('\n\n'),
  );
  expect(closure(packages, 'nodejs').map(({ name, source }) => [name, source])).toEqual([
    ['nodejs', 'nodejs'],
    ['libc6', 'glibc'],
    ['libnode137', 'nodejs'],
  ]);
});
