import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { BUILTINS, LOADER, type Lock, type LockedPackage } from './armv7.ts';
import { debianFolder } from './parts.ts';

/**
 * Renews armv7.lock.json: the Node for armv7 and what it needs, in the versions that Debian has now.
 *
 *     node hack/package/armv7-lock.ts
 *
 * It needs `gpgv` with the keys of Debian (package debian-archive-keyring), `xz` and `readelf`.
 */
const SUITE = { name: 'forky', distro: 'debian-14' };
const ARCHIVE = 'https://deb.debian.org/debian';
const KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg';
const LIBRARY = 'usr/lib/arm-linux-gnueabihf';
const PATIENCE_MS = 300_000;
/** Licences by source package; the licence of a further package has to be looked up before a release. */
const LICENSES: Readonly<Record<string, string>> = {
  'ada-url': 'Apache-2.0 OR MIT',
  acorn: 'MIT',
  brotli: 'MIT',
  'c-ares': 'MIT',
  'gcc-16': 'GPL-3.0-or-later WITH GCC-exception-3.1',
  glibc: 'LGPL-2.1-or-later',
  icu: 'Unicode-3.0',
  'libhdr-histogram': 'CC0-1.0 OR BSD-2-Clause',
  libuv1: 'MIT',
  libzstd: 'BSD-3-Clause',
  llhttp: 'MIT',
  nghttp2: 'MIT',
  'node-undici': 'MIT',
  nodejs: 'MIT',
  openssl: 'Apache-2.0',
  simdjson: 'Apache-2.0 OR MIT',
  simdutf: 'Apache-2.0 OR MIT',
  sqlite3: 'blessing',
  zlib: 'Zlib',
};

/** A paragraph of a list of packages. */
interface Entry {
  name: string;
  version: string;
  source: string;
  path: string;
  sha256: string;
  depends: string[];
}

/** The entries of a list of packages, by name. */
export function parsePackages(text: string): Map<string, Entry> {
  const entries = text.split('\n\n').map((paragraph) => {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(paragraph)?.[1] ?? '';
    const name = field('Package');
    const depends = field('Depends')
      .split(/\s*,\s*/)
      .map((each) => /^[^\s:(|]*/.exec(each)?.[0] ?? '');
    const source = field('Source').split(' ')[0] || name;
    return { name, version: field('Version'), source, path: field('Filename'), sha256: field('SHA256'), depends };
  });
  return new Map(entries.filter(({ name }) => name !== '').map((entry) => [entry.name, entry]));
}

/** A package and all that it depends on, directly or not; what is virtual or elsewhere is left out. */
export function closure(packages: ReadonlyMap<string, Entry>, first: string): Entry[] {
  const found = new Map<string, Entry>();
  const visit = (name: string) => {
    const entry = packages.get(name);
    if (!entry || found.has(name)) return;
    found.set(name, entry);
    entry.depends.forEach(visit);
  };
  visit(first);
  return [...found.values()];
}

async function fetchBytes(path: string): Promise<Buffer> {
  const response = await fetch(`${ARCHIVE}/${path}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!response.ok) throw new Error(`${ARCHIVE}/${path}: status ${response.status}`);
  return Buffer.from(await response.arrayBuffer());
}

/** The list of packages of the suite, whose digest Debian has signed. */
async function packagesOfSuite(): Promise<string> {
  const signed = await fetchBytes(`dists/${SUITE.name}/InRelease`);
  if (!existsSync(KEYS)) throw new Error(`${KEYS} is missing: install debian-archive-keyring`);
  const { status, stderr, stdout } = spawnSync('gpgv', ['--keyring', KEYS, '--output', '-', '-'], { input: signed });
  if (status !== 0) throw new Error(`the signature of ${SUITE.name} is not Debian's: ${stderr}`);
  const name = 'main/binary-armhf/Packages.xz';
  const digest = new RegExp(`^ ([0-9a-f]{64}) +\\d+ ${name}$`, 'm').exec(stdout.toString())?.[1];
  const list = await fetchBytes(`dists/${SUITE.name}/${name}`);
  if (createHash('sha256').update(list).digest('hex') !== digest)
    throw new Error(
      `${name} of ${SUITE.name} does not have the digest that Debian has signed; try again in some minutes`,
    );
  return execFileSync('xz', ['-dc'], { input: list, encoding: 'utf8', maxBuffer: 1024 ** 3 });
}

function neededBy(file: string): string[] {
  const said = execFileSync('readelf', ['-d', file], { encoding: 'utf8' });
  return [...said.matchAll(/\(NEEDED\).*\[(.+)\]/g)].map(([, name]) => name ?? '');
}

async function main(): Promise<void> {
  const day = new Date().toISOString().slice(0, 10).replaceAll('-', '');
  const archives = ['http://deb.debian.org/debian', `http://snapshot.debian.org/archive/debian/${day}T235959Z`];
  const entries = closure(parsePackages(await packagesOfSuite()), 'nodejs');
  const folders = new Map<string, string>();
  for (const { name, path, sha256 } of entries)
    folders.set(name, await debianFolder({ path, sha256, archives: [ARCHIVE], remedy: 'Try again' }));
  /** By path, which package has it. */
  const owner = (file: string) => {
    const found = entries.find(({ name }) => existsSync(join(folders.get(name) ?? '', file)));
    if (!found) throw new Error(`no package that Node depends on has ${file}`);
    return found.name;
  };
  const files = new Map<string, string>();
  const take = (file: string) => {
    if (files.has(file)) return;
    files.set(file, owner(file));
    if (file.endsWith('.js')) return;
    for (const name of neededBy(realpathSync(join(folders.get(owner(file)) ?? '', file)))) take(join(LIBRARY, name));
  };
  for (const file of ['usr/bin/node', join(LIBRARY, LOADER), ...BUILTINS.map((path) => path.slice(1))]) take(file);
  // Of some packages only the licence, which others lead to.
  const isTaken = (name: string) => [...files.values()].includes(name) || /^gcc-\d+-base$/.test(name);
  const packages = entries
    .filter(({ name }) => isTaken(name))
    .map(({ name, version, source, path, sha256 }): LockedPackage => {
      const license = LICENSES[source];
      if (!license)
        throw new Error(`LICENSES of armv7-lock.ts has no licence of ${source}, from which ${name} is built`);
      const taken = [...files].filter(([, owner]) => owner === name).map(([file]) => file);
      return { name, version, license, path, sha256, files: taken.sort() };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const lock: Lock = { distro: SUITE.distro, archives, packages };
  const to = join(import.meta.dirname, 'armv7.lock.json');
  const before = existsSync(to) ? readFileSync(to, 'utf8') : '';
  writeFileSync(to, `${JSON.stringify(lock, undefined, 2)}\n`);
  for (const { name, version } of packages)
    if (!before.includes(`"${version}"`)) process.stdout.write(`${name} ${version}\n`);
  process.stdout.write(`${basename(to)}: ${packages.length} packages\n`);
}

if (import.meta.main) await main();
