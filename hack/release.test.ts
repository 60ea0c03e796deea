import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { makeTar } from '../src/lib/tar/write.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { type Download, downloadEnvtest, downloadKubernetes, pickEnvtest } from './release.ts';

const platform = `${process.platform}-${process.arch === 'arm64' ? 'arm64' : 'amd64'}`;
const sha512 = (bytes: Uint8Array) => createHash('sha512').update(bytes).digest('hex');
const quiet = () => {};

/** A server with fixed responses by the end of the URL. */
function makeDownload(answers: Record<string, string | Uint8Array>): Download {
  return async (url) => {
    const found = Object.entries(answers).find(([end]) => url.endsWith(end));
    return found ? new Response(Buffer.from(found[1])) : new Response('', { status: 404 });
  };
}

const archive = gzipSync(
  makeTar([{ path: 'controller-tools/envtest/etcd', type: 'file', content: Buffer.from('an etcd'), mode: 0o755 }]),
);
const index = (hash: string) =>
  `releases:\n  v1.36.0:\n    envtest-v1.36.0-${platform}.tar.gz:\n      hash: ${hash}\n      selfLink: https://x.test/e.tar.gz\n`;

test('an envtest archive with the published checksum is unpacked', async () => {
  const folder = temporaryFolder();
  const download = makeDownload({ 'envtest-releases.yaml': index(sha512(archive)), 'e.tar.gz': archive });
  await downloadEnvtest('1.36.3', download, folder, quiet);
  expect(readFileSync(join(folder, 'etcd'), 'utf8')).toBe('an etcd');
});

test.each([
  ['another checksum', '0'.repeat(128), 'not the published one'],
  ['no checksum', '', 'no checksum'],
])('an envtest archive with %s is refused', async (_, hash, message) => {
  const folder = temporaryFolder();
  const download = makeDownload({ 'envtest-releases.yaml': index(hash), 'e.tar.gz': archive });
  await expect(downloadEnvtest('1.36.3', download, folder, quiet)).rejects.toThrow(message);
  expect(existsSync(join(folder, 'etcd'))).toBe(false);
});

test('a downloaded binary of the Kubernetes release is verified and executable', async () => {
  const folder = temporaryFolder();
  const binary = Buffer.from('a manager');
  const download = makeDownload({ 'kube-controller-manager': binary, '.sha512': sha512(binary) });
  await downloadKubernetes('kube-controller-manager', '1.36.3', download, folder, quiet);
  expect(statSync(join(folder, 'kube-controller-manager')).mode & 0o111).not.toBe(0);
});

test('the error for a server that cannot be reached has its name and the reason', async () => {
  const download: Download = async () => {
    throw new TypeError('fetch failed', { cause: { code: 'ENOTFOUND' } });
  };
  await expect(downloadEnvtest('1.36.3', download, temporaryFolder(), quiet)).rejects.toThrow(
    /githubusercontent.*ENOTFOUND/,
  );
});

test('the newest patch of the minor version is chosen, by number and without release candidates', () => {
  const entry = (version: string) => ({
    [`envtest-${version}-linux-amd64.tar.gz`]: { hash: version, selfLink: version },
  });
  const versions = ['v1.35.9', 'v1.36.2', 'v1.36.10', 'v1.36.11-rc.0'];
  const releases = Object.fromEntries(versions.map((version) => [version, entry(version)]));
  expect(pickEnvtest({ releases }, '1.36.3', 'linux', 'amd64')).toMatchObject({ version: '1.36.10' });
  expect(() => pickEnvtest({ releases }, '1.37.0', 'linux', 'amd64')).toThrow('no envtest release of 1.37');
});
