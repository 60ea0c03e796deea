/**
 * The desired state of a node has sections; each is a change flag of `GET /agent/changes` and has one digest.
 * A flag is true while the digest that the agent has saved differs from the one the controller computes.
 */
export const SECTIONS = [
  'config',
  'version',
  'reboot',
  'deleteNode',
  'microserviceList',
  'microserviceConfig',
  'registries',
  'tunnel',
  'prune',
  'routerChanged',
  'volumeMounts',
  'execSessions',
  'microserviceLogs',
  'fogLogs',
  'models',
  'runtimeClasses',
  'microserviceModels',
  'knowledge',
  'microserviceKnowledge',
] as const;
export type Section = (typeof SECTIONS)[number];

/** Section digests; an absent or empty digest means "nothing". */
export type Digests = Partial<Record<Section, string>>;

/** The four sections in the response of one `GET /agent/microservices`. */
export const MICROSERVICE_SECTIONS = [
  'microserviceList',
  'microserviceConfig',
  'microserviceModels',
  'microserviceKnowledge',
] as const satisfies readonly Section[];

const known: ReadonlySet<string> = new Set(SECTIONS);
const DIGEST = /^[0-9a-f]{1,64}$/;

/** `config:ab12,registries:cd34`: the form of the query parameter `have` and, in quotes, of an ETag. */
export function formatHave(digests: Digests): string {
  return SECTIONS.filter((section) => digests[section])
    .map((section) => `${section}:${digests[section]}`)
    .join(',');
}

/** Reads what formatHave writes; unknown sections and malformed digests are left out. Quotes and `W/` are accepted. */
export function parseHave(text: string | undefined): Digests {
  const digests: Digests = {};
  for (const part of (text ?? '')
    .replace(/^(W\/)?"|"$/g, '')
    .slice(0, 4096)
    .split(',')) {
    const [section = '', digest = ''] = part.split(':');
    if (known.has(section) && DIGEST.test(digest)) digests[section as Section] = digest;
  }
  return digests;
}

/** The flags of `GET /agent/changes`: true when the digest that is due differs from the one that the agent has. */
export function flagsOf(due: Digests, have: Digests): Record<Section, boolean> {
  const flags = {} as Record<Section, boolean>;
  for (const section of SECTIONS) flags[section] = (due[section] ?? '') !== (have[section] ?? '');
  return flags;
}
