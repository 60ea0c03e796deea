import { ARCHITECTURES } from '../../../api/names.ts';
import type { EdgeNode, EdgeNodeStatus } from '../../../api/v3/index.ts';
import { cut } from '../../../rules/conditions.ts';
import { invalid } from '../../../rules/errors.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { PART_CONDITIONS } from '../../../rules/part.ts';
import { platformGeneration } from './actions.ts';
import { artifactsShown } from './artifacts.ts';
import { observedFacts, type Seen } from './observed.ts';
import { archOf, hostOf, settingsShown } from './settings.ts';
import { wantsTunnel } from './tunnel.ts';

/** The inputs of a node read besides the object. */
export interface LiveNode extends Seen {
  /** the volume mounts that the node gets, as a read of a node shows them */
  volumeMounts?: readonly Readonly<Record<string, unknown>>[];
}

/** v3 read of a node (docs/spec/rest-v3.md#node-read). */
export function nodeRead(
  stored: EdgeNode,
  live: LiveNode,
  { isBusOn, platformStatus = true }: { isBusOn: boolean; platformStatus?: boolean },
): Record<string, unknown> {
  const { observation } = live;
  const status = observedFacts({ node: stored, ...live }, live.liveness);
  const node = { ...stored, status };
  const report = observation?.report ?? {};
  const created = ms(node.metadata.creationTimestamp);
  const archId = archOf(node);
  return {
    uuid: nodeUuid(node),
    name: v3Name(node),
    ...settingsShown(node, isBusOn),
    archId,
    arch: { id: archId, name: ARCHITECTURES[archId] },
    host: hostOf(node) ?? '',

    daemonStatus: status.daemonStatus,
    daemonOperatingDuration: report.daemonOperatingDuration ?? 0,
    daemonLastStart: report.daemonLastStart ?? 0,
    version: status.version ?? '',
    isReadyToUpgrade: status.isReadyToUpgrade ?? false,
    isReadyToRollback: status.isReadyToRollback ?? false,
    warningMessage: warningShown(status.warningMessage, status),
    lastActive: observation?.contactAt ?? ms(status.lastSeenTime),
    lastStatusTime: observation?.reportedAt ?? 0,
    lastCommandTime: report.lastCommandTime ?? 0,
    systemTime: report.systemTime ?? 0,
    createAt: created,
    updatedAt: Math.max(created, ...(status.conditions ?? []).map((condition) => ms(condition.lastTransitionTime))),

    ipAddress: status.ipAddress ?? '',
    ipAddressExternal: status.ipAddressExternal ?? '',
    systemOs: status.systemOs ?? '',
    systemOsVersion: status.systemOsVersion ?? '',
    systemKernelVersion: status.systemKernelVersion ?? '',
    memoryUsage: report.memoryUsage ?? 0,
    diskUsage: report.diskUsage ?? 0,
    cpuUsage: report.cpuUsage ?? 0,
    memoryViolation: report.memoryViolation ?? false,
    diskViolation: report.diskViolation ?? false,
    cpuViolation: report.cpuViolation ?? false,
    systemAvailableDisk: report.systemAvailableDisk ?? 0,
    systemTotalDisk: status.systemTotalDisk ?? 0,
    systemAvailableMemory: report.systemAvailableMemory ?? 0,
    systemTotalMemory: status.systemTotalMemory ?? 0,
    systemTotalCpu: report.systemTotalCpu ?? 0,
    systemCpus: status.systemCpus ?? 0,

    repositoryCount: report.repositoryCount ?? 0,
    repositoryStatus: JSON.stringify(report.repositoryStatus ?? []),
    catalogItemStatus: '[]',
    availableRuntimes: status.availableRuntimes ?? [],
    availableCdiDevices: JSON.stringify(status.availableCdiDevices ?? []),
    runtimeClasses: JSON.stringify(report.runtimeClasses ?? []),
    ...artifactsShown(node, report),
    volumeMounts: live.volumeMounts ?? [],
    activeVolumeMounts: report.activeVolumeMounts ?? 0,
    volumeMountLastUpdate: report.volumeMountLastUpdate ?? 0,
    gpsStatus: report.gpsStatus ?? '',
    tunnel: tunnelShown(node),
    tunnelStatus: report.tunnelStatus ?? JSON.stringify(node.status.tunnelStatus ?? {}),
    securityStatus: 'OK',
    securityViolationInfo: '',
    routerId: 0,
    ...(platformStatus && {
      microserviceStatus: JSON.stringify(report.microserviceStatus ?? []),
      platformStatus: platformShown(node),
    }),
  };
}

/** Whether the node is to have a tunnel; empty for a node that never had one. */
function tunnelShown(node: EdgeNode): string {
  if (wantsTunnel(node)) return 'open';
  return node.status?.tunnel ? 'closed' : '';
}

/** What the agent warns of, else why the platform of the node could not be reconciled. */
function warningShown(warning: string | undefined, { platformStatus }: Pick<EdgeNodeStatus, 'platformStatus'>): string {
  if (warning && warning !== 'HEALTHY') return warning;
  const error = platformStatus?.phase === 'Failed' ? platformStatus.lastError : undefined;
  return error ? cut(`Platform reconcile: ${error}`, 200) : 'HEALTHY';
}

/** A generation that the leader has not reconciled yet is Pending, although the stored status has another phase. */
function platformShown(node: EdgeNode): Record<string, unknown> {
  const stored = node.status?.platformStatus;
  const generation = platformGeneration(node);
  const observedGeneration = stored?.observedGeneration ?? 0;
  const phase = node.metadata.deletionTimestamp
    ? 'Deleting'
    : !stored || stored.generation < generation
      ? 'Pending'
      : stored.phase;
  return {
    phase,
    generation,
    observedGeneration,
    lastError: phase === 'Failed' ? (stored?.lastError ?? null) : null,
    lastTransitionAt: stored?.lastTransitionAt ?? node.metadata.creationTimestamp ?? null,
    conditions: PART_CONDITIONS.flatMap((type) => {
      const found = node.status?.conditions?.find((condition) => condition.type === type);
      if (!found) return [];
      const { status, reason, message, lastTransitionTime } = found;
      return [{ type, status, reason, message, lastTransitionTime }];
    }),
  };
}

/** One filter of the list operation. */
export interface NodeFilter {
  key: string;
  value: string;
  condition: 'equals' | 'has';
}

const FILTERS = 32;

/** Reads the filters of a body or a query; throws DomainError. */
export function readFilters(value: unknown): NodeFilter[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw invalid('filters: must be a list of {key, value, condition}', 'filters');
  // Every filter is applied to every node.
  if (value.length > FILTERS) throw invalid(`filters: must have at most ${FILTERS} items`, 'filters');
  return value.map((filter: unknown, index) => {
    const at = `filters[${index}]`;
    if (typeof filter !== 'object' || filter === null) throw invalid(`${at}: must be {key, value, condition}`, at);
    const { key, value: wanted, condition = 'equals' } = filter as Record<string, unknown>;
    if (typeof key !== 'string' || key === '') throw invalid(`${at}.key: is required`, `${at}.key`);
    if (wanted === undefined || wanted === null) throw invalid(`${at}.value: is required`, `${at}.value`);
    if (typeof wanted === 'object') throw invalid(`${at}.value: must be text`, `${at}.value`);
    if (condition !== 'equals' && condition !== 'has')
      throw invalid(`${at}.condition: ${JSON.stringify(condition)}; must be equals or has`, `${at}.condition`);
    return { key, value: String(wanted), condition };
  });
}

/** Whether a node read passes all filters. An empty field never matches. */
export function matches(read: Record<string, unknown>, filters: readonly NodeFilter[]): boolean {
  return filters.every(({ key, value, condition }) => {
    const field = Object.hasOwn(read, key) ? read[key] : undefined;
    if (!field) return false;
    const text = typeof field === 'object' ? JSON.stringify(field) : String(field);
    return condition === 'equals' ? text === value : text.includes(value);
  });
}

const ms = (time: string | undefined): number => (time ? Date.parse(time) || 0 : 0);
