import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';
import {
  agentConfigSchema,
  microservicesReplySchema,
  registryViewSchema,
  runtimeClassViewSchema,
  versionReplySchema,
} from './agent.ts';
import { artifactViewSchema } from './artifacts.ts';
import { readableItems } from './readable-items.ts';
import { execSessionsSchema, logSessionsSchema } from './sessions.ts';
import { systemFileSetSchema } from './system-files.ts';
import { tunnelReplySchema } from './tunnel.ts';
import { volumeMountViewSchema } from './volume-mounts.ts';

interface SectionRow {
  /**
   * What our agent does with it:
   * - save: the agent saves the response, with the digests of all sections in it, before it acts on it
   * - act: the agent carries out one action for each digest, and echoes the count
   * - sessions: the agent opens the sessions that the response lists, and ends the others
   * - trust: the agent fetches `GET /agent/cert`, and from then on trusts these authorities for the controller
   * - leave: the agent confirms its deletion, and ends its membership
   * - nothing: the flag exists in v3 only
   */
  does: 'save' | 'act' | 'sessions' | 'trust' | 'leave' | 'nothing';
  /** the response that carries it, by the path of its route: `GET /agent/<response>`; absent: the digest says everything */
  response?: string;
  /** of that response */
  schema?: z.ZodObject;
  /**
   * What the 404 of an older controller, or of one replica of it, means. Absent: it has the route.
   * - empty: a response without content
   * - unknown: nothing is known of it, and what the agent has stays
   */
  missing?: 'empty' | 'unknown';
  /**
   * Agents of former releases do not know the section, and would be answered at once with each long poll because of it. So an
   * agent that does not name it in `have` counts as having its last digest. Third-party agents never name it.
   */
  isNamed?: true;
}

/** A saved response with one list, which has the name of the response; `most` items of it count. */
function list<Name extends string, Item>(name: Name, item: z.ZodType<Item>, most?: number) {
  const items = z.array(z.unknown()).transform(readableItems(item, most));
  return { does: 'save', response: name, schema: z.object({ [name]: items } as Record<Name, typeof items>) } as const;
}

const MICROSERVICES = { does: 'save', response: 'microservices', schema: microservicesReplySchema } as const;
const LOG_SESSIONS = { does: 'sessions', response: 'logs/sessions', schema: logSessionsSchema } as const;

/**
 * The desired state of a node has sections; each is a change flag of `GET /agent/changes` and has one digest.
 * A flag is true while the digest that the agent has saved differs from the one the controller computes.
 *
 * A new section is a row here; where the agent saves it, a row of HANDLERS in agent/src/domain/desired.ts; and on the
 * controller its digest in src/desired/rules/desired.ts and the row of its response in src/agents/routes/table.ts. Digests are
 * listed in the order of the rows.
 */
const SECTION_TABLE = {
  config: { does: 'save', response: 'config', schema: agentConfigSchema, missing: 'empty' },
  version: { does: 'act', response: 'version', schema: versionReplySchema },
  reboot: { does: 'act' },
  deleteNode: { does: 'leave' },
  microserviceList: MICROSERVICES,
  microserviceConfig: MICROSERVICES,
  registries: list('registries', registryViewSchema),
  tunnel: { does: 'save', response: 'tunnel', schema: tunnelReplySchema, missing: 'empty' },
  prune: { does: 'act' },
  routerChanged: { does: 'nothing' },
  volumeMounts: list('volumeMounts', volumeMountViewSchema),
  execSessions: { does: 'sessions', response: 'exec/sessions', schema: execSessionsSchema },
  microserviceLogs: LOG_SESSIONS,
  fogLogs: LOG_SESSIONS,
  models: list('models', artifactViewSchema, BOUNDS.artifacts),
  runtimeClasses: { ...list('runtimeClasses', runtimeClassViewSchema), missing: 'empty' },
  microserviceModels: MICROSERVICES,
  knowledge: list('knowledge', artifactViewSchema, BOUNDS.artifacts),
  microserviceKnowledge: MICROSERVICES,
  systemFiles: {
    ...list('systemFiles', systemFileSetSchema, BOUNDS.systemFileSets),
    ...{ missing: 'unknown', isNamed: true },
  },
  authorities: { does: 'trust', isNamed: true },
} as const satisfies Record<string, SectionRow>;

type Table = typeof SECTION_TABLE;
export type Section = keyof Table;
export const SECTIONS = Object.keys(SECTION_TABLE) as readonly Section[];

/** Section digests; an absent or empty digest means "nothing". */
export type Digests = Partial<Record<Section, string>>;

/** The sections that are due only for an agent that names them in `have`. */
export const NAMED_SECTIONS = SECTIONS.filter((section) => (SECTION_TABLE[section] as SectionRow).isNamed);
/** The digest by which an agent names a section of which it has nothing. */
export const NO_DIGEST = '0';
/** What `have` begins with: the names of the sections that agents of former releases do not know. */
export const NAMES: Digests = Object.fromEntries(NAMED_SECTIONS.map((section) => [section, NO_DIGEST]));

/** The sections with which our agent does the same. */
export type SectionThat<Does extends SectionRow['does']> = {
  [Name in Section]: Table[Name] extends { does: Does } ? Name : never;
}[Section];

export function does<Does extends SectionRow['does']>(section: Section, what: Does): section is SectionThat<Does> {
  return SECTION_TABLE[section].does === what;
}

type RowOf<Name> = Extract<Table[Section], { response: Name }>;
/** The responses that carry sections. */
export type ResponseName = Extract<Table[Section], { response: string }>['response'];
/** The responses that our agent saves. */
export type SavedName = Table[SectionThat<'save'>]['response'];

/** The response that carries a section. */
export const responseOf = <Name extends SectionThat<'save' | 'sessions'>>(section: Name): Table[Name]['response'] =>
  SECTION_TABLE[section].response;

/** The responses with their sections, whose digests are the ETag. */
export const RESPONSES = Object.fromEntries(
  Object.values<SectionRow>(SECTION_TABLE).flatMap(({ response, schema, missing }) => {
    const sections = SECTIONS.filter((name) => (SECTION_TABLE[name] as SectionRow).response === response);
    return response === undefined ? [] : [[response, { path: `/agent/${response}`, schema, sections, missing }]];
  }),
) as unknown as {
  readonly [Name in ResponseName]: Readonly<{
    path: string;
    schema: RowOf<Name>['schema'];
    sections: readonly Section[];
    missing: SectionRow['missing'];
  }>;
};

/** The sections in the response of one `GET /agent/microservices`. */
export const MICROSERVICE_SECTIONS = RESPONSES.microservices.sections;

/** Response of `GET /agent/changes`: one boolean per section. Missing members mean false. */
export const changesReplySchema = z.object({
  ...(Object.fromEntries(SECTIONS.map((section) => [section, z.boolean().optional()])) as Record<
    Section,
    z.ZodOptional<z.ZodBoolean>
  >),
  lastUpdated: z.string(),
  /** ours: the digests that are due, in the form of `have`; for sections that have no GET of their own */
  due: z.string().optional(),
  /** ours: how often each action was requested, for those whose flags are set; the status echoes it once carried out */
  actions: z.partialRecord(z.enum(['reboot', 'prune', 'version', 'reconcile']), z.number().int().min(0)).optional(),
});
export type ChangesReply = z.infer<typeof changesReplySchema>;

const known: ReadonlySet<string> = new Set(SECTIONS);
const DIGEST = /^[0-9a-f]{1,64}$/;

/** `config:ab12,registries:cd34`: the form of the query parameter `have` and, in quotes, of an ETag. */
export function formatHave(digests: Digests): string {
  return SECTIONS.filter((section) => digests[section])
    .map((section) => `${section}:${digests[section]}`)
    .join(',');
}

/**
 * Reads what formatHave writes; unknown sections and malformed digests are left out. Quotes and `W/` are accepted. A section
 * that is named, and of which there is nothing, has an empty digest.
 */
export function parseHave(text: string | undefined): Digests {
  const digests: Digests = {};
  for (const part of (text ?? '')
    .replace(/^(W\/)?"|"$/g, '')
    .slice(0, 4096)
    .split(',')) {
    const [section = '', digest = ''] = part.split(':');
    if (!known.has(section) || !DIGEST.test(digest)) continue;
    const isNone = digest === NO_DIGEST && NAMED_SECTIONS.includes(section as Section);
    digests[section as Section] = isNone ? '' : digest;
  }
  return digests;
}

/** The flags of `GET /agent/changes`: true when the digest that is due differs from the one that the agent has. */
export function flagsOf(due: Digests, have: Digests): Record<Section, boolean> {
  const flags = {} as Record<Section, boolean>;
  for (const section of SECTIONS) flags[section] = (due[section] ?? '') !== (have[section] ?? '');
  return flags;
}
