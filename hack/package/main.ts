/**
 * `make release`: leaves in dist/ what people install. The same commit makes the same bytes: all times are those of the
 * commit, and what comes from elsewhere is pinned (pinned.ts, armv7.lock.json).
 *
 *     BASE=<folder with an OCI layout>  the images are built on this image, which brings the libraries of Node along
 *     KEY=<Ed25519 private key, PEM>    signs the release, so that agents update themselves to it
 *     URL=<where dist/ will be>         for the manifest by which krew installs the plugin
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import { NODE_FLAGS, writeRelease, writeSigned } from '../agent-release.ts';
import { type Bundle, type BundleName, bundle, type Origin } from '../build.ts';
import { readImage, saveImage } from '../image.ts';
import { ROOT } from '../paths.ts';
import { type Log, startClock } from '../progress.ts';
import { reachableFiles } from '../references.ts';
import { repositoryFiles } from '../repository.ts';
import { layOut, type MachineArchitecture, makeArchive, makeDebianPackage } from './agent.ts';
import { armv7Node } from './armv7.ts';
import { chartArchive, definitions, krewManifest, type PluginFile, plainManifests, pluginArchive } from './cluster.ts';
import { billOfMaterials, nodePart, notice, type Part, packageParts } from './contents.ts';
import {
  controlPlaneProduct,
  type Ground,
  groundImage,
  joined,
  type ProductImage,
  productImage,
  products,
} from './images.ts';
import { KeyRefused, readSigningKey, type SigningKey } from './key.ts';
import { librariesFor, type NodeParts, nodeOf } from './parts.ts';
import { type ImageArchitecture, NODES, type Platform } from './pinned.ts';
import { controlPlanePrograms } from './programs.ts';
import { faultsOfImages } from './released.ts';

const ARCHITECTURES: readonly ImageArchitecture[] = ['amd64', 'arm64'];
/** xz with one thread: with several, the result depends on how many there are. */
const DEB_COMPRESSION = ['-Zxz', '-z1', '--threads-max=1'];
/** The lowest version of an agent that can be updated to this release. */
const MINIMUM_VERSION = '0.1.0';
/** Where releases are when URL says nothing else. */
const HOME = 'https://skerry.dev/releases';

/** What the steps of a release share. */
interface Release {
  origin: Origin;
  env: NodeJS.ProcessEnv;
  /** absent without KEY */
  signing?: SigningKey;
  bundles: Readonly<Record<BundleName, Bundle>>;
  nodes: Readonly<Record<ImageArchitecture, NodeParts>>;
  /** Absolute path of a file of the release, in a folder that exists. */
  at(path: string): string;
  log: Log;
}

/** The Node of a package, with the parts of others in it. */
interface MachineNode {
  node: string;
  libraries?: string;
  parts: Part[];
}

/** Version, commit and time of the release. */
function originOf(env: NodeJS.ProcessEnv): Origin {
  const git = (...args: string[]) => {
    const { status, stdout } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' });
    return status === 0 ? stdout.trim() : undefined;
  };
  const revision = git('rev-parse', 'HEAD');
  const seconds = env.SOURCE_DATE_EPOCH ?? git('log', '-1', '--format=%ct');
  if (revision === undefined || seconds === undefined)
    throw new Error('a release is made from a commit: this folder is no checkout of git');
  const isChanged = git('status', '--porcelain') !== '';
  return {
    version: packageJson.version,
    revision: isChanged ? `${revision}-changed` : revision,
    created: new Date(Number(seconds) * 1000),
  };
}

async function makeImages({ origin, env, bundles, nodes, at, log }: Release): Promise<void> {
  const all = [...products(bundles, NODE_FLAGS), controlPlaneProduct(bundles, NODE_FLAGS)];
  const made = async (architecture: ImageArchitecture) => {
    const below = env.BASE
      ? { base: readImage(env.BASE, architecture) }
      : { libraries: await librariesFor(architecture) };
    const programs = await controlPlanePrograms(architecture, log);
    const ground: Ground = { node: nodes[architecture], programs, ...below };
    const shared = groundImage(ground, architecture, origin);
    return all.map((product) => productImage(product, ground, shared, architecture, origin));
  };
  const [amd64, arm64] = [await made('amd64'), await made('arm64')];
  for (const [index, { name }] of all.entries()) {
    const images = { amd64: amd64[index], arm64: arm64[index] } as Record<ImageArchitecture, ProductImage>;
    const image = joined(images);
    const path = `images/${name}-${origin.version}`;
    const reference = `skerry/${name.replace('skerry-', '')}:${origin.version}`;
    writeFileSync(at(`${path}.oci.tar`), saveImage(image, reference));
    writeFileSync(at(`${path}.digest`), `${image.top.digest}\n`);
    for (const architecture of ARCHITECTURES)
      writeFileSync(at(`${path}-${architecture}.cdx.json`), images[architecture].billOfMaterials);
    log(`${reference} ${image.top.digest}`);
  }
}

/** Packages of the agent for machines, and the folder from which installed agents update themselves. */
async function makeAgentPackages({ origin, signing, bundles, nodes, at, log }: Release): Promise<void> {
  const key = signing?.privateKey;
  const [agent, launcher] = [bundles['skerry-agent'], bundles['skerry-agent-launcher']];
  const { version, created } = origin;
  const armv7 = await armv7Node(dirname(at('.armv7/node')));
  const programs: Readonly<Record<MachineArchitecture, MachineNode>> = {
    amd64: { node: nodes.amd64.binary, parts: [nodePart('linux-amd64', nodes.amd64.license)] },
    arm64: { node: nodes.arm64.binary, parts: [nodePart('linux-arm64', nodes.arm64.license)] },
    armv7,
  };
  const packages: Record<string, Record<'deb' | 'archive', { file: string; sha256: string }>> = {};
  for (const [architecture, { parts: own, ...program }] of Object.entries(programs)) {
    const parts = [...packageParts(agent.packages), ...own];
    const tree = at('.tree');
    layOut(
      tree,
      {
        ...{ agent: agent.path, launcher: launcher.path, ...program },
        notice: notice('Skerry agent', parts),
        billOfMaterials: billOfMaterials({ name: 'skerry-agent', version, created }, parts),
        ...(signing && { releaseKey: signing.publicKey }),
      },
      origin,
    );
    const file = `skerry-agent-${version}-linux-${architecture}`;
    const listed = (name: string) => ({ file: name, sha256: sha256(readFileSync(at(`releases/${version}/${name}`))) });
    await makeArchive(tree, origin, at(`releases/${version}/${file}.tar.gz`));
    const to = at(`releases/${version}/${file}.deb`);
    await makeDebianPackage(tree, architecture as MachineArchitecture, origin, { to, compression: DEB_COMPRESSION });
    rmSync(tree, { recursive: true });
    packages[architecture] = { deb: listed(`${file}.deb`), archive: listed(`${file}.tar.gz`) };
    log(`${file}.tar.gz and .deb`);
  }
  const list = Buffer.from(
    `${JSON.stringify({ product: 'skerry-agent-packages', version, created: created.toISOString(), packages }, undefined, 2)}\n`,
  );
  for (const folder of [version, 'latest']) writeSigned(at(`releases/${folder}/packages.json`), list, key);
  if (!key) return log('Without KEY, agents cannot update themselves to this release');
  const node = { amd64: nodes.amd64.binary, arm64: nodes.arm64.binary, arm: armv7.node };
  const files = { agent: agent.path, node, libraries: { arm: armv7.libraries } };
  writeRelease({ ...files, version, minimumVersion: MINIMUM_VERSION, key, out: at('releases') });
}

/** What is installed on a cluster, and the plugin of kubectl for each platform. */
async function makeClusterParts({ origin, env, bundles, at, log }: Release): Promise<void> {
  const { version } = origin;
  writeFileSync(at(`skerry-${version}.tgz`), chartArchive());
  writeFileSync(at(`skerry-${version}.yaml`), await plainManifests());
  writeFileSync(at(`skerry-crds-${version}.yaml`), definitions());
  const plugin = bundles['kubectl-skerry'];
  const files: PluginFile[] = [];
  for (const platform of Object.keys(NODES) as Platform[]) {
    const { binary, license } = await nodeOf(platform);
    const parts = [...packageParts(plugin.packages), nodePart(platform, license)];
    const bytes = pluginArchive({ plugin: plugin.path, node: binary, notice: notice('kubectl skerry', parts) });
    const path = `plugin/kubectl-skerry-${version}-${platform}.tar.gz`;
    writeFileSync(at(path), bytes);
    files.push({ platform, uri: `${(env.URL ?? HOME).replace(/\/+$/, '')}/${path}`, sha256: sha256(bytes) });
  }
  writeFileSync(at('plugin/skerry.yaml'), krewManifest(version, files));
  // With every page that they lead to, so that their links work wherever the release is.
  const pages = reachableFiles(['CHANGELOG.md', 'SECURITY.md'], repositoryFiles(ROOT), (path) =>
    readFileSync(join(ROOT, path), 'utf8'),
  );
  for (const name of ['LICENSE', ...pages]) copyFileSync(join(ROOT, name), at(name));
  log(`skerry-${version}.tgz, skerry-${version}.yaml and the plugin for ${files.length} platforms`);
}

async function main(out: string): Promise<void> {
  const log = startClock((text) => process.stderr.write(text));
  const origin = originOf(process.env);
  // Before anything is removed or made.
  const signing = process.env.KEY ? readSigningKey(process.env.KEY) : undefined;
  rmSync(out, { recursive: true, force: true });
  const at = (path: string) => {
    mkdirSync(dirname(join(out, path)), { recursive: true });
    return join(out, path);
  };
  log(`Release ${origin.version} of ${origin.revision}`);
  const work = at('.bundles');
  const names: readonly BundleName[] = [
    ...(['skerry', 'skerry-templates', 'skerry-control-plane'] as const),
    ...(['skerry-agent', 'skerry-agent-launcher', 'kubectl-skerry'] as const),
  ];
  const bundles = Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await bundle(name, work, origin)] as const)),
  ) as Record<BundleName, Bundle>;
  const nodes = { amd64: await nodeOf('linux-amd64'), arm64: await nodeOf('linux-arm64') };
  const release: Release = { origin, env: process.env, ...(signing && { signing }), bundles, nodes, at, log };
  await makeImages(release);
  const [fault] = faultsOfImages(out, origin.version);
  if (fault) throw new Error(fault);
  await makeAgentPackages(release);
  await makeClusterParts(release);
  for (const folder of [work, at('.armv7')]) rmSync(folder, { recursive: true, force: true });
  writeFileSync(at('SHA256SUMS'), checksums(out));
  log(`The release is in ${out}`);
}

/** The digests of all files, in the form of sha256sum. */
function checksums(folder: string): string {
  const files = globSync('**/*', { cwd: folder, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort();
  return paths.map((path) => `${sha256(readFileSync(join(folder, path)))}  ${path}\n`).join('');
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

if (import.meta.main)
  await main(join(ROOT, 'dist')).catch((error) => {
    process.stderr.write(`${error instanceof KeyRefused ? error.message : (error as Error).stack}\n`);
    process.exitCode = 1;
  });
