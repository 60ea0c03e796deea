import {
  type AgentConfig,
  agentConfigSchema,
  type MicroserviceView,
  type RegistryView,
  type RuntimeClassView,
} from '../../../src/wire/agent.ts';
import type { ArtifactView } from '../../../src/wire/artifacts.ts';
import { knownFolders, type ListedFileSet, withKnown } from '../../../src/wire/known-folders.ts';
import { type Digests, RESPONSES, type SavedName } from '../../../src/wire/sections.ts';
import type { SystemFileSetView } from '../../../src/wire/system-files.ts';
import type { TunnelView } from '../../../src/wire/tunnel.ts';
import { volumeMountViewSchema } from '../../../src/wire/volume-mounts.ts';
import { jsonOr } from './json.ts';
import { isPlainName } from './names.ts';
import { isOfMachine } from './registry-number.ts';
import { readMicroservices, type SentMicroservices } from './sent-microservices.ts';
import { readFileSets, type SentFileSet } from './system-files.ts';
import type { SentVolumeMount } from './volume-mounts.ts';

/** A response of the controller as it is saved. */
export interface SavedResponse {
  digests: Digests;
  /** the body as it was received */
  body: string;
}

/** What the controller last sent, by response. Undefined: that is not known, and the absence of an item means nothing. */
export interface Sent extends Record<SavedName, unknown> {
  config: AgentConfig;
  microservices: SentMicroservices | undefined;
  /** by id */
  registries: ReadonlyMap<number, RegistryView>;
  volumeMounts: readonly SentVolumeMount[] | undefined;
  runtimeClasses: readonly RuntimeClassView[];
  systemFiles: readonly SentFileSet[] | undefined;
  models: readonly ArtifactView[] | undefined;
  knowledge: readonly ArtifactView[] | undefined;
  tunnel: SentTunnel | undefined;
}

/** The tunnel of this machine, or why the tunnel that was sent cannot be read. */
export type SentTunnel = TunnelView | { problem: string };

/** What a response means to this agent. */
interface Handler<Value> {
  /** Reads its JSON; undefined for another form, which never replaces a value. */
  read(document: unknown): Value | undefined;
  /** the value while there is none */
  absent: Value;
  /** what takes its place when the membership ends; `empty`: an empty list, so that what came by it is removed from the machine */
  atEnd: 'empty' | 'nothing';
}

/** What a controller sends has no number of the machine's own registries. */
const isOfController = ({ id }: Pick<RegistryView, 'id'>): boolean => !isOfMachine(id);
const hasItsRegistry = ({ registryId }: Pick<ArtifactView, 'registryId'>): boolean => !isOfMachine(registryId);

/** A row for each response that the agent saves. */
const HANDLERS: { [Name in SavedName]: Handler<Sent[Name]> } = {
  config: { read: readSettings, absent: {}, atEnd: 'nothing' },
  microservices: {
    read: (document) => {
      const list = listOf(document, 'microservices');
      return list && readMicroservices(list, (document as { retainUnlisted?: unknown }).retainUnlisted);
    },
    absent: undefined,
    atEnd: 'empty',
  },
  registries: {
    read: (document) => {
      const { data } = RESPONSES.registries.schema.safeParse(document);
      return data && new Map(data.registries.filter(isOfController).map((registry) => [registry.id, registry]));
    },
    absent: new Map(),
    atEnd: 'nothing',
  },
  volumeMounts: {
    read: (document) => listOf(document, 'volumeMounts')?.flatMap(readVolumeMount),
    absent: undefined,
    atEnd: 'empty',
  },
  systemFiles: {
    read: (document) => {
      const list = listOf(document, 'systemFiles');
      return list && readFileSets(list);
    },
    absent: undefined,
    atEnd: 'empty',
  },
  models: {
    read: (document) => RESPONSES.models.schema.safeParse(document).data?.models.filter(hasItsRegistry),
    absent: undefined,
    atEnd: 'empty',
  },
  runtimeClasses: {
    read: (document) => RESPONSES.runtimeClasses.schema.safeParse(document).data?.runtimeClasses,
    absent: [],
    atEnd: 'nothing',
  },
  tunnel: { read: readTunnel, absent: undefined, atEnd: 'nothing' },
  knowledge: {
    read: (document) => RESPONSES.knowledge.schema.safeParse(document).data?.knowledge.filter(hasItsRegistry),
    absent: undefined,
    atEnd: 'empty',
  },
};
const NAMES = Object.keys(HANDLERS) as SavedName[];

/** What the controller sent before anything is known of it. */
export const NOTHING_SENT = Object.fromEntries(NAMES.map((name) => [name, HANDLERS[name].absent])) as unknown as Sent;

/** Reads responses. `unreadable` names those that have another form; the value of such a response is absent. */
export function readResponses(responses: ReadonlyMap<SavedName, SavedResponse>): {
  sent: Partial<Sent>;
  unreadable: SavedName[];
} {
  const read = NAMES.flatMap((name) => {
    const response = responses.get(name);
    return response ? [[name, readResponse(name, response)] as const] : [];
  });
  return {
    sent: Object.fromEntries(read.filter(([, value]) => value !== undefined)),
    unreadable: read.filter(([, value]) => value === undefined).map(([name]) => name),
  };
}

function readResponse<Name extends SavedName>(name: Name, { body }: SavedResponse): Sent[Name] | undefined {
  const { read, absent } = HANDLERS[name];
  if (body === '') return RESPONSES[name].missing === 'empty' ? absent : undefined;
  return read(jsonOr(body, undefined));
}

/**
 * The responses that take the place of all when the membership ends. Where the microservices stay as the machine's own, a list that
 * was not known stays unknown: what it may have named is then not removed.
 */
export function responsesAtEnd(isListKnown: boolean): Map<SavedName, SavedResponse> {
  const empty = NAMES.filter((name) => HANDLERS[name].atEnd === 'empty' && (name !== 'microservices' || isListKnown));
  return new Map(empty.map((name) => [name, { digests: {}, body: JSON.stringify({ [name]: [] }) }]));
}

/** A request for what differs from the saved response. */
export interface ShortRequest {
  query: string;
  /** the body of the whole response; empty, which is not readable, where it names what was not saved */
  whole(body: string): string;
}

/** How a response is asked for when some of it is saved; undefined: as a whole. */
export function shortRequest(
  name: SavedName,
  { systemFiles = [] }: Pick<Sent, 'systemFiles'>,
): ShortRequest | undefined {
  if (name !== 'systemFiles') return undefined;
  const had = systemFiles.filter((set): set is SystemFileSetView => !('problem' in set));
  const known = knownFolders(had);
  if (known === '') return undefined;
  return {
    query: `?known=${known}`,
    whole(body) {
      const list = listOf(jsonOr(body, undefined), name);
      const whole = list?.map((set) => (isKept(set) ? withKnown(set, had) : set));
      return whole?.every((set) => set !== undefined) ? JSON.stringify({ [name]: whole }) : '';
    },
  };
}

/** Whether a listed set is without some of its files. */
const isKept = (set: unknown): set is ListedFileSet => Array.isArray((set as Partial<ListedFileSet> | null)?.kept);

/** The views in saved responses, by microservice. */
export function views(responses: ReadonlyMap<SavedName, SavedResponse>): ReadonlyMap<string, MicroserviceView> {
  return readResponses(responses).sent.microservices?.views ?? new Map();
}

/** The settings that the controller wants; each that cannot be read is left out. */
function readSettings(document: unknown): AgentConfig | undefined {
  if (document === null || typeof document !== 'object' || Array.isArray(document)) return undefined;
  const wanted: Record<string, unknown> = {};
  for (const [key, schema] of Object.entries(agentConfigSchema.shape)) {
    const result = schema.safeParse((document as Record<string, unknown>)[key]);
    if (result.success && result.data !== undefined) wanted[key] = result.data;
  }
  return wanted as AgentConfig;
}

/** A tunnel that cannot be read keeps nothing else from being saved. */
function readTunnel(document: unknown): SentTunnel | undefined {
  if (document === null || typeof document !== 'object') return undefined;
  const { data, error } = RESPONSES.tunnel.schema.safeParse(document);
  if (data) return data.tunnel;
  const [wrong] = error.issues;
  return { problem: `the controller's tunnel cannot be read: ${wrong?.path.join('.')}: ${wrong?.message}` };
}

/** A volume mount that cannot be read is no absent one: what there is of it stays. */
function readVolumeMount(item: unknown): SentVolumeMount[] {
  const { uuid, name } = (item ?? {}) as { uuid?: unknown; name?: unknown };
  // It becomes a part of paths.
  if (typeof uuid !== 'string' || !isPlainName(uuid)) return [];
  const mount = volumeMountViewSchema.safeParse(item);
  if (mount.success) return [mount.data];
  const wrong = mount.error.issues[0];
  const problem = `the controller's volume mount cannot be read: ${wrong?.path[0]?.toString()}: ${wrong?.message}`;
  return [{ uuid, name: typeof name === 'string' ? name.slice(0, 255) : uuid, problem }];
}

function listOf(document: unknown, member: string): unknown[] | undefined {
  const list = (document as Record<string, unknown> | null | undefined)?.[member];
  return Array.isArray(list) ? list : undefined;
}
