import { parse as parseYaml } from 'yaml';
import { z } from 'zod';
import type { MicroserviceView } from '../../src/wire/agent.ts';

/**
 * What this machine lets a microservice do, from its own policy file. Who may write an Application is root on the machine
 * unless the machine says otherwise. Absent file: all is allowed but what can never be (`protectedPaths`).
 */
export const policySchema = z.strictObject({
  privileged: z.boolean().default(true),
  hostNetwork: z.boolean().default(true),
  hostPid: z.boolean().default(true),
  hostIpc: z.boolean().default(true),
  devices: z.boolean().default(true),
  /** capabilities that may be added; absent: any */
  capAdd: z.array(z.string()).optional(),
  /** directories that binds may lie in; absent: any */
  bindPrefixes: z.array(z.string().startsWith('/')).optional(),
  /** hosts that images may come from; absent: any. Images without a host come from docker.io */
  registries: z.array(z.string()).optional(),
});
export type Policy = z.infer<typeof policySchema>;

/** The policy of a machine that says nothing. */
export const OPEN_POLICY: Policy = policySchema.parse({});

/** Reads a policy file. One that cannot be read allows nothing, rather than everything: the agent does not start. */
export function parsePolicy(text: string | undefined, file: string): Policy {
  if (text === undefined) return OPEN_POLICY;
  const policy = policySchema.safeParse(parseYaml(text) ?? {});
  if (policy.success) return policy.data;
  const wrong = policy.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new Error(`${file}: ${wrong.join('; ')}`);
}

export interface PolicyContext {
  policy: Policy;
  /** engine sockets and the agent's own directories: never bound, nor a directory that they lie in */
  protectedPaths: readonly string[];
  /** where agent-managed volumes live: the one place among the agent's own that may be shared */
  follow: (path: string) => string;
}

/** Why a microservice may not run here, in one sentence, or undefined. */
export function refusal(view: MicroserviceView, context: PolicyContext): string | undefined {
  for (const rule of RULES) {
    const answer = rule(view, context);
    if (answer) return answer;
  }
  return undefined;
}

type Rule = (view: MicroserviceView, context: PolicyContext) => string | undefined | false;

/** One line per rule; the first that objects is reported. */
const RULES: readonly Rule[] = [
  (view, { policy }) => view.isPrivileged && !policy.privileged && 'the machine allows no privileged containers',
  (view, { policy }) => view.hostNetworkMode && !policy.hostNetwork && 'the machine does not share its network',
  (view, { policy }) => isHost(view.pidMode) && !policy.hostPid && 'the machine does not share its process table',
  (view, { policy }) => isHost(view.ipcMode) && !policy.hostIpc && 'the machine does not share its IPC',
  (view, { policy }) =>
    view.devices.length + view.cdiDevices.length > 0 && !policy.devices && 'the machine shares no devices',
  (view, { policy }) => {
    const allowed = policy.capAdd && new Set(policy.capAdd.map(capability));
    const refused = view.capAdd.find((name) => allowed && !allowed.has(capability(name)));
    return refused && `the machine does not allow the capability ${refused}`;
  },
  (view, { policy }) => {
    const host = imageHost(view.imageId);
    return policy.registries && !policy.registries.includes(host) && `the machine takes no images from ${host}`;
  },
  (view, context) => {
    for (const { type, hostDestination } of view.volumeMappings) {
      if (type !== 'bind') continue;
      const answer = bindRefusal(hostDestination, context);
      if (answer) return answer;
    }
    return undefined;
  },
];

function bindRefusal(source: string, { policy, protectedPaths, follow }: PolicyContext): string | undefined {
  if (!source.startsWith('/')) return `the bind source ${source} is not an absolute path`;
  const path = follow(source);
  const own = protectedPaths.find((each) => isInside(path, each) || isInside(each, path));
  if (own) return `${source} may not be bound: ${own} belongs to the agent or its engine`;
  if (policy.bindPrefixes && !policy.bindPrefixes.some((prefix) => isInside(path, follow(prefix))))
    return `the machine does not allow binding ${source}`;
  return undefined;
}

/** Whether a path is a directory or lies in it. */
function isInside(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory.endsWith('/') ? directory : `${directory}/`);
}

function isHost(mode: string): boolean {
  return mode === 'host';
}

function capability(name: string): string {
  return name.toUpperCase().replace(/^CAP_/, '');
}

/** The registry host that an image reference names; the public hub when it names none. */
export function imageHost(reference: string): string {
  const [first = '', rest] = reference.split(/\/(.*)/s);
  const named = rest !== undefined && (first.includes('.') || first.includes(':') || first === 'localhost');
  return named ? first : 'docker.io';
}
