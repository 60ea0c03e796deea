import { execFile } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { stringify } from 'yaml';
import { makeTar, type NewEntry } from '../../src/lib/tar/write.ts';
import { findHelm } from '../helm.ts';
import { ROOT } from '../paths.ts';
import type { Platform } from './pinned.ts';

/** What is installed on a cluster, and where people sit: the chart, plain manifests and the plugin of kubectl. */
const run = promisify(execFile);
const CHART = join(ROOT, 'charts/skerry');

const file = (path: string, content: Uint8Array | string, mode = 0o644): NewEntry => ({
  ...{ path, type: 'file', mode },
  content: Buffer.from(content),
});
const archive = (entries: readonly NewEntry[]) => gzipSync(makeTar(entries), { level: 6 });

/** The chart as `helm package` makes it, with the licence. */
export function chartArchive(): Buffer {
  const paths = globSync('**/*', { cwd: CHART, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(CHART.length + 1))
    // Helm expects this one first.
    .sort((a, b) => Number(b === 'Chart.yaml') - Number(a === 'Chart.yaml') || (a < b ? -1 : 1));
  return archive([
    ...paths.map((path) => file(`skerry/${path}`, readFileSync(join(CHART, path)))),
    file('skerry/LICENSE', readFileSync(join(ROOT, 'LICENSE'))),
  ]);
}

/** The CRDs, for those who apply them without the job of the chart. */
export const definitions = (): string =>
  globSync('*.yaml', { cwd: join(ROOT, 'crds') })
    .sort()
    .map((name) => readFileSync(join(ROOT, 'crds', name), 'utf8'))
    .join('---\n');

/** The chart with its defaults, CRDs first, for an installation without Helm. */
export async function plainManifests(): Promise<string> {
  const home = mkdtempSync(join(tmpdir(), 'skerry-helm-'));
  try {
    const env = { ...process.env, HELM_CACHE_HOME: home, HELM_CONFIG_HOME: home, HELM_DATA_HOME: home };
    const args = ['template', 'skerry', CHART, '--namespace', 'skerry', '--no-hooks'];
    const { stdout } = await run(await findHelm(), args, { env, maxBuffer: 64 * 1024 ** 2 });
    return `${stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'skerry' } })}---\n${definitions()}${stdout}`;
  } finally {
    rmSync(home, { recursive: true });
  }
}

export interface PluginParts {
  /** bundle of the plugin */
  plugin: string;
  node: string;
  notice: string;
}

/** The plugin for one platform: a folder with Node and bundle. */
export function pluginArchive({ plugin, node, notice }: PluginParts): Buffer {
  return archive([
    file('kubectl-skerry', readFileSync(join(ROOT, 'packaging/kubectl-skerry')), 0o755),
    file('kubectl_complete-skerry', readFileSync(join(ROOT, 'bin/kubectl_complete-skerry')), 0o755),
    file('kubectl-skerry.mjs', readFileSync(plugin)),
    file('node', readFileSync(node), 0o755),
    file('LICENSE', readFileSync(join(ROOT, 'LICENSE'))),
    file('NOTICE', notice),
  ]);
}

export interface PluginFile {
  platform: Platform;
  uri: string;
  sha256: string;
}

/** What krew, the plugin manager of kubectl, installs the plugin by. */
export function krewManifest(version: string, files: readonly PluginFile[]): string {
  return stringify(
    {
      apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
      kind: 'Plugin',
      metadata: { name: 'skerry' },
      spec: {
        version: `v${version}`,
        shortDescription: 'Containers on machines outside the cluster',
        description:
          'Lists nodes, applications and microservices of Skerry, makes keys with which machines join,\nand says what is wrong.\n',
        platforms: files.map(({ platform, uri, sha256 }) => {
          const [os, arch] = platform.split('-');
          return { selector: { matchLabels: { os, arch } }, uri, sha256, bin: 'kubectl-skerry' };
        }),
      },
    },
    { lineWidth: 120 },
  );
}
