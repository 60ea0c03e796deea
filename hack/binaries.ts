import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type GoBuildOptions, goBuild, goVersion, isRoomy } from './go.ts';
import { lock } from './lock.ts';
import { cacheFolder, ROOT } from './paths.ts';
import { type Log, startClock } from './progress.ts';
import { downloadEnvtest, downloadKubernetes } from './release.ts';

/** A third-party program that the stack or the tests run. */
export type Tool =
  | 'etcd'
  | 'kube-apiserver'
  | 'kube-controller-manager'
  | 'kubectl'
  | 'registry'
  | 'nats-server'
  | 'kube-scheduler'
  | 'kubelet'
  | 'kube-proxy';

interface ToolFacts {
  /** Folder under hack/tools whose go.mod pins it. */
  pins: string;
  /** The module in it whose version the tool has. */
  module: string;
  package: string;
  /** Linker variables that set the version of the binary. */
  variables?(version: string): Record<string, string>;
  /** The output by which a binary on PATH is accepted: names are not unique, and versions get old. */
  probe: { args: string[]; pattern: RegExp; atLeast: string };
  /** The official download that has it: the envtest archive, or a file of the Kubernetes release. */
  release?: 'envtest' | 'kubernetes';
}

const TOOLS_FOLDER = join(import.meta.dirname, 'tools');

/** Nodes need modules that no other part of Kubernetes does: without them, `make up` downloads less. */
const NODE_PINS = 'kubernetes-node';

function kubernetes(command: string, rest: Pick<ToolFacts, 'probe' | 'release'>, pins = 'kubernetes'): ToolFacts {
  return {
    pins,
    module: 'k8s.io/kubernetes',
    package: `k8s.io/kubernetes/cmd/${command}`,
    variables: (version) => ({
      'k8s.io/component-base/version.gitVersion': `v${version}`,
      'k8s.io/component-base/version.gitMajor': version.split('.')[0] as string,
      'k8s.io/component-base/version.gitMinor': version.split('.')[1] as string,
    }),
    ...rest,
  };
}

/** A program that only clusters with nodes have (hack/cluster). */
function ofNodes(command: string): ToolFacts {
  const probe = { args: ['--version'], pattern: /^Kubernetes v([\d.]+)/m, atLeast: '1.32' };
  return kubernetes(command, { probe, release: 'kubernetes' }, NODE_PINS);
}

const FACTS: Record<Tool, ToolFacts> = {
  etcd: {
    pins: 'etcd',
    module: 'go.etcd.io/etcd/server/v3',
    package: 'go.etcd.io/etcd/server/v3',
    probe: { args: ['--version'], pattern: /^etcd Version: ([\d.]+)/m, atLeast: '3.5' },
    release: 'envtest',
  },
  'kube-apiserver': kubernetes('kube-apiserver', {
    probe: { args: ['--version'], pattern: /^Kubernetes v([\d.]+)/m, atLeast: '1.32' },
    release: 'envtest',
  }),
  'kube-controller-manager': kubernetes('kube-controller-manager', {
    probe: { args: ['--version'], pattern: /^Kubernetes v([\d.]+)/m, atLeast: '1.32' },
    release: 'kubernetes',
  }),
  kubectl: kubernetes('kubectl', {
    probe: { args: ['version', '--client'], pattern: /^Client Version: v([\d.]+)/m, atLeast: '1.32' },
    release: 'envtest',
  }),
  registry: {
    pins: 'registry',
    module: 'github.com/distribution/distribution/v3',
    package: 'github.com/distribution/distribution/v3/cmd/registry',
    variables: (version) => ({ 'github.com/distribution/distribution/v3/version.version': `v${version}` }),
    probe: { args: ['--version'], pattern: /github\.com\/(?:docker\/)?distribution\S* v?([\d.]+)/, atLeast: '2.8' },
  },
  'nats-server': {
    pins: 'nats',
    module: 'github.com/nats-io/nats-server/v2',
    package: 'github.com/nats-io/nats-server/v2',
    probe: { args: ['--version'], pattern: /^nats-server: v([\d.]+)/m, atLeast: '2.11' },
  },
  'kube-scheduler': ofNodes('kube-scheduler'),
  kubelet: ofNodes('kubelet'),
  'kube-proxy': ofNodes('kube-proxy'),
};

/** Every tool, in the order that costs the least waiting. */
export const TOOLS = Object.keys(FACTS) as Tool[];

/** One source of tools. */
export interface Source {
  name: string;
  /** Finds the wanted tools that it has, and describes its search. Throws only errors that are a reason. */
  find(wanted: readonly Tool[]): Promise<{ found: Partial<Record<Tool, string>>; saw: string }>;
}

export interface FindOptions {
  log?: Log;
  /** Aborts the wait and the build. */
  signal?: AbortSignal;
  env?: NodeJS.ProcessEnv;
  /** The sources, for tests; `slow` ones are asked last and by one process at a time. */
  sources?: { fast: Source[]; slow: Source[] };
}

/**
 * The paths of the tools: from KUBEBUILDER_ASSETS, PATH or the cache, else downloaded from the official release, else
 * built from the pinned Go modules; what was downloaded or built stays in the cache. Two processes that lack the same tool
 * fetch it once. The error has the reason of every source.
 */
export async function findTools<T extends Tool>(
  wanted: readonly T[],
  options: FindOptions = {},
): Promise<Record<T, string>> {
  const { log = () => {}, env = process.env, signal } = options;
  const cache = cacheOf(env);
  const sources = options.sources ?? {
    fast: fastSources(env),
    slow: [release(cache, env, log), build(cache, log, signal)],
  };
  const paths: Partial<Record<Tool, string>> = {};
  const saw: string[] = [];
  const missing = () => wanted.filter((tool) => !paths[tool]);
  const ask = async (places: Source[]) => {
    for (const place of places) {
      if (missing().length === 0) return;
      signal?.throwIfAborted();
      try {
        const answer = await place.find(missing());
        Object.assign(paths, answer.found);
        saw.push(`${place.name}: ${answer.saw}`);
      } catch (error) {
        saw.push(`${place.name}: ${(error as Error).message}`);
        log(`${place.name}: ${(error as Error).message}`);
      }
    }
  };

  await ask(sources.fast);
  if (missing().length > 0) {
    log(`Not on this machine yet: ${missing().join(', ')}`);
    await using _held = await lock(join(cacheFolder(env), 'binaries.lock'), {
      onWait: () => log('Another process is getting binaries; waiting for it'),
      signal,
    });
    await ask([...sources.fast.slice(-1), ...sources.slow]);
  }
  if (missing().length > 0) throw new Error(`Found no ${missing().join(', ')}. Tried:\n  ${saw.join('\n  ')}`);
  return paths as Record<T, string>;
}

/** Whether all of these are available without a download or a build. */
export async function areAtHand(wanted: readonly Tool[], env: NodeJS.ProcessEnv = process.env): Promise<boolean> {
  const answers = await Promise.all(fastSources(env).map((place) => place.find(wanted)));
  return wanted.every((tool) => answers.some(({ found }) => found[tool]));
}

/** Path of a tool that `findTools` downloads or builds. */
export function cachedPath(tool: Tool, env: NodeJS.ProcessEnv = process.env): string {
  return join(cacheOf(env), tool);
}

const cacheOf = (env: NodeJS.ProcessEnv) => join(cacheFolder(env), `bin-${versionsHash()}`);
const fastSources = (env: NodeJS.ProcessEnv) => [assets(env), onPath(env), cached(cacheOf(env))];

/** The version of a tool that hack/tools pins, without the v. */
export function toolVersion(tool: Tool): string {
  const { pins, module } = FACTS[tool];
  const version = versionInGoMod(readFileSync(join(TOOLS_FOLDER, pins, 'go.mod'), 'utf8'), module);
  if (!version) throw new Error(`hack/tools/${pins}/go.mod does not require ${module}`);
  return version;
}

/** The version of a required module in the text of a go.mod, without the v. */
export function versionInGoMod(text: string, module: string): string | undefined {
  for (const line of text.split('\n')) {
    const [path, version] = line
      .replace(/^require\s/, '')
      .trim()
      .split(/\s+/);
    if (path === module && version?.startsWith('v')) return version.slice(1);
  }
  return undefined;
}

/** Builds a tool from its pinned Go module; resolves with its version. */
export async function buildFromSource(
  tool: Tool,
  { output, arch, ...rest }: Pick<GoBuildOptions, 'output' | 'log' | 'arch' | 'signal' | 'toolchain'>,
): Promise<string> {
  const { pins, package: path, variables } = FACTS[tool];
  const version = toolVersion(tool);
  await goBuild({
    name: `${tool} ${version}`,
    module: join(TOOLS_FOLDER, pins),
    package: path,
    output,
    variables: variables?.(version),
    ...(arch && { arch }),
    ...rest,
  });
  return version;
}

/** Compares dotted versions by number: negative when `a` is the older. */
export function compareVersions(a: string, b: string): number {
  const left = a.split('.').map(Number);
  const right = b.split('.').map(Number);
  for (let i = 0; i < Math.max(left.length, right.length); i += 1) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * Names the set of pinned versions, so that a changed pin never finds old binaries. Nodes have the version of the rest of
 * Kubernetes.
 */
function versionsHash(): string {
  const hash = createHash('sha256').update(`${process.platform}/${process.arch}`);
  const counted = TOOLS.map((tool) => FACTS[tool].pins).filter((pins) => pins !== NODE_PINS);
  for (const pins of [...new Set(counted)].sort()) {
    hash.update(readFileSync(join(TOOLS_FOLDER, pins, 'go.mod')));
  }
  return hash.digest('hex').slice(0, 12);
}

function assets(env: NodeJS.ProcessEnv): Source {
  return {
    name: 'KUBEBUILDER_ASSETS',
    async find(wanted) {
      const folder = env.KUBEBUILDER_ASSETS;
      if (!folder) return { found: {}, saw: 'not set' };
      return inFolder(wanted, folder);
    },
  };
}

function onPath(env: NodeJS.ProcessEnv): Source {
  return {
    name: 'PATH',
    async find(wanted) {
      const folders = (env.PATH ?? '').split(delimiter).filter(Boolean);
      const found: Partial<Record<Tool, string>> = {};
      const saw: string[] = [];
      for (const tool of wanted) {
        const path = folders.map((folder) => join(folder, tool)).find(isExecutable);
        if (!path) continue;
        const { args, pattern, atLeast } = FACTS[tool].probe;
        const { stdout, stderr } = spawnSync(path, args, { encoding: 'utf8', timeout: 10_000 });
        const version = pattern.exec(`${stdout}\n${stderr}`)?.[1];
        if (version && compareVersions(version, atLeast) >= 0) found[tool] = path;
        else saw.push(`${path} is ${version ? `version ${version}, older than ${atLeast}` : `another program`}`);
      }
      return { found, saw: saw.join(', ') || describe(found) };
    },
  };
}

function cached(folder: string): Source {
  return { name: `cache ${folder}`, find: async (wanted) => inFolder(wanted, folder) };
}

function release(folder: string, env: NodeJS.ProcessEnv, log: Log): Source {
  return {
    name: 'official release',
    async find(wanted) {
      if (env.SKERRY_OFFLINE) return { found: {}, saw: 'not tried, SKERRY_OFFLINE is set' };
      const version = toolVersion('kube-apiserver');
      const reasons: string[] = [];
      const attempt = (work: Promise<void>) => work.catch((error: Error) => reasons.push(error.message));
      if (wanted.some((tool) => FACTS[tool].release === 'envtest')) {
        await attempt(downloadEnvtest(version, fetch, folder, log));
      }
      for (const tool of wanted.filter((each) => FACTS[each].release === 'kubernetes')) {
        await attempt(downloadKubernetes(tool, version, fetch, folder, log));
      }
      const { found } = inFolder(wanted, folder);
      if (reasons.length > 0) log(`No release download: ${reasons.join('; ')}`);
      return { found, saw: reasons.join('; ') || describe(found) };
    },
  };
}

function build(folder: string, log: Log, signal?: AbortSignal): Source {
  return {
    name: 'Go build',
    async find(wanted) {
      if (!goVersion()) throw new Error('there is no Go toolchain (https://go.dev/dl)');
      if (wanted.includes('kube-apiserver')) {
        log('Building kube-apiserver takes some minutes, once; the result is kept');
      }
      const queue = TOOLS.filter((each) => wanted.includes(each));
      const work = async () => {
        for (let tool = queue.shift(); tool; tool = queue.shift())
          await buildFromSource(tool, { output: join(folder, tool), log, signal });
      };
      const ends = await Promise.allSettled(isRoomy() ? [work(), work()] : [work()]);
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
      return inFolder(wanted, folder);
    },
  };
}

function inFolder(wanted: readonly Tool[], folder: string): { found: Partial<Record<Tool, string>>; saw: string } {
  const found: Partial<Record<Tool, string>> = {};
  for (const tool of wanted) {
    const path = join(folder, tool);
    if (isExecutable(path)) found[tool] = path;
  }
  return { found, saw: describe(found) };
}

function describe(found: Partial<Record<Tool, string>>): string {
  return Object.keys(found).length === 0 ? 'none of them' : `only ${Object.keys(found).join(', ')}`;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const asked = process.argv.slice(2) as Tool[];
  const unknown = asked.filter((tool) => !TOOLS.includes(tool));
  if (unknown.length > 0) throw new Error(`Unknown tool ${unknown.join(', ')}; there are ${TOOLS.join(', ')}`);
  process.chdir(ROOT);
  const paths = await findTools(asked.length > 0 ? asked : TOOLS, { log: startClock() });
  for (const [tool, path] of Object.entries(paths)) process.stdout.write(`${tool} ${path}\n`);
}
