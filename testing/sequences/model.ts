/**
 * The rules of docs/spec as far as sequences of operations need them: what exists, what uses what, what is refused. Pure,
 * and without code of the product. The rules of a kind are one row of a table.
 */
import type { CORE_KINDS } from '../../src/subjects/content/kinds/core-objects.ts';
import type { KindKey } from '../../src/subjects/kinds.ts';

/** Settings of a node; absent is as if nobody had said anything. */
export interface NodeSettings {
  routerMode?: 'interior' | 'edge' | 'none';
  busMode?: 'leaf' | 'server' | 'none';
  host?: string;
  networkRouter?: string;
}

/**
 * Kinds whose objects the controller makes of others, or of which there is one: accounts and users of the message bus follow from
 * applications, and src/subjects/bus-accounts tests them.
 */
type MadeKind =
  | 'busOperators'
  | 'busAccounts'
  | 'busUsers'
  | 'busHubs'
  | 'routerHubs'
  | 'authUsers'
  | 'authGroups'
  | 'authPolicies';

/** A kind without a row in a table of the sequences does not compile. */
export type Kind = Exclude<KindKey, MadeKind> | keyof typeof CORE_KINDS;

/** A number is an id, a text a name. */
export interface Ref {
  to: Kind;
  ref: number | string;
}

/** Why something is refused over REST, and what `Ready` says of what was stored all the same. */
export interface Refusal {
  status: number;
  code: string;
  reason?: string;
}

/** The content of an object; each kind has some of the members. */
export interface Draft {
  text: string;
  isHub: boolean;
  files: boolean;
  image: string;
  registry: Ref;
  source: Ref;
  data: Readonly<Record<string, string>>;
  role: string;
  isActivated: boolean;
}

export interface Entry {
  name: string;
  node: { uuid: string } | { name: string };
  image?: string;
  catalog?: Ref;
  registry?: Ref;
  runtime?: string;
  models: readonly string[];
  knowledge: readonly string[];
  mount?: { name: string; key?: string };
  env?: { source: Ref; key: string };
  role?: string;
  port?: number;
  isActivated: boolean;
  rebuilds: number;
}

export interface Item {
  kind: Kind;
  /** v3 name; of a service account with its application */
  name: string;
  /** of the Kubernetes object */
  object: string;
  /** the place in the pool of names, for kinds whose objects REST creates without a name */
  slot: string;
  /** order of creation */
  born: number;
  isBuiltIn?: true;
  /** assigned by the controller; learned once and never changed */
  id?: number;
  uuid?: string;
  draft: Draft;
  /** linked nodes, by uuid or name */
  nodes: readonly string[];
  /** of an application */
  entries: readonly Entry[];
  /** of an application: rebuilds of removed entries by name, since a name can return */
  rebuilds: Record<string, number>;
  /** of a node */
  settings?: NodeSettings;
  /** of a volume mount */
  version: number;
  content?: string;
}

export interface State {
  items: Item[];
}

export interface Rules {
  noun: string;
  notFound: string;
  created: number;
  changed: number;
  deleted: number;
  inUse?: Omit<Refusal, 'reason'>;
  /** kinds that are linked to nodes: the code of the refusal to unlink */
  unlink?: string;
  refs?: (item: Item) => readonly Ref[];
  /** why it cannot be used */
  wrong?: (item: Item, state: State) => readonly Refusal[];
}

/** A REST call names an object that does not exist. */
export const isMissing = (kind: Kind): Refusal => ({ status: 404, code: RULES[kind].notFound });
export const IS_TAKEN: Refusal = { status: 409, code: 'DUPLICATE_NAME' };

const missing = (status: number, code: string, reason: string): Refusal => ({ status, code, reason });
const REGISTRY_MISSING = missing(404, 'REGISTRY_NOT_FOUND', 'RegistryNotFound');
const REGISTRY_TYPE = missing(400, 'INVALID_REGISTRY_TYPE', 'RegistryWrongType');
const SOURCE_MISSING = {
  secrets: missing(404, 'SECRET_NOT_FOUND', 'SecretNotFound'),
  configMaps: missing(404, 'CONFIGMAP_NOT_FOUND', 'ConfigMapNotFound'),
} as const;

/** The authority of certificates that have one. */
const AUTHORITY: Ref = { to: 'certificateAuthorities', ref: 'site-ca' };

const sourceMissing = ({ to }: Ref) => SOURCE_MISSING[to as 'secrets' | 'configMaps'];
const ofRegistry = ({ draft: { registry } }: Item): readonly Ref[] => [registry];

const artifact = (noun: string, code: string, hubNeedsFiles: boolean): Rules => ({
  noun,
  notFound: `${code}_NOT_FOUND`,
  created: 200,
  changed: 200,
  deleted: 202,
  inUse: { status: 409, code: `${code}_IN_USE` },
  unlink: `${code}_UNLINK_IN_USE`,
  refs: ofRegistry,
  wrong({ draft: { registry, files } }, state) {
    const found = find(state, registry);
    if (!found) return [REGISTRY_MISSING];
    if (found.draft.isHub && hubNeedsFiles && !files)
      return [missing(400, `${code}_HF_FILES_REQUIRED`, 'FilesRequired')];
    return !found.draft.isHub && files ? [missing(400, `${code}_OCI_FILES_FORBIDDEN`, 'FilesForbidden')] : [];
  },
});

export const RULES: Readonly<Record<Kind, Rules>> = {
  nodes: { noun: 'node', notFound: 'INVALID_NODE_UUID', created: 201, changed: 204, deleted: 202 },
  registries: {
    noun: 'registry',
    notFound: 'REGISTRY_NOT_FOUND',
    created: 201,
    changed: 204,
    deleted: 204,
    inUse: { status: 400, code: 'REGISTRY_IS_IN_USE' },
  },
  runtimeClasses: {
    noun: 'runtime class',
    notFound: 'RUNTIME_CLASS_NOT_FOUND',
    created: 200,
    changed: 200,
    deleted: 202,
    inUse: { status: 409, code: 'RUNTIME_CLASS_IN_USE' },
    unlink: 'RUNTIME_CLASS_UNLINK_IN_USE',
  },
  catalogItems: {
    noun: 'catalog item',
    notFound: 'INVALID_CATALOG_ITEM_ID',
    created: 201,
    changed: 204,
    deleted: 204,
    inUse: { status: 400, code: 'CATALOG_ITEM_IS_IN_USE' },
    refs: ofRegistry,
    wrong({ draft: { registry } }, state) {
      const found = find(state, registry);
      if (!found) return [REGISTRY_MISSING];
      return found.draft.isHub ? [REGISTRY_TYPE] : [];
    },
  },
  models: artifact('model', 'MODEL', true),
  knowledge: artifact('knowledge', 'KNOWLEDGE', false),
  volumeMounts: {
    noun: 'volume mount',
    notFound: 'VOLUME_MOUNT_NOT_FOUND',
    created: 200,
    changed: 200,
    deleted: 202,
    inUse: { status: 409, code: 'VOLUME_MOUNT_IN_USE' },
    unlink: 'VOLUME_MOUNT_UNLINK_IN_USE',
    refs: ({ draft: { source } }) => [source],
    wrong: ({ draft: { source } }, state) => (find(state, source) ? [] : [sourceMissing(source)]),
  },
  secrets: {
    noun: 'secret',
    notFound: 'SECRET_NOT_FOUND',
    created: 201,
    changed: 200,
    deleted: 200,
    inUse: { status: 409, code: 'SECRET_IN_USE' },
  },
  configMaps: {
    noun: 'config map',
    notFound: 'CONFIGMAP_NOT_FOUND',
    created: 201,
    changed: 200,
    deleted: 200,
    inUse: { status: 409, code: 'CONFIGMAP_IN_USE' },
  },
  certificateAuthorities: {
    noun: 'certificate authority',
    notFound: 'CA_NOT_FOUND',
    created: 201,
    changed: 200,
    deleted: 200,
    inUse: { status: 400, code: 'CA_IN_USE' },
  },
  certificates: {
    noun: 'certificate',
    notFound: 'CERTIFICATE_NOT_FOUND',
    created: 201,
    changed: 200,
    deleted: 200,
    inUse: { status: 409, code: 'CERTIFICATE_IN_USE' },
    refs: ({ draft }) => (draft.isHub ? [AUTHORITY] : []),
    wrong: ({ draft }, state) =>
      draft.isHub && !find(state, AUTHORITY) ? [missing(404, 'CA_NOT_FOUND', 'AuthorityNotFound')] : [],
  },
  busAccountRules: {
    noun: 'bus account rule',
    notFound: 'BUS_ACCOUNT_RULE_NOT_FOUND',
    created: 201,
    changed: 200,
    deleted: 204,
  },
  busUserRules: {
    noun: 'bus user rule',
    notFound: 'BUS_USER_RULE_NOT_FOUND',
    created: 201,
    changed: 200,
    deleted: 204,
  },
  services: {
    noun: 'service',
    notFound: 'SERVICE_NOT_FOUND',
    created: 201,
    changed: 200,
    deleted: 204,
  },
  serviceAccounts: {
    noun: 'service account',
    notFound: 'SERVICE_ACCOUNT_NOT_FOUND',
    created: 201,
    changed: 200,
    deleted: 204,
    inUse: { status: 409, code: 'SERVICE_ACCOUNT_IN_USE' },
    wrong({ name, draft: { role } }, state) {
      const [application = ''] = name.split('/');
      if (!find(state, { to: 'applications', ref: application }))
        return [missing(404, 'INVALID_APPLICATION_NAME', 'ApplicationNotFound')];
      return role === 'nothing' ? [missing(400, 'ROLE_NOT_FOUND', 'RoleNotFound')] : [];
    },
  },
  applicationTemplates: {
    noun: 'application template',
    notFound: 'INVALID_APPLICATION_TEMPLATE_NAME',
    created: 201,
    changed: 204,
    deleted: 204,
  },
  microserviceTemplates: {
    noun: 'microservice template',
    notFound: 'MICROSERVICE_TEMPLATE_NOT_FOUND',
    created: 200,
    changed: 200,
    deleted: 202,
  },
  applications: {
    noun: 'application',
    notFound: 'INVALID_APPLICATION_NAME',
    created: 201,
    changed: 204,
    deleted: 204,
  },
};

/** Why the content of an object is refused. */
export const wrongByRules = (item: Item, state: State): readonly Refusal[] =>
  RULES[item.kind].wrong?.(item, state) ?? [];

/** The draft of an application, whose content is its entries. */
export const WITHOUT_CONTENT = { text: '', isActivated: true } as unknown as Draft;

export const of = ({ items }: State, kind: Kind): Item[] => items.filter((one) => one.kind === kind);

/** Of several objects with one name the oldest. */
export function find(state: State, { to, ref }: Ref): Item | undefined {
  const named = of(state, to).filter(({ id, name }) => (typeof ref === 'number' ? id === ref : name === ref));
  return named.sort((a, b) => a.born - b.born)[0];
}

/** An object whose name an older one has. */
export const isShadowed = (state: State, item: Item): boolean =>
  find(state, { to: item.kind, ref: item.name }) !== item;

/** Why an object cannot be used. */
export function wrongWithItem(state: State, item: Item): readonly Refusal[] {
  if (isShadowed(state, item)) return [missing(409, 'DUPLICATE_NAME', 'NameTaken')];
  return wrongByRules(item, state);
}

/** What is wrong with the links of an object, which REST says where a link is made. No node has reported a runtime. */
export const wrongLinks = (state: State, { kind, nodes }: Item): readonly Refusal[] =>
  nodes.flatMap((one) => {
    if (!nodeNamed(state, one)) return [missing(404, 'NOT_FOUND_AGENT_NAME', 'NodeNotFound')];
    return kind === 'runtimeClasses' ? [missing(400, 'RUNTIME_CLASS_LINK_NOT_AVAILABLE', 'RuntimeNotAvailable')] : [];
  });

export const nodeOf = (state: State, named: Entry['node']): Item | undefined =>
  'uuid' in named
    ? of(state, 'nodes').find(({ uuid }) => uuid === named.uuid)
    : find(state, { to: 'nodes', ref: named.name });

/** The node that a link or a body names: by its uuid, else by its name. */
export const nodeNamed = (state: State, text: string): Item | undefined =>
  nodeOf(state, { uuid: text }) ?? nodeOf(state, { name: text });

/** What an entry refers to. */
export function refsOf(application: Item, entry: Entry): readonly Ref[] {
  const { catalog, registry, runtime, models, knowledge, mount, env, name } = entry;
  return [
    catalog ?? registry ?? { to: 'registries', ref: 1 },
    ...(runtime ? [{ to: 'runtimeClasses', ref: runtime } as const] : []),
    ...models.map((ref) => ({ to: 'models', ref }) as const),
    ...knowledge.map((ref) => ({ to: 'knowledge', ref }) as const),
    ...(mount ? [{ to: 'volumeMounts', ref: mount.name } as const] : []),
    ...(env ? [env.source] : []),
    { to: 'serviceAccounts', ref: `${application.name}/${name}` },
  ];
}

/** Names of what uses an object, sorted; `node`: only entries on it. */
export function usersOf(state: State, item: Item, node?: Item): string[] {
  const means = ({ to, ref }: Ref) => to === item.kind && find(state, { to, ref }) === item;
  const users = of(state, 'applications').flatMap((application) =>
    application.entries
      .filter((entry) => !node || nodeOf(state, entry.node) === node)
      .filter((entry) => refsOf(application, entry).some(means))
      .map(({ name }) => `${application.name}/${name}`),
  );
  // A mount goes with its source, unless something uses the mount.
  if (node) return users.sort();
  for (const other of state.items) {
    if (!RULES[other.kind].refs?.(other).some(means)) continue;
    users.push(
      ...(other.kind === 'volumeMounts' ? usersOf(state, other) : [`${RULES[other.kind].noun} ${other.name}`]),
    );
  }
  return [...new Set(users)].sort();
}

/** The image of an entry and its registry. */
export function imageOf(state: State, { image = '', registry, catalog }: Entry) {
  const item = catalog && find(state, catalog);
  return {
    image: item ? item.draft.image : image,
    registry: find(state, item ? item.draft.registry : (registry ?? { to: 'registries', ref: 1 })),
  };
}

/** Entries that hold or want the port of an entry, the one that gets it first. */
function claimsOf(state: State, { port, node }: Entry) {
  const at = nodeOf(state, node);
  return of(state, 'applications')
    .sort((a, b) => a.born - b.born)
    .flatMap((application) =>
      [...application.entries]
        .sort((a, b) => (a.name < b.name ? -1 : 1))
        .filter((entry) => entry.port === port && nodeOf(state, entry.node) === at && runs(application, entry))
        .map((entry) => ({ application, entry })),
    );
}

export const runs = ({ draft }: Item, { isActivated }: Entry): boolean => draft.isActivated && isActivated;

/**
 * Why an entry may not run as asked. A write is refused for a port that another one wants; of entries that exist already, the
 * first one gets it.
 */
export function wrongWith(state: State, application: Item, entry: Entry, { writing = false } = {}): Refusal[] {
  const found: Refusal[] = [];
  const need = (is: unknown, status: number, code: string, reason: string) => {
    if (!is) found.push({ status, code, reason });
  };
  const { node, catalog, runtime, role, mount, env, port } = entry;
  if (!writing) need(!isShadowed(state, application), 409, 'DUPLICATE_NAME', 'NameTaken');
  const byUuid = 'uuid' in node;
  need(nodeOf(state, node), 404, byUuid ? 'INVALID_NODE_UUID' : 'NOT_FOUND_AGENT_NAME', 'NodeNotFound');
  if (catalog && !find(state, catalog)) need(false, 404, 'INVALID_CATALOG_ITEM_ID', 'CatalogItemNotFound');
  else {
    const { registry } = imageOf(state, entry);
    if (!registry) found.push(REGISTRY_MISSING);
    else if (registry.draft.isHub) found.push(REGISTRY_TYPE);
  }
  if (runtime)
    need(find(state, { to: 'runtimeClasses', ref: runtime }), 400, 'RUNTIME_CLASS_MISSING', 'RuntimeClassNotFound');
  if (role === 'nothing') need(false, 400, 'ROLE_NOT_FOUND', 'RoleNotFound');
  if (mount) found.push(...wrongWithMount(state, mount));
  if (env) {
    const source = find(state, env.source);
    const code = env.source.to === 'secrets' ? 'SECRET_KEY_NOT_FOUND' : 'CONFIGMAP_KEY_NOT_FOUND';
    if (!source) found.push(sourceMissing(env.source));
    else
      need(
        env.key in source.draft.data,
        400,
        code,
        env.source.to === 'secrets' ? 'SecretKeyNotFound' : 'ConfigMapKeyNotFound',
      );
  }
  for (const kind of ['models', 'knowledge'] as const)
    for (const ref of entry[kind]) {
      const [code, word] = kind === 'models' ? ['MODEL', 'Model'] : ['KNOWLEDGE', 'Knowledge'];
      const bound = find(state, { to: kind, ref });
      if (!bound) need(false, 404, `${code}_NOT_FOUND`, `${word}NotFound`);
      else need(!RULES[kind].wrong?.(bound, state).length, 400, `${code}_NOT_READY`, `${word}NotReady`);
    }
  if (port !== undefined) {
    const claims = claimsOf(state, entry);
    const others = claims.filter((claim) => claim.application !== application || claim.entry.name !== entry.name);
    need(writing ? others.length === 0 : !claims[0] || others[0] !== claims[0], 400, 'PORT_NOT_AVAILABLE', 'PortTaken');
  }
  return found;
}

function wrongWithMount(state: State, { name, key }: NonNullable<Entry['mount']>): readonly Refusal[] {
  const mount = find(state, { to: 'volumeMounts', ref: name });
  if (!mount) return [missing(404, 'VOLUME_MOUNT_NOT_FOUND', 'VolumeMountNotFound')];
  const { source } = mount.draft;
  const found = find(state, source);
  if (!found) return [sourceMissing(source)];
  const code =
    source.to === 'secrets' ? 'SECRET_KEY_NOT_FOUND_IN_VOLUME_MOUNT' : 'CONFIGMAP_KEY_NOT_FOUND_IN_VOLUME_MOUNT';
  return key === undefined || key in found.draft.data ? [] : [missing(400, code, 'VolumeMountKeyNotFound')];
}

/** Volume mounts count the changes of their source and of its content, once for each. */
export function countVersions(state: State): void {
  for (const mount of of(state, 'volumeMounts')) {
    const { source } = mount.draft;
    const found = find(state, source);
    if (!found) continue;
    const content = JSON.stringify([source, found.draft.data]);
    if (mount.content !== undefined && mount.content !== content) mount.version++;
    mount.content = content;
  }
}

/** What a node is to have. */
export function desiredOf(state: State, node: Item) {
  const placed = of(state, 'applications').flatMap((application) =>
    application.entries
      .filter((entry) => nodeOf(state, entry.node) === node)
      .map((entry) => ({ application, entry, wrong: wrongWith(state, application, entry) })),
  );
  const linked = (kind: Kind) =>
    of(state, kind).filter(({ nodes }) => nodes.some((one) => nodeNamed(state, one) === node));
  const named = (kind: Kind, names: readonly string[]) => names.flatMap((ref) => find(state, { to: kind, ref }) ?? []);
  const have = (kind: Kind, names: readonly string[]) => [...new Set([...linked(kind), ...named(kind, names)])];
  const usable = (kind: Kind, all: readonly Item[]) => all.filter((one) => !RULES[kind].wrong?.(one, state).length);
  const running = placed.filter(({ application, entry }) => runs(application, entry));
  const models = usable(
    'models',
    have(
      'models',
      placed.flatMap(({ entry }) => entry.models),
    ),
  );
  const knowledge = usable(
    'knowledge',
    have(
      'knowledge',
      placed.flatMap(({ entry }) => entry.knowledge),
    ),
  );
  return {
    running,
    models,
    knowledge,
    volumeMounts: have(
      'volumeMounts',
      placed.flatMap(({ entry: { mount } }) => (mount ? [mount.name] : [])),
    ),
    runtimeClasses: have(
      'runtimeClasses',
      running.flatMap(({ entry: { runtime } }) => runtime ?? []),
    ),
  };
}

/** What a container is made from: as long as it stays, the revision stays, and no other form has that revision. */
export function containerForm(state: State, entry: Entry): string {
  const { models, knowledge, mount, env, runtime, port } = entry;
  const { image, registry } = imageOf(state, entry);
  const mounted = mount && find(state, { to: 'volumeMounts', ref: mount.name });
  const content = mounted && find(state, mounted.draft.source);
  return JSON.stringify([
    image,
    registry?.id,
    models.length > 0,
    knowledge.length > 0,
    mount,
    mount?.key && content?.draft.data[mount.key],
    env && [env.source.to, find(state, env.source)?.draft.data[env.key]],
    runtime && find(state, { to: 'runtimeClasses', ref: runtime })?.draft.text,
    port,
  ]);
}
