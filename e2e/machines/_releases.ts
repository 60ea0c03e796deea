import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AGENT_VERSION } from '../../agent/src/domain/names.ts';
import { makeReleaseKey, writeRelease, writeSigned } from '../../hack/agent-release.ts';
import { bundle } from '../../hack/build.ts';
import { hostArchitecture } from '../../hack/image.ts';
import { layOut, makeDebianPackage } from '../../hack/package/agent.ts';
import { ROOT } from '../../hack/paths.ts';

const NODE_BINARY = join(ROOT, 'node_modules/node/bin/node');

export interface Releases {
  /** what a controller serves */
  folder: string;
  /** public key, PEM */
  key: string;
  /** path of the package of a version */
  package(version: string): string;
}

/** A package of the agent with this program, which calls itself that version. */
export async function makePackage(
  dir: string,
  { program, version, releaseKey }: { program: string; version: string; releaseKey?: string },
  to: string,
): Promise<void> {
  const launcher = await bundle('skerry-agent-launcher', dir);
  const origin = { version, revision: 'test', created: new Date(0) };
  const parts = { agent: program, launcher: launcher.path, node: NODE_BINARY, notice: '', billOfMaterials: '{}' };
  layOut(join(dir, 'tree'), { ...parts, ...(releaseKey && { releaseKey }) }, origin);
  await makeDebianPackage(join(dir, 'tree'), hostArchitecture(), origin, { to, compression: ['-Zgzip', '-z1'] });
}

/** Releases of the agent as `make release` leaves them, for this architecture; the first version is the latest package. */
export async function makeReleases(dir: string, versions: readonly [string, ...string[]]): Promise<Releases> {
  const folder = join(dir, 'releases');
  const { privateKey, publicKey } = makeReleaseKey();
  const agent = await bundle('skerry-agent', dir);
  const architecture = hostArchitecture();
  const nameOf = (version: string) => `skerry-agent-${version}-linux-${architecture}.deb`;
  for (const version of versions) {
    const program = join(dir, version);
    writeFileSync(program, readFileSync(agent.path, 'utf8').replaceAll(`"${AGENT_VERSION}"`, `"${version}"`));
    mkdirSync(join(folder, version), { recursive: true });
    await makePackage(dir, { program, version, releaseKey: publicKey }, join(folder, version, nameOf(version)));
    const release = { agent: program, node: { [architecture]: NODE_BINARY }, version, minimumVersion: '0.0.1' };
    writeRelease({ ...release, key: privateKey, out: folder });
  }
  const [first] = versions;
  const digest = createHash('sha256')
    .update(readFileSync(join(folder, first, nameOf(first))))
    .digest('hex');
  const file = { file: nameOf(first), sha256: digest };
  const list = {
    product: 'skerry-agent-packages',
    version: first,
    packages: { [architecture]: { deb: file, archive: file } },
  };
  writeSigned(join(folder, 'latest/packages.json'), Buffer.from(JSON.stringify(list)), privateKey);
  return { folder, key: publicKey, package: (version) => join(folder, version, nameOf(version)) };
}
