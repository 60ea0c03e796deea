import { BOUNDS } from '../../../src/api/bounds.ts';
import {
  type AgentConfig,
  agentConfigSchema,
  type MicroserviceView,
  microserviceHoldSchema,
  microserviceViewSchema,
  type RegistryView,
  type RetainUnlisted,
  type RuntimeClassView,
  registryViewSchema,
  retainUnlistedSchema,
  runtimeClassViewSchema,
} from '../../../src/wire/agent.ts';
import { artifactViewSchema } from '../../../src/wire/artifacts.ts';
import type { Digests } from '../../../src/wire/sections.ts';
import { volumeMountViewSchema } from '../../../src/wire/volume-mounts.ts';
import { ARTIFACT_KINDS, type DesiredArtifacts } from './artifact.ts';
import { containerDigest } from './digest.ts';
import type { Entry, HoldEntry } from './entry.ts';
import { POLICY_REFUSED } from './entry.ts';
import type { Resolution, SentVolumeMount } from './volume-mounts.ts';

/** The responses of the controller that are saved, each with the digests of its sections. */
const RESPONSES = [
  'config',
  'microservices',
  'registries',
  'volumeMounts',
  'runtimeClasses',
  ...ARTIFACT_KINDS,
] as const;
export type ResponseName = (typeof RESPONSES)[number];

/** Responses that are empty lists where the controller does not have them. */
const MAY_BE_ABSENT: readonly ResponseName[] = ['runtimeClasses'];

export interface SavedResponse {
  digests: Digests;
  /** the body as it was received */
  body: string;
}

type Responses = ReadonlyMap<ResponseName, SavedResponse>;

/** What this machine says to a view. */
export interface ViewRules {
  /** why a microservice may not run here */
  refusal(view: MicroserviceView): string | undefined;
  /** what its container binds of the agent's files, or why it has to wait for them; absent: the view as it is */
  resolve?(view: MicroserviceView): Resolution;
  /** what its image is pulled by; undefined while its registry is not known */
  pullReference?(view: MicroserviceView): string | undefined;
}

/**
 * The desired entries from the last response. Undefined when that is not readable: then absence of an entry means nothing.
 * An entry that cannot be parsed becomes a hold and does not affect the others.
 */
export function desiredEntries(
  responses: Responses,
  rules: ViewRules,
  /** microservices that this agent runs */
  known: Iterable<string> = [],
): Entry[] | undefined {
  const items = listOf(responses, 'microservices', 'microservices');
  const entries = items?.flatMap((item) => {
    const entry = entryOf(item, rules);
    return entry ? [entry] : [];
  });
  const retainUnlisted = retainUnlistedOf(responses);
  if (!entries || !retainUnlisted) return entries;
  const message = 'the controller no longer has this microservice; it runs on until an operator accepts the datastore';
  const retained = unnamed(responses, known).map(
    (uuid): Entry => ({ kind: 'hold', uuid, reason: retainUnlisted.reason, message }),
  );
  return [...entries, ...retained];
}

/** Whether the agent retains what the list does not name. */
export function retainUnlistedOf(responses: Responses): RetainUnlisted | undefined {
  const value = parse(responses.get('microservices')?.body) as { retainUnlisted?: unknown } | null | undefined;
  return value?.retainUnlisted === undefined
    ? undefined
    : (retainUnlistedSchema.safeParse(value.retainUnlisted).data ?? UNREADABLE_RETAIN_UNLISTED);
}

/** Unreadable is not the same as absent. */
const UNREADABLE_RETAIN_UNLISTED: RetainUnlisted = { reason: 'DatastoreRestored', acceptEpoch: '', position: '' };

/** Those that the list does not name. */
export function unnamed(responses: Responses, known: Iterable<string>): string[] {
  const named = new Set(
    (listOf(responses, 'microservices', 'microservices') ?? []).map(
      (item) => (item as { uuid?: unknown } | null)?.uuid,
    ),
  );
  return [...known].filter((uuid) => !named.has(uuid));
}

const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;

function entryOf(item: unknown, { refusal, resolve, pullReference }: ViewRules): Entry | undefined {
  const { uuid, delete: deleted } = (item ?? {}) as { uuid?: unknown; delete?: unknown };
  if (typeof uuid !== 'string' || deleted === true) return undefined;
  // It becomes a part of names and paths, and a uuid of any other form is of no container here.
  if (!PLAIN_NAME.test(uuid)) return undefined;
  const hold = microserviceHoldSchema.safeParse(item);
  if (hold.success) {
    const { reason, message, application, name } = hold.data;
    return { kind: 'hold', uuid, reason, message, application, name };
  }
  const view = microserviceViewSchema.safeParse(item);
  if (!view.success) {
    const wrong = view.error.issues[0];
    const message = `the controller's view cannot be read: ${wrong?.path.join('.')}: ${wrong?.message}`;
    return { kind: 'hold', uuid, reason: 'NotUnderstood', message, ...namesOf(item) };
  }
  const names = namesOf(view.data);
  const refused = refusal(view.data);
  if (refused) return { kind: 'hold', uuid, reason: POLICY_REFUSED, message: refused, ...names };
  const resolved = resolve?.(view.data) ?? { view: view.data };
  if (!('view' in resolved)) return { kind: 'hold', uuid, ...names, ...resolved };
  const { view: wanted } = resolved;
  return { kind: 'run', uuid, view: wanted, digest: containerDigest(wanted), pullReference: pullReference?.(wanted) };
}

/** What people call a microservice, as far as its view says so. */
function namesOf(item: unknown): Pick<HoldEntry, 'application' | 'name'> {
  const named = microserviceHoldSchema.pick({ application: true, name: true }).safeParse(item);
  return named.data ?? {};
}

/** The views as they were sent, by microservice: for the names of entries on hold, and for inspection. */
export function views(responses: Responses): Map<string, MicroserviceView> {
  const found = new Map<string, MicroserviceView>();
  for (const item of listOf(responses, 'microservices', 'microservices') ?? []) {
    const view = microserviceViewSchema.safeParse(item);
    if (view.success) found.set(view.data.uuid, view.data);
  }
  return found;
}

/** The registries that the controller sent, by id. */
export function registries(responses: Responses): Map<number, RegistryView> {
  const found = new Map<number, RegistryView>();
  for (const item of listOf(responses, 'registries', 'registries') ?? []) {
    const registry = registryViewSchema.safeParse(item);
    if (registry.success) found.set(registry.data.id, registry.data);
  }
  return found;
}

/**
 * The volume mounts that the controller sent; undefined while that is not known. One that cannot be read is no absent one:
 * what there is of it stays.
 */
export function volumeMounts(responses: Responses): SentVolumeMount[] | undefined {
  return listOf(responses, 'volumeMounts', 'volumeMounts')?.flatMap((item): SentVolumeMount[] => {
    const { uuid, name } = (item ?? {}) as { uuid?: unknown; name?: unknown };
    // It becomes a part of paths.
    if (typeof uuid !== 'string' || !PLAIN_NAME.test(uuid)) return [];
    const mount = volumeMountViewSchema.safeParse(item);
    if (mount.success) return [mount.data];
    const wrong = mount.error.issues[0];
    const problem = `the controller's volume mount cannot be read: ${wrong?.path[0]?.toString()}: ${wrong?.message}`;
    return [{ uuid, name: typeof name === 'string' ? name.slice(0, 255) : uuid, problem }];
  });
}

/** The artifacts that the node is to have; a kind whose list did not arrive is absent. */
export function desiredArtifacts(responses: Responses): DesiredArtifacts {
  const found = ARTIFACT_KINDS.flatMap((kind) => {
    const items = listOf(responses, kind, kind);
    const views = items?.slice(0, BOUNDS.artifacts).flatMap((item) => artifactViewSchema.safeParse(item).data ?? []);
    return views ? [[kind, views] as const] : [];
  });
  return Object.fromEntries(found);
}

/** The settings that the controller wants; each that cannot be read is left out. */
export function wantedSettings(responses: Responses): AgentConfig {
  const value = parse(responses.get('config')?.body);
  if (value === null || typeof value !== 'object') return {};
  const wanted: Record<string, unknown> = {};
  for (const [key, schema] of Object.entries(agentConfigSchema.shape)) {
    const result = schema.safeParse((value as Record<string, unknown>)[key]);
    if (result.success && result.data !== undefined) wanted[key] = result.data;
  }
  return wanted as AgentConfig;
}

/** The runtime classes that the controller sent. */
export const runtimeClasses = (responses: Responses): RuntimeClassView[] =>
  (listOf(responses, 'runtimeClasses', 'runtimeClasses') ?? []).flatMap((item) => {
    const found = runtimeClassViewSchema.safeParse(item);
    return found.success ? [found.data] : [];
  });

/** Whether a document has the form of its name. One that has not never replaces one that has. */
export function isReadable(name: ResponseName, body: string): boolean {
  const value = parse(body);
  if (name === 'config') return body === '' || (value !== null && typeof value === 'object' && !Array.isArray(value));
  if (body === '' && MAY_BE_ABSENT.includes(name)) return true;
  return Array.isArray((value as Record<string, unknown> | null | undefined)?.[name]);
}

function listOf(responses: Responses, name: ResponseName, member: string): unknown[] | undefined {
  const value = parse(responses.get(name)?.body) as Record<string, unknown> | null | undefined;
  const list = value?.[member];
  return Array.isArray(list) ? list : undefined;
}

function parse(text: string | undefined): unknown {
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
