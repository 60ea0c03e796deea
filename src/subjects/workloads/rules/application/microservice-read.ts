import { CONTAINER_FIELD_NAMES, fieldRow, normalItem } from '../../../../api/container/index.ts';
import { printable } from '../../../../api/printable.ts';
import type { Application, EdgeNode, MicroserviceEntry, ObservedMicroservice } from '../../../../api/v3/index.ts';
import { busReads } from '../../../../rules/bus-access.ts';
import type { BusLookups } from '../../../../rules/bus-lookups.ts';
import { applicationId, nodeUuid } from '../../../../rules/identity.ts';
import type { Liveness } from '../../../../rules/inputs.ts';
import { entryUuid, v3Name, volumeMappingId } from '../../../../rules/names.ts';
import { normalEntry } from '../../../../rules/normal-entry.ts';
import type { MicroserviceState, MicroserviceStatus } from '../../../../wire/agent.ts';
import { rebuildCountOf } from '../../../nodes/rules/actions.ts';
import { busAccessOn } from '../../../nodes/rules/bus-access.ts';
import { removedState, stateOf } from '../../../nodes/rules/microservice-state.ts';
import { shouldRun } from '../../../nodes/rules/placement/entries.ts';
import { formerNodesOf, formerNodeText } from '../../../nodes/rules/placement/moves.ts';
import type { EnvItem } from '../entry/env.ts';
import { type FlatOptions, flatFromEntry } from '../entry/flat.ts';
import { resolveHost } from './extra-hosts.ts';

/** The inputs of the read of a microservice. */
export interface MicroserviceFacts {
  application: Application;
  entry: MicroserviceEntry;
  /** the node that has the entry, when it exists */
  node?: EdgeNode;
  /** the entry stays on `node` until this node, which it names, has taken it */
  movesTo?: EdgeNode | 'missing';
  liveness?: Liveness;
  /** item of the node's status */
  observed?: ObservedMicroservice;
  /** item of the node's latest report, when this replica has it */
  live?: MicroserviceStatus;
  registryId?: (ref: number | string) => number | undefined;
  catalogItem?: FlatOptions['catalogItem'];
  /** the inputs for the addresses of extra hosts */
  hosts?: Parameters<typeof resolveHost>[2];
  referredValue?: ReferredValue;
  /** absent: the bus is off */
  bus?: BusLookups;
  /** Unix ms */
  now?: number;
}

/** The value that a variable refers to; undefined when it has none, or its reader may not see it. */
export type ReferredValue = (item: EnvItem) => string | undefined;

/** The inputs of the read of a removed microservice that its node still reports. */
export interface RemovedFacts {
  application: Application;
  node: EdgeNode;
  liveness?: Liveness;
  observed: ObservedMicroservice;
  live?: MicroserviceStatus;
}

/** State of a microservice in a REST read; the latest report precedes the stored status. */
export function microserviceState(facts: Omit<MicroserviceFacts, 'registryId'>): MicroserviceState {
  const { application, entry, node, liveness, observed, live } = facts;
  return stateOf({
    reported: node && (live?.status ?? observed?.state),
    liveness,
    wanted: shouldRun(application, entry),
    deleting: application.metadata.deletionTimestamp !== undefined,
  });
}

/** The values in a v3 read of fields that an entry leaves out. */
const DEFAULTS: Readonly<Record<string, unknown>> = {
  config: '{}',
  images: [],
  serviceAccount: null,
  ...Object.fromEntries(
    CONTAINER_FIELD_NAMES.flatMap((field) => {
      const { flatName, shown } = fieldRow(field);
      return shown === undefined ? [] : [[flatName, shown]];
    }),
  ),
};

/** The full v3 read of a microservice (docs/spec/workloads.md#microservice-read). */
export function microserviceRead(facts: MicroserviceFacts): Record<string, unknown> {
  const { application, entry, node, movesTo, observed, live, registryId, catalogItem } = facts;
  const { agentName, nodeUuid: namedUuid, ...flat } = flatFromEntry(entry, { registryId, catalogItem });
  const isCatalog = flat.catalogItemId !== undefined;
  const status = statusRead(microserviceState(facts), observed, live, facts.now);
  const former = formerNodesOf(application, entry).map(formerNodeText).join('; ');
  const staying =
    node && movesTo ? `stays on the node "${v3Name(node)}" until the node that it names has taken it` : '';
  const named = movesTo === 'missing' ? undefined : (movesTo ?? node);
  const access = accessRead(facts);
  return {
    ...DEFAULTS,
    ...(!isCatalog && entry.images?.registry === undefined && { registryId: 1 }),
    ...flat,
    uuid: entryUuid(application, entry),
    isActivated: entry.isActivated ?? true,
    ...identity(application),
    // A read has one of the two, so that it is accepted as a body.
    ...(named ? { nodeUuid: nodeUuid(named) } : namedUuid ? { nodeUuid: namedUuid } : agentName ? { agentName } : {}),
    ...envReads(facts, access?.env),
    extraHosts: hostReads(facts),
    volumeMappings: volumeReads(entry, access),
    busConfig: busRead(flat.busConfig as BusConfig | undefined),
    busAccess: (flat.busConfig as BusConfig | undefined)?.busAccess ?? false,
    rebuild: isRebuildDue(facts),
    delete: false,
    deleteWithCleanup: false,
    status: { ...status, errorMessage: status.errorMessage || staying || former },
    execStatus: { status: 'INACTIVE', execSessionId: '' },
  };
}

/** True until the node has carried out as many rebuilds as were requested. */
const isRebuildDue = ({ application, entry, observed, live }: MicroserviceFacts) =>
  rebuildCountOf(application, entry.name) > Math.max(observed?.rebuildCount ?? 0, live?.rebuildCount ?? 0);

/** The read of a removed microservice that its node still reports: `delete: true`. */
export function removedRead({ application, node, liveness, observed, live }: RemovedFacts): Record<string, unknown> {
  const state = removedState(live?.status ?? observed.state, liveness);
  return {
    uuid: observed.uuid,
    name: observed.name ?? '',
    isActivated: false,
    ...identity(application),
    nodeUuid: nodeUuid(node),
    images: [],
    volumeMappings: [],
    ports: observed.ports ?? [],
    env: [],
    extraHosts: [],
    rebuild: false,
    delete: true,
    deleteWithCleanup: false,
    status: statusRead(state, observed, live),
    execStatus: { status: 'INACTIVE', execSessionId: '' },
  };
}

/** Variables that refer to a Secret or ConfigMap have its value as well, where the reader may see it. */
function envReads(
  { entry, referredValue = () => undefined }: MicroserviceFacts,
  computed: readonly Record<string, unknown>[] = [],
): { env?: Record<string, unknown>[] } {
  const env = entry.container?.env;
  if (!env && computed.length === 0) return {};
  const own = (env ?? []).map((item) => {
    const value = referredValue(item);
    return value === undefined ? item : { ...item, value };
  });
  return { env: [...own, ...computed] };
}

/** What the container has of the message bus, on the node that has the entry. */
export function accessRead({
  application,
  entry,
  node,
  bus,
}: Pick<MicroserviceFacts, 'application' | 'entry' | 'node' | 'bus'>) {
  if (!node || !bus) return undefined;
  const normal = normalEntry(entry);
  const access = busAccessOn({ application, entry: normal, node }, bus);
  return access && access !== 'no server' ? busReads(application, normal, access) : undefined;
}

/** Extra hosts with the present address of each; empty when it has none. */
function hostReads({ entry, node, hosts }: MicroserviceFacts): Record<string, unknown>[] {
  return (entry.container?.extraHosts ?? []).map((host) => {
    const resolved = node && hosts ? resolveHost(host, node, hosts) : undefined;
    return { ...host, value: resolved && 'address' in resolved ? resolved.address : '' };
  });
}

/** The volume mappings of an entry with their ids. */
export function volumeReads(
  entry: MicroserviceEntry,
  access?: ReturnType<typeof accessRead>,
): Record<string, unknown>[] {
  return [...(entry.container?.volumes ?? []), ...(access ? [access.mapping] : [])].map((volume) => ({
    id: volumeMappingId(volume.containerDestination),
    ...normalItem('volumes', volume),
  }));
}

interface BusConfig {
  busAccess?: boolean;
  busRule?: string;
}

/** Bus settings in a read, which always has both members. */
export const busRead = (bus: BusConfig | undefined) => ({
  busAccess: bus?.busAccess ?? false,
  busRule: bus?.busRule ?? null,
});

function identity(application: Application) {
  const id = applicationId(application);
  return { application: v3Name(application), ...(id !== undefined && { applicationId: id, flowId: id }) };
}

/** What a failing health check says: v3 has no member for it, and its clients show `errorMessage`. */
function failingCheck(observed: ObservedMicroservice | undefined, live: MicroserviceStatus | undefined): string {
  const { healthStatus, healthMessage } = live ?? observed ?? {};
  return healthMessage && healthStatus !== 'healthy' ? `health check: ${printable(healthMessage)}` : '';
}

/** Measurements are 0 unless the container runs. */
function statusRead(
  state: MicroserviceState,
  observed: ObservedMicroservice | undefined,
  live: MicroserviceStatus | undefined,
  now?: number,
): Record<string, unknown> {
  const runs = state === 'RUNNING';
  const podId = live?.podId;
  const image = observed?.image;
  const startTime = (runs && (observed?.startTime ?? live?.startTime)) || 0;
  return {
    status: state,
    operatingDuration: runs ? (live?.operatingDuration ?? (now && startTime ? Math.max(0, now - startTime) : 0)) : 0,
    startTime,
    cpuUsage: (runs && live?.cpuUsage) || 0,
    memoryUsage: (runs && live?.memoryUsage) || 0,
    percentage: live?.percentage ?? 0,
    containerId: live?.containerId ?? observed?.containerId ?? '',
    ...(podId && { podId }),
    ...(image && { image }),
    ipAddress: live?.ipAddress ?? observed?.ipAddress ?? '',
    healthStatus: live?.healthStatus ?? observed?.healthStatus ?? '',
    execSessionIds: live?.execSessionIds ?? [],
    errorMessage: (live?.errorMessage ?? observed?.errorMessage) || (runs ? failingCheck(observed, live) : ''),
    lastError: live?.lastError ?? observed?.lastError ?? '',
    lastErrorAt: observed?.lastErrorAt ?? live?.lastErrorAt ?? 0,
    restartCount: live?.restartCount ?? observed?.restartCount ?? 0,
  };
}
