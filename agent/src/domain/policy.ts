import { z } from 'zod';
import { BUILT_IN_REGISTRIES } from '../../../src/api/names.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Bind } from '../engine-port/container.ts';
import { bindsOf } from './binds.ts';
import { canonicalHost, parseReference } from './reference.ts';

/**
 * What this machine allows a microservice, from its own policy file. Without a policy, a user who may write an Application
 * is root on the machine. An absent file allows everything except binds of `protectedPaths`.
 */
export const policySchema = z.strictObject({
  privileged: z.boolean().default(true),
  hostNetwork: z.boolean().default(true),
  hostPid: z.boolean().default(true),
  hostIpc: z.boolean().default(true),
  devices: z.boolean().default(true),
  /** runtimes that may be named; absent: any, or with `devices: false` the plain ones, since others can bring devices along */
  runtimes: z.array(z.string()).optional(),
  /** capabilities that may be added; absent: any */
  capAdd: z.array(z.string()).optional(),
  /** directories that binds may lie in; absent: any */
  bindPrefixes: z.array(z.string().startsWith('/')).optional(),
  /** hosts that images may come from; absent: any. Images without a host come from that of their registry */
  registries: z.array(z.string()).optional(),
  /**
   * hosts that registries may lead the agent to besides: token services, and where content is stored; `*` and `*.example.com`
   * are patterns. Absent: with `registries` none, otherwise any that lies no further inside than the registry
   */
  storage: z.array(z.string()).optional(),
  /** the agent fetches every image from its registry, and the engine from the agent, so that each host is judged */
  pullThroughAgent: z.boolean().default(false),
  /** programs that users of the controller start in containers, such as a shell */
  exec: z.boolean().default(true),
  /** logs of containers and of the agent, for users of the controller */
  logs: z.boolean().default(true),
  /** a tunnel by which users of the controller reach a port of this machine, usually its ssh server */
  tunnel: z.boolean().default(true),
  /** stops running containers that the policy refuses; otherwise they run until they end and are not started again */
  stopRefused: z.boolean().default(false),
});
export type Policy = z.infer<typeof policySchema>;

/** The policy of a machine without a policy file. */
export const OPEN_POLICY: Policy = policySchema.parse({});

export interface PolicyContext {
  policy: Policy;
  /** engine sockets and the agent's own directories: never bound, nor what lies in them, nor what they lie in */
  protectedPaths: readonly string[];
  places: PathFacts;
}

/** Facts about paths, read from the machine. */
export interface PathFacts {
  /** a path with all links followed; throws when that cannot be found out */
  follow(path: string): string;
  /** names the file or directory itself, the same by whatever path; undefined when there is none */
  identity(path: string): string | undefined;
  /** mount points below a directory */
  mountsBelow(directory: string): string[];
  /** where paths lie in their file systems, the same by whatever mount they are reached */
  locate(paths: readonly string[]): string[];
  /** what a process has mounted, as `locate` calls it */
  mountedPlaces(pid: number): string[];
}

/**
 * Why a microservice may not run here, in one sentence, or undefined. `reference` is what its image is pulled by: it names
 * the host that counts.
 */
export function refusal(view: MicroserviceView, reference: string, context: PolicyContext): string | undefined {
  return refusalByPolicy(view, reference, context.policy) ?? sourcesRefusal(bindsOf(view), context);
}

/** Why a microservice may not run here whatever paths it binds. Pure. */
export function refusalByPolicy(view: MicroserviceView, reference: string, policy: Policy): string | undefined {
  for (const rule of RULES) {
    const answer = rule(view, policy, reference);
    if (answer) return answer;
  }
  return undefined;
}

/** Why some of these paths may not be bound. */
export function sourcesRefusal(binds: readonly Pick<Bind, 'source'>[], context: PolicyContext): string | undefined {
  for (const { source } of binds) {
    const refused = bindRefusal(source, context);
    if (refused) return refused;
  }
  return undefined;
}

type Rule = (view: MicroserviceView, policy: Policy, reference: string) => string | undefined | false;

/** Runtimes that bring no devices along, nor anything else that the engine's default does not. */
const PLAIN_RUNTIMES: readonly string[] = ['runc', 'crun'];

/** One line per rule; the first refusal is reported. */
const RULES: readonly Rule[] = [
  (view, policy) => view.isPrivileged && !policy.privileged && 'the machine allows no privileged containers',
  (view, policy) => view.hostNetworkMode && !policy.hostNetwork && 'the machine does not share its network',
  (view, policy) => isShared(view.pidMode) && !policy.hostPid && 'the machine does not share its process table',
  (view, policy) => isShared(view.ipcMode) && !policy.hostIpc && 'the machine does not share its IPC',
  (view, policy) =>
    view.devices.length + view.cdiDevices.length > 0 && !policy.devices && 'the machine shares no devices',
  (view, policy) => {
    const allowed = policy.runtimes ?? (policy.devices ? undefined : PLAIN_RUNTIMES);
    const refused = view.runtime !== '' && allowed && !allowed.includes(view.runtime);
    return refused && `the machine does not allow the runtime ${view.runtime}; "runtimes" of its policy can name it`;
  },
  (view, policy) => {
    const allowed = policy.capAdd && new Set(policy.capAdd.map(capability));
    const refused = view.capAdd.find((name) => allowed && !allowed.has(capability(name)));
    return refused && `the machine does not allow the capability ${refused}`;
  },
  (view, policy, reference) => registryRefusal(view.registryId, reference, policy),
];

/** Why an image may not come from where a reference leads, in one sentence, or undefined. Pure. */
export function registryRefusal(
  registryId: number | undefined,
  reference: string,
  { registries }: Pick<Policy, 'registries'>,
): string | undefined {
  // An image that is never pulled was loaded by a person on the machine.
  if (!registries || registryId === BUILT_IN_REGISTRIES.local.id) return undefined;
  const { host } = parseReference(reference);
  return registries.map(canonicalHost).includes(host) ? undefined : `the machine takes no images from ${host}`;
}

/** Paths that lead into the file system view of a process. */
const PROCESS_VIEW = /^\/proc\/(\d+|self|thread-self)(\/|$)/;

/** Why a path of the machine may not be bound, in one sentence, or undefined. */
export function bindRefusal(source: string, { policy, protectedPaths, places }: PolicyContext): string | undefined {
  if (!source.startsWith('/')) return `the bind source ${source} is not an absolute path`;
  if (PROCESS_VIEW.test(plainPath(source))) return `${source} may not be bound: it leads to what a process sees`;
  let path: string;
  try {
    path = places.follow(source);
  } catch (error) {
    return `${source} may not be bound: where it leads cannot be told (${(error as Error).message})`;
  }
  if (PROCESS_VIEW.test(path)) return `${source} may not be bound: it leads to what a process sees`;
  const within = new Set(identities(chain(path), places));
  const shown = new Set(identities([path, ...places.mountsBelow(path)], places));
  const own = protectedPaths.find(
    (each) =>
      isInside(path, each) ||
      isInside(each, path) ||
      identities([each], places).some((id) => within.has(id)) ||
      identities(chain(each), places).some((id) => shown.has(id)),
  );
  if (own) return `${source} may not be bound: ${own} belongs to the agent or its engine`;
  if (policy.bindPrefixes && !policy.bindPrefixes.some((prefix) => isInside(path, places.follow(prefix))))
    return `the machine does not allow binding ${source}`;
  return undefined;
}

/** Identities of paths, since mounts can give one directory several paths. */
function identities(paths: readonly string[], { identity }: PathFacts): string[] {
  return paths.map(identity).filter((id) => id !== undefined);
}

/** A path and all directories above it. */
function chain(path: string): string[] {
  const names = path.split('/').filter(Boolean);
  return ['/', ...names.map((_, index) => `/${names.slice(0, index + 1).join('/')}`)];
}

/** A path without dots and double slashes. */
function plainPath(path: string): string {
  const names: string[] = [];
  for (const name of path.split('/')) {
    if (name === '..') names.pop();
    else if (name !== '' && name !== '.') names.push(name);
  }
  return `/${names.join('/')}`;
}

/** Whether a path is a directory or lies in it. */
function isInside(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory.endsWith('/') ? directory : `${directory}/`);
}

/** Whether a namespace is that of the machine or of another container, rather than one of its own. */
function isShared(mode: string): boolean {
  return !['', 'private', 'shareable', 'none'].includes(mode);
}

function capability(name: string): string {
  return name.toUpperCase().replace(/^CAP_/, '');
}
