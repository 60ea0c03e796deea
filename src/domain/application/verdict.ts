import { BOUNDS } from '../../api/bounds.ts';
import { ARCHITECTURES, RESERVED_ENV_PREFIX, RESERVED_EXTERNAL_PORTS, RESERVED_LABEL_PREFIX } from '../../api/names.ts';
import type { Application, EdgeNode, MicroserviceEntry } from '../../api/v3/index.ts';
import { archOf } from '../edge-node/settings.ts';
import { findExpression } from '../expressions.ts';
import type { NodeInputs, Verdict, World } from '../inputs.ts';
import { resolveEnv } from '../microservice/env.ts';
import { resolveHost } from '../microservice/extra-hosts.ts';
import { configText } from '../microservice/flat.ts';
import { IMAGE_ARCHITECTURES, imageFor, type NormalEntry, normalEntry } from '../microservice/normal-form.ts';
import { applicationUuid, entryUuid, nameTaken, nodeUuid, registryId, uuidTaken, v3Name } from '../names.ts';
import { normalType, resolveRegistry } from '../registry/index.ts';
import { entriesOn } from './entries.ts';
import { claimsAt, claimsOf, type PortClaim, portClaims, portHeir, portHolder, portKeeper } from './ports.ts';

/** What one policy looks at. */
export interface VerdictInput {
  application: Application;
  entry: NormalEntry;
  uuid: string;
  /** the node that the entry names, once found */
  node?: EdgeNode;
  world: World;
  /** a user is about to write this: every other claim of a port counts, not only the holder's */
  writing?: boolean;
  /** claims of the node's ports; made once for all entries that are judged together */
  claims: (node: EdgeNode) => readonly PortClaim[];
  /** uuids of the microservices that the node has no room for; made once as well */
  crowd: (node: EdgeNode) => ReadonlySet<string>;
  /** whether an entry may not run as asked, whatever ports there are */
  isRefused: (entry: NonNullable<PortClaim['runs']>) => boolean;
}

/** One rule: a verdict, or nothing to say. */
export type Policy = (input: VerdictInput) => Verdict | undefined;

/** Two applications with one name would share the names of their containers: the older keeps it. */
export function nameIsFree({ application, world }: Pick<VerdictInput, 'application' | 'world'>) {
  const name = v3Name(application);
  const owner = world.applicationByName(name);
  return owner && !isSame(owner, application) ? nameTaken('application', name, owner.metadata.name) : undefined;
}

/** Two applications with one uuid would share the uuids of their microservices: the older keeps it. */
export function applicationUuidIsFree({ application, world }: Pick<VerdictInput, 'application' | 'world'>) {
  const uuid = applicationUuid(application);
  const owner = world.applicationByUuid?.(uuid);
  return owner && !isSame(owner, application) ? uuidTaken('application', uuid, owner.metadata.name) : undefined;
}

/** A uuid names one microservice. The older application keeps it, within one application the first name. */
export function uuidIsFree({ application, entry, uuid, world, writing }: VerdictInput): Verdict | undefined {
  const claims = world
    .applicationsWithEntry(uuid)
    .flatMap((other) =>
      (other.spec.microservices ?? [])
        .filter((candidate) => entryUuid(other, candidate) === uuid)
        .map((candidate) => ({ application: other, name: candidate.name })),
    );
  const isOwn = (claim: (typeof claims)[number]) => isSame(claim.application, application) && claim.name === entry.name;
  const winner = writing ? claims.find((claim) => !isOwn(claim)) : claims.sort(byAge)[0];
  if (!winner || isOwn(winner)) return undefined;
  return {
    reason: 'UuidTaken',
    status: 409,
    code: 'DUPLICATE_UUID',
    field: 'uuid',
    message: `the uuid ${uuid} belongs to the microservice ${v3Name(winner.application)}/${winner.name}`,
  };
}

export function nodeIsSet({ entry }: VerdictInput): Verdict | undefined {
  if (entry.agent?.name || entry.agent?.uuid) return undefined;
  return {
    reason: 'NodeNotSet',
    status: 400,
    code: 'NODE_NOT_SET',
    field: 'agent',
    message: 'names no node; give agent.name or agent.uuid',
  };
}

export function nodeIsFound({ entry, node }: VerdictInput): Verdict | undefined {
  if (node) return undefined;
  const { name, uuid } = entry.agent ?? {};
  return uuid === undefined
    ? {
        reason: 'NodeNotFound',
        status: 404,
        code: 'NOT_FOUND_AGENT_NAME',
        field: 'agent.name',
        message: `no node with the name "${name}"`,
      }
    : {
        reason: 'NodeNotFound',
        status: 404,
        code: 'INVALID_NODE_UUID',
        field: 'agent.uuid',
        message: `no node with the uuid ${uuid}`,
      };
}

export function nodeStays({ node }: VerdictInput): Verdict | undefined {
  if (!node?.metadata.deletionTimestamp) return undefined;
  return {
    reason: 'NodeDeleting',
    status: 409,
    code: 'NODE_DELETING',
    field: 'agent',
    message: `the node "${v3Name(node)}" is being deleted`,
  };
}

export function nodeHasRoom({ uuid, node, crowd }: VerdictInput): Verdict | undefined {
  if (!node || !crowd(node).has(uuid)) return undefined;
  return {
    reason: 'NodeFull',
    status: 400,
    code: 'NODE_FULL',
    field: 'agent',
    message: `the node "${v3Name(node)}" has its ${BOUNDS.report} microservices; no more can be placed on it`,
  };
}

/**
 * The microservices that a node has no room for: the agent reads a bounded list. What it reports already stays; of the
 * rest the older applications come first.
 */
function crowdOn(node: EdgeNode, applications: readonly Application[]): ReadonlySet<string> {
  const bound = applications.reduce((sum, { spec }) => sum + (spec.microservices?.length ?? 0), 0);
  if (bound <= BOUNDS.report) return NOBODY;
  const reported = new Set((node.status?.microservices ?? []).map((item) => item.uuid));
  const all = applications
    .flatMap((application) =>
      entriesOn(application, node).map((entry) => {
        const uuid = entryUuid(application, entry);
        return { application, name: entry.name, uuid, reported: reported.has(uuid) };
      }),
    )
    .sort((a, b) => Number(b.reported) - Number(a.reported) || byAge(a, b))
    .map(({ uuid }) => uuid);
  const first = new Set(all.slice(0, BOUNDS.report));
  return new Set(all.slice(BOUNDS.report).filter((uuid) => !first.has(uuid)));
}

const NOBODY: ReadonlySet<string> = new Set();

/** What would change what the container is, and that nothing acts on yet. */
const UNSUPPORTED: readonly { field: string; what: string; uses: (input: VerdictInput) => boolean }[] = [
  {
    field: 'template',
    what: "the application's template",
    uses: ({ application }) => application.spec.template !== undefined,
  },
  { field: 'template', what: 'template', uses: ({ entry }) => entry.template !== undefined },
  { field: 'images.catalogId', what: 'images.catalogId', uses: ({ entry }) => entry.catalogId !== undefined },
  { field: 'models', what: 'models', uses: ({ entry }) => entry.models !== undefined },
  { field: 'knowledge', what: 'knowledge', uses: ({ entry }) => entry.knowledge !== undefined },
  {
    field: 'container.volumes',
    what: 'a volume of type volumeMount',
    uses: ({ entry }) => (entry.container.volumes ?? []).some(({ type }) => type === 'volumeMount'),
  },
];

export function isSupported(input: VerdictInput): Verdict | undefined {
  const found = UNSUPPORTED.filter(({ uses }) => uses(input));
  if (found.length === 0) return undefined;
  return {
    reason: 'NotSupportedYet',
    status: 400,
    code: 'NOT_SUPPORTED_YET',
    field: found[0]?.field,
    message: `${found.map(({ what }) => what).join(', ')}: not supported yet`,
  };
}

export function imageIsGiven({ entry, node }: VerdictInput): Verdict | undefined {
  const given = IMAGE_ARCHITECTURES.filter((architecture) => entry.images[architecture]);
  const archId = node ? archOf(node) : 0;
  if (imageFor(entry, archId)) return undefined;
  return {
    reason: 'ImageMissing',
    status: 400,
    code: given.length === 0 ? 'MICROSERVICE_DOES_NOT_HAVE_IMAGES' : 'MISSING_IMAGE',
    field: 'images',
    message:
      given.length === 0
        ? 'has no images'
        : `has no image for ${ARCHITECTURES[archId]}, the architecture of the node "${node && v3Name(node)}"; it has ${given.join(', ')}`,
  };
}

export function registryIsUsable({ entry, world }: VerdictInput): Verdict | undefined {
  const registry = resolveRegistry(world.registry, entry.registry);
  const field = 'images.registry';
  const shown = JSON.stringify(entry.registry);
  if (!registry)
    return {
      reason: 'RegistryNotFound',
      status: 404,
      code: 'REGISTRY_NOT_FOUND',
      field,
      message: `no registry ${shown}`,
    };
  if (normalType(registry.spec.type) !== 'oci')
    return {
      reason: 'RegistryWrongType',
      status: 400,
      code: 'INVALID_REGISTRY_TYPE',
      field,
      message: `the registry ${shown} has type hub; container images need one of type oci`,
    };
  if (registryId(registry) === undefined)
    return {
      reason: 'RegistryNotReady',
      status: 409,
      code: 'REGISTRY_NOT_READY',
      field,
      message: `the registry ${shown} has no id yet`,
      passes: true,
    };
  return undefined;
}

/** Judged once the node has said what it has. */
export function runtimeIsAvailable({ entry, node }: VerdictInput): Verdict | undefined {
  const { runtime } = entry.container;
  const available = node?.status?.availableRuntimes;
  if (!runtime || !available || available.includes(runtime)) return undefined;
  return {
    reason: 'RuntimeNotAvailable',
    status: 400,
    code: 'RUNTIME_CLASS_MISSING',
    field: 'container.runtime',
    message: `the runtime "${runtime}" is not on the node "${node && v3Name(node)}"; it has ${[...available].sort().join(', ') || 'none'}`,
  };
}

export function portsAreAllowed({ entry }: VerdictInput): Verdict | undefined {
  const ports = entry.container.ports ?? [];
  const reserved = ports.find(({ external }) => RESERVED_EXTERNAL_PORTS.includes(external));
  if (reserved)
    return {
      reason: 'PortReserved',
      status: 400,
      code: 'PORT_RESERVED',
      field: 'container.ports',
      message: `the external port ${reserved.external} is reserved; the reserved ones are ${RESERVED_EXTERNAL_PORTS.join(', ')}`,
    };
  const twice = ports.find((port, index) => ports.findIndex((other) => isSamePort(other, port)) !== index);
  if (!twice) return undefined;
  return {
    reason: 'PortTaken',
    status: 400,
    code: 'PORT_MAPPING_ALREADY_EXISTS',
    field: 'container.ports',
    message: `the external port ${portText(twice)} is mapped twice`,
  };
}

/**
 * A port has one holder. One that is being given up (its entry no longer asks for it) refuses no write. What the node
 * has already is told at once and keeps its container until the port is free, so that two can swap; what is new waits.
 */
export function portsAreFree(input: VerdictInput): Verdict | undefined {
  const { entry, uuid, node, writing } = input;
  const ports = entry.container.ports ?? [];
  if (!node || ports.length === 0) return undefined;
  const claims = input.claims(node);
  const taken = (port: (typeof ports)[number], { application, name }: PortClaim, more = ''): Verdict => ({
    reason: 'PortTaken',
    status: 400,
    code: 'PORT_NOT_AVAILABLE',
    field: 'container.ports',
    message: `the port ${portText(port)} of the node "${v3Name(node)}" is held by ${application}/${name}${more}`,
  });
  for (const port of ports) {
    const other = writing
      ? claimsAt(claims, port).find((claim) => claim.uuid !== uuid && claim.wanted)
      : portHeir(claims, port);
    if (other && other.uuid !== uuid) return taken(port, other);
  }
  for (const port of writing ? [] : ports) {
    const holder = portHolder(claims, port.external, port.protocol ?? 'tcp');
    if (!holder || holder.uuid === uuid) continue;
    const keeper = portKeeper(claims, holder, input.isRefused);
    if (keeper)
      return taken(port, holder, `, which cannot give it up: ${keeper.application}/${keeper.name} is refused`);
    const isPresent = claimsOf(claims, uuid).some(({ present }) => present);
    if (!isPresent) return { ...taken(port, holder, ', which is giving it up'), passes: true };
  }
  return undefined;
}

export function annotationsAreAllowed({ entry }: VerdictInput): Verdict | undefined {
  const reserved = Object.keys(entry.container.annotations ?? {})
    .sort()
    .find((key) => key.startsWith(RESERVED_LABEL_PREFIX));
  if (reserved === undefined) return undefined;
  return {
    reason: 'ReservedAnnotation',
    status: 400,
    code: 'RESERVED_ANNOTATION',
    field: 'container.annotations',
    message: `the annotation "${reserved}" is refused: the prefix ${RESERVED_LABEL_PREFIX} is reserved`,
  };
}

export function envIsAllowed({ entry }: VerdictInput): Verdict | undefined {
  const reserved = (entry.container.env ?? []).find(({ key }) => key.startsWith(RESERVED_ENV_PREFIX));
  if (!reserved) return undefined;
  return {
    reason: 'ReservedEnv',
    status: 400,
    code: 'RESERVED_ENV',
    field: 'container.env',
    message: `the env variable "${reserved.key}" is refused: the prefix ${RESERVED_ENV_PREFIX} is reserved`,
  };
}

export function envResolves({ entry, world }: VerdictInput): Verdict | undefined {
  for (const item of entry.container.env ?? []) {
    const resolved = resolveEnv(item, world);
    if ('verdict' in resolved) return resolved.verdict;
  }
  return undefined;
}

export function extraHostsResolve({ entry, node, world }: VerdictInput): Verdict | undefined {
  for (const host of node ? (entry.container.extraHosts ?? []) : []) {
    const resolved = resolveHost(host, node as EdgeNode, world);
    if ('verdict' in resolved) return resolved.verdict;
  }
  return undefined;
}

export function configIsSmall({ entry }: VerdictInput): Verdict | undefined {
  // its canonical text is as long
  const size = entry.config === undefined ? 0 : Buffer.byteLength(JSON.stringify(entry.config));
  if (size <= BOUNDS.configBytes) return undefined;
  return {
    reason: 'ConfigTooLarge',
    status: 400,
    code: 'CONFIG_TOO_LARGE',
    field: 'config',
    message: `config has ${size} bytes as JSON text; at most ${BOUNDS.configBytes} are allowed`,
  };
}

const VOLUME_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;
const ABSOLUTE = /^(\/|[A-Za-z]:[\\/])/;

export function volumesAreValid({ entry }: VerdictInput): Verdict | undefined {
  const refuse = (message: string): Verdict => ({
    reason: 'VolumeInvalid',
    status: 400,
    code: 'INVALID_VOLUME_MAPPING',
    field: 'container.volumes',
    message,
  });
  for (const { type = 'bind', hostDestination, containerDestination } of entry.container.volumes ?? []) {
    if (/^\/+$/.test(containerDestination)) return refuse('a volume cannot be mounted on / of the container');
    if (type === 'volume' && !VOLUME_NAME.test(hostDestination))
      return refuse(`the volume name "${hostDestination}" must match ${VOLUME_NAME.source}`);
    if (type === 'bind' && !ABSOLUTE.test(hostDestination))
      return refuse(`the bind path "${hostDestination}" must be absolute`);
  }
  return undefined;
}

/** The CRD sees to it within each list; across the lists nobody else does. */
export function mountsAreApart({ entry }: VerdictInput): Verdict | undefined {
  const { volumes = [], tmpfs = [] } = entry.container;
  const paths = [
    ...volumes.map(({ containerDestination }) => containerDestination),
    ...tmpfs.map(({ containerPath }) => containerPath),
  ].map((path) => path.replace(/\/+$/, '') || '/');
  const twice = paths.find((path, index) => paths.indexOf(path) !== index);
  if (twice === undefined) return undefined;
  return {
    reason: 'PathCollision',
    status: 400,
    code: 'VOLUME_MAPPING_ALREADY_EXISTS',
    field: 'container.volumes',
    message: `two mounts have the path ${twice} in the container`,
  };
}

/**
 * The policies in the order in which they are asked; the first verdict counts. What the entry is in itself stands after
 * where it is to run, since nothing matters more to a reader than a missing node.
 */
export const POLICIES: readonly Policy[] = [
  nameIsFree,
  applicationUuidIsFree,
  uuidIsFree,
  nodeIsSet,
  nodeIsFound,
  nodeStays,
  nodeHasRoom,
  isSupported,
  imageIsGiven,
  registryIsUsable,
  annotationsAreAllowed,
  envIsAllowed,
  configIsSmall,
  volumesAreValid,
  mountsAreApart,
  runtimeIsAvailable,
  portsAreAllowed,
  envResolves,
  extraHostsResolve,
  // last: whether others may move counts here, and that is judged by all that stands before
  portsAreFree,
];

/** Judges several entries of one world at one moment, and looks at what they share only once. */
export function createJudge(
  world: World,
  { writing = false }: { writing?: boolean } = {},
): (application: Application, entry: MicroserviceEntry, normal?: NormalEntry) => Verdict | undefined {
  const once = <V>(make: (node: EdgeNode, applications: readonly Application[]) => V) => {
    const known = new Map<EdgeNode, V>();
    return (node: EdgeNode) => {
      const made = known.get(node) ?? make(node, world.applicationsOn(node));
      known.set(node, made);
      return made;
    };
  };
  const claims = once(portClaims);
  const crowd = once(crowdOn);
  const inputOf = (application: Application, stored: MicroserviceEntry, entry: NormalEntry): VerdictInput => {
    const uuid = entryUuid(application, stored);
    return { application, entry, uuid, node: nodeOf(stored, world), world, writing, claims, crowd, isRefused };
  };
  const refused = new Map<MicroserviceEntry, boolean>();
  const isRefused: VerdictInput['isRefused'] = ({ application, entry }) => {
    const known =
      refused.get(entry) ?? firstOf(WITHOUT_PORTS, inputOf(application, entry, normalEntry(entry))) !== undefined;
    refused.set(entry, known);
    return known;
  };
  return (application, stored, entry = normalEntry(stored)) => firstOf(POLICIES, inputOf(application, stored, entry));
}

const WITHOUT_PORTS = POLICIES.filter((policy) => policy !== portsAreFree);

function firstOf(policies: readonly Policy[], input: VerdictInput): Verdict | undefined {
  for (const policy of policies) {
    const found = policy(input);
    if (found) return found;
  }
  return undefined;
}

/** Why an entry may not run as asked; undefined when it may. */
export function verdict(
  application: Application,
  entry: MicroserviceEntry,
  world: World,
  options?: { writing?: boolean },
): Verdict | undefined {
  return createJudge(world, options)(application, entry);
}

/** Why an application as a whole may not act, whatever its entries are: its name or its uuid belongs to an older one. */
export const applicationVerdict = (application: Application, world: World): Verdict | undefined =>
  nameIsFree({ application, world }) ?? applicationUuidIsFree({ application, world });

/** Negative verdicts of an application, by entry name. */
export function verdicts(
  application: Application,
  world: World,
  options?: { writing?: boolean },
): ReadonlyMap<string, Verdict> {
  const judge = createJudge(world, options);
  const found = new Map<string, Verdict>();
  for (const entry of application.spec.microservices ?? []) {
    const negative = judge(application, entry);
    if (negative) found.set(entry.name, negative);
  }
  return found;
}

/** Fields of an entry that are stored and do not act yet; the container is the same without them. */
export function notActing(entry: MicroserviceEntry): readonly string[] {
  const { busConfig, serviceAccount, config } = normalEntry(entry);
  return [
    // Its node has it and would serve it; what is missing is the workload's way to prove who it is.
    ...(configText(config) !== '{}' ? ['config (workloads get no token to read it with)'] : []),
    ...(busConfig?.busAccess || busConfig?.busRule ? ['busConfig'] : []),
    ...(serviceAccount ? ['serviceAccount'] : []),
    ...(findExpression(entry) ? ['template expressions, whose text is taken as it stands'] : []),
  ];
}

/** The node that an entry names, when it exists. */
export function nodeOf(
  entry: Pick<MicroserviceEntry, 'agent'>,
  world: Pick<World, 'nodeByName' | 'nodeByUuid'>,
): EdgeNode | undefined {
  const { name, uuid } = entry.agent ?? {};
  if (uuid) return world.nodeByUuid(uuid);
  return name ? world.nodeByName(name) : undefined;
}

/** The world as it concerns the entries of one node. */
export function worldOf(inputs: NodeInputs): World {
  const { node, applications, registry, nodeByName, secret, configMap } = inputs;
  const uuid = nodeUuid(node);
  const byAge = [...applications].sort((a, b) => byAgeOf(a, b));
  return {
    registry,
    nodeByName: (name) => {
      const found = nodeByName(name) ?? (name === v3Name(node) ? node : undefined);
      // the node in hand, in the version that was handed in
      return found && nodeUuid(found) === uuid ? node : found;
    },
    nodeByUuid: (wanted) => (wanted === uuid ? node : undefined),
    applicationsOn: () => applications,
    applicationByName:
      inputs.applicationByName ?? ((name) => byAge.find((application) => v3Name(application) === name)),
    ...(inputs.applicationByUuid && { applicationByUuid: inputs.applicationByUuid }),
    applicationsWithEntry: inputs.applicationsWithEntry ?? ((wanted) => byAge.filter((app) => hasEntry(app, wanted))),
    secret,
    configMap,
  };
}

/** The world as it would be with this application in the place of its stored form: for judging a write before it is made. */
export function worldWith(world: World, application: Application): World {
  const others = (applications: readonly Application[]) => applications.filter((other) => !isSame(other, application));
  const name = v3Name(application);
  return {
    ...world,
    applicationsOn: (node) => {
      const before = world.applicationsOn(node);
      const concerns = entriesOn(application, node).length > 0 || before.some((other) => isSame(other, application));
      return [...others(before), ...(concerns ? [application] : [])];
    },
    applicationByName: (wanted) => {
      const stored = world.applicationByName(wanted);
      return wanted === name && (!stored || isSame(stored, application)) ? application : stored;
    },
    applicationByUuid: (wanted) => {
      const stored = world.applicationByUuid?.(wanted);
      return wanted === applicationUuid(application) && (!stored || isSame(stored, application)) ? application : stored;
    },
    applicationsWithEntry: (uuid) => [
      ...others(world.applicationsWithEntry(uuid)),
      ...(hasEntry(application, uuid) ? [application] : []),
    ],
  };
}

const hasEntry = (application: Application, uuid: string) =>
  (application.spec.microservices ?? []).some((entry) => entryUuid(application, entry) === uuid);

/** One object, in whatever version; what is not stored yet has neither uid nor, perhaps, namespace. */
const isSame = ({ metadata: a }: Application, { metadata: b }: Application) =>
  a.name === b.name && (!a.uid || !b.uid || a.uid === b.uid);

const isSamePort = (
  a: { external: number; protocol?: 'tcp' | 'udp' },
  b: { external: number; protocol?: 'tcp' | 'udp' },
) => a.external === b.external && (a.protocol ?? 'tcp') === (b.protocol ?? 'tcp');
const portText = ({ external, protocol = 'tcp' }: { external: number; protocol?: string }) => `${external}/${protocol}`;

const byAge = (a: { application: Application; name: string }, b: { application: Application; name: string }) =>
  byAgeOf(a.application, b.application) || compare(a.name, b.name);
const byAgeOf = (a: Application, b: Application) =>
  compare(a.metadata.creationTimestamp, b.metadata.creationTimestamp) || compare(a.metadata.uid, b.metadata.uid);

/** What is not stored yet comes last. */
const LAST = '\uffff';
const compare = (a = LAST, b = LAST) => (a < b ? -1 : a > b ? 1 : 0);
