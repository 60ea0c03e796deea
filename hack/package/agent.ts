import { execFile } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  globSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { GLOBAL_FLAGS } from '../../agent/src/cli/cli.ts';
import { completionScript } from '../../agent/src/cli/commands/completion.ts';
import { COMMANDS } from '../../agent/src/cli/commands.ts';
import { SAMPLE_SETTINGS } from '../../agent/src/domain/sample-settings.ts';
import { installProgram } from '../agent-release.ts';
import type { Origin } from '../build.ts';
import { ROOT } from '../paths.ts';
import { manualPage } from './command-line.ts';

/** The agent for machines: one tree of files, as a package of Debian and as an archive. */
const run = promisify(execFile);
const FILES = join(ROOT, 'packaging');
const PROGRAM = 'opt/skerry-agent';

export type MachineArchitecture = 'amd64' | 'arm64' | 'armv7';

/** How others name an architecture, and what Node needs there. */
const DEBIAN: Readonly<Record<MachineArchitecture, { name: string; depends?: string }>> = {
  amd64: { name: 'amd64', depends: 'libc6 (>= 2.28), libgcc-s1, libstdc++6 (>= 9)' },
  arm64: { name: 'arm64', depends: 'libc6 (>= 2.28), libgcc-s1, libstdc++6 (>= 9)' },
  // Its Node brings its libraries along.
  armv7: { name: 'armhf' },
};

export interface AgentParts {
  /** bundles of the agent and of its launcher */
  agent: string;
  launcher: string;
  /** the Node binary of the machine */
  node: string;
  /** the folder with what that Node needs beside it */
  libraries?: string;
  notice: string;
  billOfMaterials: string;
  /** public key (PEM) of the releases that the machine accepts later */
  releaseKey?: string;
}

/** The settings of a machine: people and the agent itself change them, so that they belong to no package. */
const SETTINGS = 'etc/skerry-agent/config.yaml';
/** Where the package has them, for postinst to copy where there are none: dpkg would ask about a changed file that it owns. */
const DEFAULT_SETTINGS = 'usr/share/skerry-agent/config.yaml';

/** The engines that a machine may have, and the packages that the agent's own engine is made of on a machine without one. */
const ENGINES = ['docker.io', 'docker-ce', 'podman'] as const;
const OWN_ENGINE = ['containerd', 'runc', 'containernetworking-plugins'] as const;

/** Writes all files of a machine below `root`; former files are removed. */
export function layOut(root: string, parts: AgentParts, origin: Origin): void {
  rmSync(root, { recursive: true, force: true });
  const put = (path: string, content: string | Uint8Array, mode = 0o644) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
    chmodSync(join(root, path), mode);
  };
  const copy = (name: string, path: string, mode?: number) => put(path, readFileSync(join(FILES, name)), mode);
  installProgram({ ...parts, version: origin.version, to: join(root, PROGRAM) });
  copy('skerry-agent', 'usr/bin/skerry-agent', 0o755);
  for (const unit of ['skerry-agent.service', 'skerry-containerd.service'])
    copy(unit, `usr/lib/systemd/system/${unit}`);
  put(SETTINGS, SAMPLE_SETTINGS);
  if (parts.releaseKey) put('etc/skerry-agent/release.pem', parts.releaseKey);
  const manual = manualPage({ version: origin.version, date: origin.created });
  put('usr/share/man/man1/skerry-agent.1.gz', gzipSync(manual, { level: 9 }));
  put(
    'usr/share/bash-completion/completions/skerry-agent',
    completionScript('bash', { commands: COMMANDS, flags: GLOBAL_FLAGS }),
  );
  put(
    'usr/share/zsh/vendor-completions/_skerry-agent',
    completionScript('zsh', { commands: COMMANDS, flags: GLOBAL_FLAGS }),
  );
  put(
    'usr/share/fish/vendor_completions.d/skerry-agent.fish',
    completionScript('fish', { commands: COMMANDS, flags: GLOBAL_FLAGS }),
  );
  const document = 'usr/share/doc/skerry-agent';
  put(`${document}/copyright`, readFileSync(join(ROOT, 'LICENSE')));
  put(`${document}/NOTICE`, parts.notice);
  put(`${document}/sbom.cdx.json`, parts.billOfMaterials);
  // Whatever umask this runs under.
  chmodSync(root, 0o755);
  for (const entry of globSync('**/*', { cwd: root, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isSymbolicLink()) chmodSync(path, lstatSync(path).mode & 0o100 ? 0o755 : 0o644);
  }
}

/** Makes a package of Debian from a tree. */
export async function makeDebianPackage(
  root: string,
  architecture: MachineArchitecture,
  origin: Origin,
  { to, compression }: { to: string; compression: readonly string[] },
): Promise<void> {
  const control = join(root, 'DEBIAN');
  mkdirSync(control);
  mkdirSync(dirname(join(root, DEFAULT_SETTINGS)));
  renameSync(join(root, SETTINGS), join(root, DEFAULT_SETTINGS));
  for (const script of ['postinst', 'prerm', 'postrm']) {
    copyFileSync(join(FILES, 'debian', script), join(control, script));
    chmodSync(join(control, script), 0o755);
  }
  const owned = globSync('etc/**/*', { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length));
  writeFileSync(
    join(control, 'conffiles'),
    owned
      .sort()
      .map((path) => `${path}\n`)
      .join(''),
  );
  const { name, depends } = DEBIAN[architecture];
  const lines = [
    'Package: skerry-agent',
    `Version: ${debianVersion(origin.version)}`,
    `Architecture: ${name}`,
    'Maintainer: The Skerry authors <noreply@skerry.dev>',
    `Installed-Size: ${Math.ceil(sizeOf(root) / 1024)}`,
    ...(depends ? [`Depends: ${depends}`] : []),
    `Recommends: ${OWN_ENGINE.map((name) => [name, ...ENGINES].join(' | ')).join(', ')}`,
    'Suggests: openssh-client',
    'Section: admin',
    'Priority: optional',
    'Description: runs containers on this machine as a controller asks',
    ' The agent of Skerry connects to a controller in a Kubernetes cluster and runs',
    ' the containers that it is asked to, with the docker or podman of the machine,',
    ' or with a containerd of its own. It brings its own Node along.',
  ];
  writeFileSync(join(control, 'control'), `${lines.join('\n')}\n`);
  // Whatever umask this runs under.
  for (const path of [control, dirname(join(root, DEFAULT_SETTINGS))]) chmodSync(path, 0o755);
  for (const name of ['conffiles', 'control']) chmodSync(join(control, name), 0o644);
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(origin.created.getTime() / 1000) };
  await run('dpkg-deb', ['--root-owner-group', ...compression, '--build', root, to], { env });
  renameSync(join(root, DEFAULT_SETTINGS), join(root, SETTINGS));
  rmSync(dirname(join(root, DEFAULT_SETTINGS)), { recursive: true });
  rmSync(control, { recursive: true });
}

/** In Debian's order of versions, `~` comes before the end: 1.0.0~rc.1 is older than 1.0.0. */
const debianVersion = (version: string) => version.replace('-', '~');

/** Makes an archive from a tree, for machines without dpkg; the install script (src/install/script.ts) unpacks it and keeps settings that are there. */
export async function makeArchive(root: string, origin: Origin, to: string): Promise<void> {
  const seconds = origin.created.getTime() / 1000;
  const owner = ['--owner=0', '--group=0', '--numeric-owner', '--format=gnu', '--sort=name', `--mtime=@${seconds}`];
  const names = ['opt', 'usr', 'etc'];
  const { stdout } = await run('tar', [...owner, '-C', root, '-cf', '-', ...names], {
    encoding: 'buffer',
    maxBuffer: 1024 ** 3,
  });
  writeFileSync(to, gzipSync(stdout, { level: 6 }));
}

/** Bytes of all files; one with two names counts once. */
function sizeOf(root: string): number {
  const sizes = new Map<number, number>();
  for (const entry of globSync('**/*', { cwd: root, withFileTypes: true })) {
    const { ino, size } = lstatSync(join(entry.parentPath, entry.name));
    if (entry.isFile()) sizes.set(ino, size);
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}
