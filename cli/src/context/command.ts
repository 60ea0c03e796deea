import { customResource } from '../../../src/api/resources.ts';
import {
  type Application,
  applicationResource,
  type CatalogItem,
  catalogItemResource,
  type EdgeNode,
  edgeNodeResource,
} from '../../../src/api/v3/index.ts';
import { type Service, serviceResource } from '../../../src/api/v3/service.ts';
import { isForbidden, type KubeObject, type Resource } from '../../../src/kube/mod.ts';
import type { CommandForm, FlagValues } from '../../../src/lib/command-line/command.ts';
import { objectName, v3Name } from '../../../src/rules/names.ts';
import type { Streams } from '../../../src/session-client/attach.ts';
import { catalogItemRefsOf } from '../../../src/subjects/catalog/rules/catalog-item.ts';
import type { Cluster, ClusterFlags } from './cluster.ts';
import { CommandError, UsageError } from './errors.ts';

export const FORMATS = ['table', 'wide', 'json', 'yaml'] as const;
export type Format = (typeof FORMATS)[number];

interface StandardStreams {
  input: NonNullable<Streams['input']>;
  output: Streams['output'];
  errors: Streams['errors'] & { isTTY?: boolean };
}

/** What the process gives to the plugin. */
export interface PluginDependencies {
  out(text: string): void;
  err(text: string): void;
  /** for the commands that have sessions */
  streams: StandardStreams;
  colours: boolean;
  env: NodeJS.ProcessEnv;
  connect(flags: ClusterFlags): Cluster;
  /** Unix ms */
  now(): number;
  signal: AbortSignal;
}

/** What a command gets. */
export interface CommandContext extends PluginDependencies {
  /** What `out` would escape, such as colours. */
  raw(text: string): void;
  cluster: Cluster;
  words: readonly string[];
  flags: FlagValues;
  format: Format;
  /** ends the process with this code after a command that succeeded and found a problem */
  exitWith(code: number): void;
}

export interface Command extends CommandForm {
  /** candidates for the word at this place */
  complete?(context: CommandContext, words: readonly string[]): Promise<readonly string[]> | readonly string[];
  run(context: CommandContext): Promise<void>;
}

/** Owner of the fields that the plugin writes. */
export const FIELD_MANAGER = 'kubectl-skerry';

export const NODES = customResource<EdgeNode>(edgeNodeResource);
export const EDGE_SERVICES = customResource<Service>(serviceResource);
export const APPLICATIONS = customResource<Application>(applicationResource);
const CATALOG_ITEMS = customResource<CatalogItem>(catalogItemResource);

/** A list in one response: without it, the first 500 objects. */
const WHOLE = { limit: 0 } as const;

export async function listNodes(
  { cluster: { client, namespace }, signal }: CommandContext,
  labelSelector?: string,
): Promise<EdgeNode[]> {
  return (
    await client.list(NODES, { namespace, ...(labelSelector !== undefined && { labelSelector }), ...WHOLE, signal })
  ).items;
}

export async function listApplications(
  { cluster: { client, namespace }, signal }: CommandContext,
  labelSelector?: string,
): Promise<Application[]> {
  const selected = labelSelector === undefined ? {} : { labelSelector };
  return (await client.list(APPLICATIONS, { namespace, ...selected, ...WHOLE, signal })).items;
}

export const listServices = async ({ cluster: { client, namespace }, signal }: CommandContext): Promise<Service[]> =>
  (await client.list(EDGE_SERVICES, { namespace, ...WHOLE, signal })).items;

/** The catalog, when an entry names an item of it. Without the permission to list it, images of items are not shown. */
export async function catalogItemsFor(
  { cluster: { client, namespace }, signal }: CommandContext,
  applications: readonly Application[],
): Promise<CatalogItem[]> {
  const isUsed = applications.some(({ spec }) =>
    spec.microservices?.some((entry) => catalogItemRefsOf(entry).length > 0),
  );
  if (!isUsed) return [];
  try {
    return (await client.list(CATALOG_ITEMS, { namespace, ...WHOLE, signal })).items;
  } catch (error) {
    if (isForbidden(error)) return [];
    throw error;
  }
}

/** The node with this v3 name, object name or uuid. */
export async function nodeNamed(context: CommandContext, name: string): Promise<EdgeNode> {
  const node = (await findNamed(context, NODES, name)) ?? (await findNodeByUuid(context, name));
  if (!node) throw new CommandError(`there is no node "${name}"; kubectl skerry get nodes lists them`);
  return node;
}

export const findNodeByUuid = async (context: CommandContext, uuid: string): Promise<EdgeNode | undefined> =>
  (await findSelected(context, NODES, 'status.uuid', uuid)) ?? (await findSelected(context, NODES, 'spec.uuid', uuid));

/** The application with this v3 name or object name. */
export async function applicationNamed(context: CommandContext, name: string): Promise<Application> {
  const application = await findNamed(context, APPLICATIONS, name);
  if (!application) throw new CommandError(`there is no application "${name}"; kubectl skerry get apps lists them`);
  return application;
}

/** The object with this v3 name, else the one with this object name: two reads at most, however many objects there are. */
export async function findNamed<T extends KubeObject & { spec: object }>(
  context: CommandContext,
  resource: Resource<T>,
  name: string,
): Promise<T | undefined> {
  const { client, namespace } = context.cluster;
  const guess = await client.find(resource, { namespace, name: objectName(name) }, { signal: context.signal });
  if (guess && v3Name(guess) === name) return guess;
  const renamed = await findSelected(context, resource, 'spec.name', name);
  return renamed ?? (guess?.metadata.name === name ? guess : undefined);
}

async function findSelected<T extends KubeObject>(
  { cluster: { client, namespace }, signal }: CommandContext,
  resource: Resource<T>,
  field: 'spec.name' | 'spec.uuid' | 'status.uuid',
  value: string,
): Promise<T | undefined> {
  // Selectors have their own meaning for backslash, comma and equals sign.
  const fieldSelector = `${field}=${value.replaceAll(/[\\,=]/g, '\\$&')}`;
  return (await client.list(resource, { namespace, fieldSelector, signal })).items[0];
}

/** `app` or `app/ms`. */
export function target(word: string): { application: string; microservice?: string } {
  const [application = '', microservice, ...rest] = word.split('/');
  if (application === '' || microservice === '' || rest.length > 0)
    throw new UsageError(`"${word}" must be <application> or <application>/<microservice>`);
  return { application, ...(microservice !== undefined && { microservice }) };
}
