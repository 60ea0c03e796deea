import type { ParseArgsConfig } from 'node:util';
import { customResource } from '../../src/api/resources.ts';
import { type Application, applicationResource, type EdgeNode, edgeNodeResource } from '../../src/api/v3/index.ts';
import { nodeUuid, v3Name } from '../../src/domain/names.ts';
import type { Cluster, ClusterFlags } from './cluster.ts';

export const FORMATS = ['table', 'wide', 'json', 'yaml'] as const;
export type Format = (typeof FORMATS)[number];

/** What the process gives to the plugin. */
export interface PluginDependencies {
  out(text: string): void;
  err(text: string): void;
  colours: boolean;
  env: NodeJS.ProcessEnv;
  connect(flags: ClusterFlags): Cluster;
  /** Unix ms */
  now(): number;
  signal: AbortSignal;
}

/** What a command gets. */
export interface CommandContext extends PluginDependencies {
  cluster: Cluster;
  words: readonly string[];
  flags: Readonly<Record<string, string | boolean | readonly string[] | undefined>>;
  format: Format;
  /** ends the process with this code after a command that succeeded and found a problem */
  exitWith(code: number): void;
}

type Flag = NonNullable<ParseArgsConfig['options']>[string] & { about: string; value?: string };

export interface Command {
  name: string;
  /** the words that follow the name */
  usage: string;
  about: string;
  /** lines of the help after the flags */
  details?: readonly string[];
  examples: readonly string[];
  flags?: Readonly<Record<string, Flag>>;
  words: { min: number; max: number };
  /** candidates for the word at this place */
  complete?(context: CommandContext, words: readonly string[]): Promise<readonly string[]> | readonly string[];
  run(context: CommandContext): Promise<void>;
}

/** A command line that cannot be carried out; the exit code is 2. */
export class UsageError extends Error {}

/** A command that failed for a reason that the message tells; the exit code is 1. */
export class CommandError extends Error {}

/** Owner of the fields that the plugin writes. */
export const FIELD_MANAGER = 'kubectl-skerry';

export const NODES = customResource<EdgeNode>(edgeNodeResource);
export const APPLICATIONS = customResource<Application>(applicationResource);

export async function listNodes({ cluster: { client, namespace }, signal }: CommandContext): Promise<EdgeNode[]> {
  return (await client.list(NODES, { namespace, signal })).items;
}

export async function listApplications({
  cluster: { client, namespace },
  signal,
}: CommandContext): Promise<Application[]> {
  return (await client.list(APPLICATIONS, { namespace, signal })).items;
}

/** The node with this v3 name, object name or uuid. */
export async function nodeNamed(context: CommandContext, name: string): Promise<EdgeNode> {
  const nodes = await listNodes(context);
  const found = nodes.find((node) => v3Name(node) === name) ?? nodes.find((node) => isCalled(node, name));
  if (!found) throw new CommandError(`there is no node "${name}"; kubectl skerry get nodes lists them`);
  return found;
}
const isCalled = (node: EdgeNode, name: string) => node.metadata.name === name || nodeUuid(node) === name;

/** The application with this v3 name or object name. */
export async function applicationNamed(context: CommandContext, name: string): Promise<Application> {
  const applications = await listApplications(context);
  const found =
    applications.find((application) => v3Name(application) === name) ??
    applications.find(({ metadata }) => metadata.name === name);
  if (!found) throw new CommandError(`there is no application "${name}"; kubectl skerry get apps lists them`);
  return found;
}

/** `app` or `app/ms`. */
export function target(word: string): { application: string; microservice?: string } {
  const [application = '', microservice, ...rest] = word.split('/');
  if (application === '' || microservice === '' || rest.length > 0)
    throw new UsageError(`"${word}" must be <application> or <application>/<microservice>`);
  return { application, ...(microservice !== undefined && { microservice }) };
}
