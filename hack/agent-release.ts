import { createHash, createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { AGENT_VERSION } from '../agent/src/domain/names.ts';
import { LIBRARIES } from '../agent/src/update/manifest.ts';
import { bundle } from './build.ts';
import { ROOT } from './paths.ts';

/**
 * Lays out a release of the agent for self-updates, as a folder that any file server can serve
 * (docs/spec/agent-channel.md#releases):
 *
 *     <out>/<version>/manifest.json, manifest.json.sig       and the same below latest/
 *     <out>/blobs/<sha256>                                   each file once, whatever releases have it
 *
 *     node hack/agent-release.ts --new-key release           writes release.key and release.pem
 *     node hack/agent-release.ts --key release.key --node amd64=/path/to/node --out dist/releases
 *     node hack/agent-release.ts --node amd64=/path/to/node --install /opt/skerry-agent
 */
export interface ReleaseOptions {
  /** the bundle of the agent */
  agent: string;
  /** the Node binary of each architecture */
  node: Readonly<Record<string, string>>;
  /** the folder with what a Node needs beside it, of those architectures that have one */
  libraries?: Readonly<Record<string, string>>;
  version: string;
  /** the lowest version of an agent that can be updated to this one */
  minimumVersion: string;
  /** Ed25519 private key, PEM */
  key: string;
  out: string;
}

/** Memory that an agent saves by them: docs/performance.md. */
export const NODE_FLAGS = ['--max-semi-space-size=1', '--optimize-for-size'];

/** The environment that the unit of an installed agent sets. */
export function unitEnvironment(): Record<string, string> {
  const unit = readFileSync(join(ROOT, 'packaging/skerry-agent.service'), 'utf8');
  return Object.fromEntries([...unit.matchAll(/^Environment=(\w+)=(\S+)$/gm)].map(([, name, value]) => [name, value]));
}

export function makeReleaseKey(): { privateKey: string; publicKey: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519', {
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  return { privateKey, publicKey };
}

/** Writes the files of a release, and its manifest last. */
export function writeRelease({ agent, node, libraries = {}, version, minimumVersion, key, out }: ReleaseOptions): void {
  const blobs = join(out, 'blobs');
  mkdirSync(blobs, { recursive: true });
  const add = (path: string) => {
    const content = readFileSync(path);
    const sha256 = createHash('sha256').update(content).digest('hex');
    writeFileSync(join(blobs, sha256), content);
    return { size: content.length, sha256 };
  };
  const program = add(agent);
  const architectures = Object.fromEntries(
    Object.entries(node).map(([architecture, path]) => {
      const folder = libraries[architecture];
      const beside = folder && filesIn(folder).map((name) => [name, add(join(folder, name))]);
      return [
        architecture,
        { agent: program, node: add(path), ...(beside && { libraries: Object.fromEntries(beside) }) },
      ];
    }),
  );
  const manifest = { product: 'skerry-agent', version, minimumVersion, nodeFlags: NODE_FLAGS, architectures };
  const bytes = Buffer.from(`${JSON.stringify(manifest, undefined, 2)}\n`);
  for (const name of [version, 'latest']) {
    const folder = join(out, name);
    mkdirSync(folder, { recursive: true });
    writeSigned(join(folder, 'manifest.json'), bytes, key);
  }
}

const filesIn = (folder: string): string[] => readdirSync(folder).sort();

/** Writes a file, and beside it its signature, where there is a key. */
export function writeSigned(path: string, bytes: Buffer, key: string | undefined): void {
  writeFileSync(path, bytes);
  if (key) writeFileSync(`${path}.sig`, `${sign(null, bytes, createPrivateKey(key)).toString('base64')}\n`);
}

export interface InstallOptions {
  /** bundles of the agent and of its launcher */
  agent: string;
  launcher: string;
  /** the Node binary of this machine */
  node: string;
  /** the folder with what that Node needs beside it */
  libraries?: string;
  version: string;
  to: string;
}

/** Makes the program directory of a machine: the launcher with a Node of its own, and the first release. */
export function installProgram({ agent, launcher, node, libraries, version, to }: InstallOptions): void {
  const draft = join(to, 'releases', `.${version}.new`);
  mkdirSync(draft, { recursive: true });
  const put = (from: string, path: string) => {
    copyFileSync(from, path);
    chmodSync(path, 0o755);
  };
  put(agent, join(draft, 'agent'));
  put(node, join(draft, 'node'));
  const beside = libraries === undefined ? [] : filesIn(libraries);
  for (const folder of beside.length > 0 ? [draft, to] : []) mkdirSync(join(folder, LIBRARIES));
  for (const name of beside) put(join(libraries ?? '', name), join(draft, LIBRARIES, name));
  writeFileSync(join(draft, 'release.json'), `${JSON.stringify({ version, nodeFlags: NODE_FLAGS })}\n`);
  renameSync(draft, join(to, 'releases', version));
  // The same files: a package has them once.
  for (const path of ['node', ...beside.map((name) => join(LIBRARIES, name))])
    linkSync(join(to, 'releases', version, path), join(to, path));
  put(launcher, join(to, 'launcher.mjs'));
  symlinkSync(join('releases', version), join(to, 'current'));
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      'new-key': { type: 'string' },
      key: { type: 'string' },
      node: { type: 'string', multiple: true, default: [] },
      out: { type: 'string', default: 'dist/releases' },
      install: { type: 'string' },
      'minimum-version': { type: 'string', default: '0.1.0' },
    },
  });
  const node = Object.fromEntries(values.node.map((pair) => pair.split('=', 2) as [string, string]));
  const version = AGENT_VERSION;
  if (values['new-key']) {
    const { privateKey, publicKey } = makeReleaseKey();
    writeFileSync(`${values['new-key']}.key`, privateKey, { mode: 0o600, flag: 'wx' });
    writeFileSync(`${values['new-key']}.pem`, publicKey, { flag: 'wx' });
    console.log(
      `Machines get ${values['new-key']}.pem (setting releaseKeyFile); keep ${values['new-key']}.key away from them`,
    );
  } else if (values.install) {
    const [own] = Object.values(node);
    if (!own) throw new Error('--node <architecture>=<path>: is required');
    const [agent, launcher] = [await bundle('skerry-agent'), await bundle('skerry-agent-launcher')];
    installProgram({ agent: agent.path, launcher: launcher.path, node: own, version, to: values.install });
    console.log(
      `${version} is in ${values.install}; start it with: ${values.install}/node ${values.install}/launcher.mjs start`,
    );
  } else {
    if (!values.key || Object.keys(node).length === 0)
      throw new Error('--key and --node <architecture>=<path>: are required');
    const { path } = await bundle('skerry-agent');
    const key = readFileSync(values.key, 'utf8');
    writeRelease({ agent: path, node, version, minimumVersion: values['minimum-version'], key, out: values.out });
    console.log(`${version} is in ${values.out}`);
  }
}
