import { copyFileSync, existsSync, mkdirSync, readFileSync, readlinkSync, realpathSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import lockFile from './armv7.lock.json' with { type: 'json' };
import type { Part } from './contents.ts';
import { debianFolder } from './parts.ts';

/**
 * Node for armv7. Neither nodejs.org nor npm has a Node 24 for it; Debian has one that is linked with Debian's libraries. So a
 * release brings along these libraries and their loader: `node` is a program for the shell, and `lib/` beside it has the rest.
 * Nothing of it depends on the libraries of the machine, which may be older. What is taken is in armv7.lock.json, which
 * armv7-lock.ts renews.
 */
export interface LockedPackage {
  name: string;
  version: string;
  /** an SPDX expression */
  license: string;
  /** below the root of the archive */
  path: string;
  sha256: string;
  /** what is taken from it; of some only the licence */
  files: readonly string[];
}

export interface Lock {
  /** the release of Debian, as package URLs name it */
  distro: string;
  /** where the packages are: the archive, which has the newest versions only, and the one of all versions that ever were */
  archives: readonly string[];
  packages: readonly LockedPackage[];
}

export const LOCK: Lock = lockFile;
export const LOADER = 'ld-linux-armhf.so.3';
/** Parts of Node that Debian's Node reads when it starts, from paths that are built into it. */
export const BUILTINS = [
  '/usr/share/nodejs/undici/undici-fetch.js',
  '/usr/share/nodejs/acorn/dist/acorn.js',
  '/usr/share/nodejs/acorn-walk/dist/walk.js',
] as const;
/** The descriptor by which Node finds them: no path of a folder is the same for every release and machine, and this one is. */
const DESCRIPTOR = 9;

/**
 * Node learns where it is from the name that it is started with: for the kernel, the program is the loader. Node closes the
 * descriptor in its children.
 */
export const STARTER = `#!/bin/sh
# Starts Node with the libraries in lib, whatever libraries this machine has, and with the authorities that it brings along, as elsewhere.
here=$(readlink -f "$0")
lib=\${here%/*}/lib
exec ${DESCRIPTOR}<"$lib"
exec "$lib/${LOADER}" --library-path "$lib" --argv0 "$0" "$lib/node" --use-bundled-ca "$@"
`;

interface Armv7Node {
  /** path of the program */
  node: string;
  /** path of the folder with what it needs */
  libraries: string;
  parts: Part[];
}

/** Makes the Node for armv7 in a folder. */
export async function armv7Node(folder: string, { packages, archives, distro }: Lock = LOCK): Promise<Armv7Node> {
  const libraries = join(folder, 'lib');
  mkdirSync(libraries, { recursive: true });
  const parts: Part[] = [];
  const remedy = 'Renew hack/package/armv7.lock.json: node hack/package/armv7-lock.ts';
  for (const { name, version, license, path, sha256, files } of packages) {
    const unpacked = await debianFolder({ path, sha256, archives, remedy });
    for (const file of files) {
      const [from, to] = [realpathSync(join(unpacked, file)), join(libraries, basename(file))];
      if (/^libnode\.so\./.test(basename(file))) writeFileSync(to, withOwnBuiltins(readFileSync(from)));
      else copyFileSync(from, to);
    }
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=armhf&distro=${distro}`;
    parts.push({ name, version, license, purl, text: copyrightOf(unpacked, name) });
  }
  const node = join(folder, 'node');
  writeFileSync(node, STARTER, { mode: 0o755 });
  return { node, libraries, parts };
}

/** The library of Node, with the paths of its parts in the folder of the descriptor. They keep their length: all else stays where it is. */
export function withOwnBuiltins(library: Buffer): Buffer {
  const changed = Buffer.from(library);
  for (const path of BUILTINS) {
    const said = Buffer.from(`\0${path}\0`);
    const at = changed.indexOf(said);
    if (at < 0 || changed.indexOf(said, at + 1) >= 0)
      throw new Error(
        `the library of Node has to name ${path} once: BUILTINS of hack/package/armv7.ts is not what it reads`,
      );
    const name = basename(path);
    changed.write(`/proc/self/fd/${DESCRIPTOR}`.padEnd(path.length - name.length, '/') + name, at + 1, 'latin1');
  }
  return changed;
}

function copyrightOf(unpacked: string, name: string): string {
  const folder = join(unpacked, 'usr/share/doc', name);
  const file = join(folder, 'copyright');
  // Packages of one source may share theirs by a link to the folder of one of them, which the lock has too.
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : `As that of ${basename(readlinkSync(folder))}.`;
}
