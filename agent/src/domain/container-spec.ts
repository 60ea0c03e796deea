import { isIP } from 'node:net';
import { join } from 'node:path';
import {
  BRIDGE_HOSTS,
  BRIDGE_ZONE,
  CONTAINER_LABELS,
  RESERVED_ENV_PREFIX,
  RESERVED_LABEL_PREFIX,
  ROUTER_BRIDGE_HOST,
} from '../../../src/api/names.ts';
import type { MicroserviceStatus, MicroserviceView, RegistryView } from '../../../src/wire/agent.ts';
import { containerFields } from '../../../src/wire/container.ts';
import type { ContainerSpec } from '../engine-port/container-spec.ts';
import { EngineError } from '../engine-port/error.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import { type ArtifactCatalog, catalogsOf, projectionPath } from './artifact.ts';
import { stringMap } from './digest.ts';
import { CUSTOMARY_LABELS, LABEL_REBUILD_COUNT } from './names.ts';
import type { BareStepOf } from './step.ts';
import { registryNotHonoured } from './target.ts';
import { isVolumeName, volumePath } from './volume.ts';
import { type ResolvedMapping, tokenCover, tokenPath, tokenTarget } from './volume-mounts.ts';

/** The input of a container spec besides the view: this machine and this agent. */
export interface SpecContext {
  instance: string;
  nodeUuid: string;
  /** who wants a microservice: a controller, or the machine itself (docs/spec/agent-local-api.md#stamps) */
  scopeOf(uuid: string): 'managed' | 'local';
  /** agent-managed volumes live below */
  volumesDirectory: string;
  timeZone: string;
  facts: EngineFacts;
  /** whether the router of the machine is a container on the network of containers, which answers by its alias */
  hasEdgeRouter?: boolean;
  limits: ProcessLimits;
}

/** Hard limits of the agent's own process; what they bind when it may not raise them. */
export interface ProcessLimits {
  mayRaise: boolean;
  hard: Record<string, number>;
}

/** The container spec of a create step. Throws EngineError Invalid for a view that no engine can run. */
export function containerSpec(step: BareStepOf<'create'>, context: SpecContext): ContainerSpec {
  const { view } = step;
  const mounts = view.volumeMappings.flatMap((mapping) => mountOf(mapping, step.uuid, context));
  const token = tokenTarget(view);
  if (token) mounts.push(ownMount(tokenPath(step.uuid), token, context));
  const projections = catalogsOf(view).map((catalog) => projectionMount(catalog, context));
  return {
    name: step.name,
    image: view.imageId,
    imageId: step.imageId,
    labels: labelsOf(step, context),
    env: envOf(step, context),
    user: userOf(view),
    aliases: view.hostNetworkMode ? [] : aliasesOf(view),
    ports: view.hostNetworkMode ? [] : view.portMappings,
    mounts: [...mounts, ...projections],
    extraHosts: extraHostsOf(view, context),
    cdiDevices: context.facts.cdi ? view.cdiDevices : [],
    ulimits: ulimitsOf(view, context),
    fields: containerFields(view),
  };
}

/** Whether a microservice is the router of its machine, on the network of containers. */
export const isEdgeRouter = ({ isRouter, isSystem, hostNetworkMode }: MicroserviceView): boolean =>
  isRouter && isSystem && !hostNetworkMode;

/** The names under which containers of one network find a microservice. No other one gets a name of the machine. */
function aliasesOf(view: MicroserviceView): string[] {
  const own = [`${view.application}.${view.name}`, `${view.application}.${view.name}.${BRIDGE_ZONE}`];
  const names = own.filter((name) => !OF_MACHINE.has(name));
  return isEdgeRouter(view) ? [...names, ROUTER_BRIDGE_HOST] : names;
}

const OF_MACHINE: ReadonlySet<string> = new Set(BRIDGE_HOSTS);

/**
 * Every label of the agent is set, also with an empty value: containers inherit the labels of their image, and an image
 * must not be able to forge labels of the agent.
 */
function labelsOf(step: BareStepOf<'create'>, context: SpecContext): Record<string, string> {
  const { view, uuid } = step;
  const annotations = Object.entries(stringMap(view.annotations)).filter(([key]) => !isReservedLabel(key));
  return {
    ...customaryLabels(view),
    ...Object.fromEntries(annotations),
    [CONTAINER_LABELS.agent]: context.instance,
    [CONTAINER_LABELS.uuid]: uuid,
    [CONTAINER_LABELS.application]: view.application,
    [CONTAINER_LABELS.microservice]: view.name,
    [CONTAINER_LABELS.node]: context.nodeUuid,
    [CONTAINER_LABELS.revision]: view.revision,
    [CONTAINER_LABELS.digest]: step.digest,
    [CONTAINER_LABELS.generation]: String(step.generation),
    [LABEL_REBUILD_COUNT]: String(step.rebuildCount),
    [CONTAINER_LABELS.scope]: context.scopeOf(uuid),
    [CONTAINER_LABELS.role]: roleOf(view),
    [CONTAINER_LABELS.system]: String(view.isSystem),
    [CONTAINER_LABELS.engine]: context.facts.kind,
    [CONTAINER_LABELS.hostNetwork]: String(view.hostNetworkMode),
    [CONTAINER_LABELS.healthCheck]: String(view.healthCheck.test.length > 0),
  };
}

/** An annotation may say otherwise: they identify nothing here. */
const customaryLabels = ({ name, application }: MicroserviceView): Record<string, string> => ({
  [CUSTOMARY_LABELS.name]: name,
  [CUSTOMARY_LABELS.instance]: `${application}.${name}`,
  [CUSTOMARY_LABELS.partOf]: application,
  [CUSTOMARY_LABELS.managedBy]: 'skerry-agent',
});

/** What a microservice is for its machine. */
function roleOf({ isSystem, isRouter, isBus, isController }: MicroserviceView): string {
  if (!isSystem) return 'workload';
  if (isRouter) return 'router';
  if (isBus) return 'bus';
  return isController ? 'controller' : 'workload';
}

function isReservedLabel(key: string): boolean {
  return key.startsWith(RESERVED_LABEL_PREFIX);
}

function envOf({ view, uuid }: BareStepOf<'create'>, { nodeUuid, scopeOf, timeZone, facts }: SpecContext): string[] {
  const own = view.env.filter(({ key }) => !key.startsWith(RESERVED_ENV_PREFIX));
  const reserved: Record<string, string> = {
    MICROSERVICE_UID: view.uuid,
    MICROSERVICE_NAME: view.name,
    APPLICATION_NAME: view.application,
    NODE_UID: nodeUuid,
    SCOPE: scopeOf(uuid),
    RUNTIME_ENGINE: facts.kind,
    ROLE: roleOf(view),
  };
  return [
    ...(own.some(({ key }) => key === 'TZ') ? [] : [`TZ=${timeZone || 'UTC'}`]),
    ...own.map(({ key, value }) => `${key}=${value}`),
    ...Object.entries(reserved).map(([key, value]) => `${RESERVED_ENV_PREFIX}${key}=${value}`),
  ];
}

function userOf({ runAsUser, runAsGroup }: MicroserviceView): string | undefined {
  if (!runAsUser && !runAsGroup) return undefined;
  return runAsGroup ? `${runAsUser || '0'}:${runAsGroup}` : runAsUser;
}

/** Whether the address of an extra host is a name: of a microservice of this machine, or of another machine. */
export function isHostName(address: string): boolean {
  return isIP(address) === 0 && address !== 'host-gateway';
}

/**
 * The extra hosts of a view, and the names of the machine (docs/spec/workloads.md#names-of-the-machine). An extra host of the view
 * wins. The container digest is made from the view: these names replace no container that exists. A router that is a container has its name
 * as an alias, by which others reach the ports that it does not publish; the host network has no aliases.
 */
function extraHostsOf(view: MicroserviceView, { hasEdgeRouter }: SpecContext): ContainerSpec['extraHosts'] {
  const own = view.extraHosts.map(hostOf);
  const taken = new Set(own.map(({ name }) => name.toLowerCase()));
  const hasAlias = hasEdgeRouter === true && !view.hostNetworkMode;
  const ofMachine = BRIDGE_HOSTS.filter((name) => !taken.has(name) && !(hasAlias && name === ROUTER_BRIDGE_HOST));
  return [...own, ...ofMachine.map((name) => ({ name, address: 'host-gateway' }))];
}

function hostOf(text: string): { name: string; address: string } {
  const colon = text.indexOf(':');
  return { name: text.slice(0, colon), address: text.slice(colon + 1) };
}

/** What the agent writes: a container reads it only, since the agent follows links in it. */
function ownMount(
  path: string,
  target: string,
  { volumesDirectory, facts }: SpecContext,
): ContainerSpec['mounts'][number] {
  return { source: join(volumesDirectory, path), target, readOnly: true, relabel: facts.selinux };
}

function mountOf(mapping: ResolvedMapping, uuid: string, context: SpecContext): ContainerSpec['mounts'] {
  const { volumesDirectory, facts } = context;
  const target = mapping.containerDestination;
  const readOnly = mapping.accessMode === 'ro';
  if (mapping.type === 'volume')
    return [{ source: volumePath(mapping, uuid, volumesDirectory), target, readOnly, relabel: facts.selinux }];
  if (mapping.type === 'bind') return [{ source: mapping.hostDestination, target, readOnly, relabel: false }];
  if (mapping.type === 'serviceAccount') return [];
  if (mapping.path === undefined)
    throw new EngineError('Invalid', `volume mount "${mapping.hostDestination}" is not on this machine`);
  return [ownMount(mapping.path, target, context)];
}

/** Models or knowledge, in the one directory that their catalog names. */
function projectionMount(catalog: ArtifactCatalog, context: SpecContext): ContainerSpec['mounts'][number] {
  if (!isVolumeName(catalog.uuid)) throw new EngineError('Invalid', 'the uuid is not a plain name');
  return {
    source: projectionPath(catalog, context.volumesDirectory),
    target: catalog.bindPath,
    readOnly: catalog.mode === 'ro',
    relabel: context.facts.selinux,
  };
}

/** The limits of a view, lowered to those that this machine can grant; `notHonoured` reports it. */
function ulimitsOf(view: MicroserviceView, { limits, facts }: SpecContext): ContainerSpec['ulimits'] {
  const asked = new Map(Object.entries(view.ulimits));
  for (const [name, hard] of Object.entries(loweredDefaults(facts, limits)))
    if (!asked.has(name)) asked.set(name, { soft: hard, hard });
  return [...asked].map(([name, { soft, hard }]) => ({
    name,
    soft: granted(soft, limits.hard[name], limits.mayRaise),
    hard: granted(hard, limits.hard[name], limits.mayRaise),
  }));
}

/**
 * Limits that containers get where an engine's own defaults may exceed what it is granted itself: it could not start a
 * container with them.
 */
export function loweredDefaults(
  { defaultLimits }: EngineFacts,
  { mayRaise, hard }: ProcessLimits,
): Record<string, number> {
  const known = (mayRaise ? [] : defaultLimits).map((name) => [name, hard[name]] as const);
  return Object.fromEntries(known.filter((entry): entry is [string, number] => entry[1] !== undefined));
}

function granted(value: number, own: number | undefined, mayRaise: boolean): number {
  if (mayRaise || own === undefined || own === -1) return value;
  return value === -1 ? own : Math.min(value, own);
}

type NotHonoured = NonNullable<MicroserviceStatus['notHonoured']>;

interface NotHonouredContext extends Pick<SpecContext, 'facts' | 'limits'> {
  registry?: RegistryView;
  /** distinguishes microservices of this machine from those of other machines, which become addresses */
  isMicroservice?: (name: string) => boolean;
}

/** Fields of a view that this agent on this machine cannot honour, each with the reason. Pure. */
export function notHonoured(
  view: MicroserviceView,
  { facts, limits, registry, isMicroservice = () => true }: NotHonouredContext,
): NotHonoured {
  const list: NotHonoured = [];
  const say = (field: string, reason: string) => list.push({ field: field.slice(0, 64), reason: reason.slice(0, 256) });
  const written = view.volumeMappings.filter(({ type, accessMode }) => type === 'volumeMount' && accessMode === 'rw');
  if (written.length > 0)
    say('volumeMappings', `volume mounts are read-only: ${written.map((m) => m.containerDestination).join(', ')}`);
  const cover = view.serviceAccount ? tokenCover(view) : undefined;
  if (cover !== undefined) say('serviceAccount', `the volume at ${cover || '/'} leaves no room for its token`);
  const unused = registryNotHonoured(view, registry);
  if (unused) say('registry', unused);
  if (view.cdiDevices.length > 0 && !facts.cdi)
    say('cdiDevices', `${facts.kind} ${facts.version} knows no CDI devices over its API`);
  if (view.runtime && !facts.choosesRuntime && !facts.runtimes.includes(view.runtime))
    say(
      'runtime',
      `${facts.kind} takes no choice of runtimes over its API${facts.runtimes[0] ? `; it has ${facts.runtimes[0]}` : ''}`,
    );
  if (view.healthCheck.startInterval && !facts.startInterval)
    say('healthCheck.startInterval', `${facts.kind} ${facts.version} has no such setting`);
  const reserved = Object.keys(stringMap(view.annotations)).filter(isReservedLabel);
  if (reserved.length > 0)
    say('annotations', `the prefix ${RESERVED_LABEL_PREFIX} is reserved: ${reserved.join(', ')}`);
  const variables = view.env.map(({ key }) => key).filter((key) => key.startsWith(RESERVED_ENV_PREFIX));
  if (variables.length > 0) say('env', `the prefix ${RESERVED_ENV_PREFIX} is reserved: ${variables.join(', ')}`);
  if (view.hostNetworkMode && view.portMappings.length > 0) say('portMappings', 'has no meaning on the host network');
  const names = view.extraHosts.map(hostOf).filter(({ address }) => isHostName(address) && isMicroservice(address));
  const unknown = names.map(({ name }) => name).join(', ');
  if (names.length > 0 && view.hostNetworkMode)
    say('extraHosts', `names have no address on the host network: ${unknown}`);
  else if (names.length > 0 && !facts.links)
    say('extraHosts', `${facts.kind} knows other containers by their own names only: ${unknown}`);
  for (const [name, { hard }] of Object.entries(view.ulimits)) {
    const given = granted(hard, limits.hard[name], limits.mayRaise);
    if (given !== hard) say(`ulimits.${name}`, `${hard} asked, ${given} given: this machine grants no more`);
  }
  return list;
}
