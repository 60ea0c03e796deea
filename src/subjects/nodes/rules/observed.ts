import { BOUNDS } from '../../../api/bounds.ts';
import type { EdgeNode, EdgeNodeStatus } from '../../../api/v3/index.ts';
import { cut } from '../../../rules/conditions.ts';
import type { Liveness, Observation } from '../../../rules/inputs.ts';
import type { StatusReport } from '../../../wire/agent.ts';
import { isReportedCount, type NodeAction } from './actions.ts';
import { observedArtifacts } from './artifacts.ts';
import { daemonState } from './liveness.ts';
import { observedMicroservices } from './report.ts';
import { reportedUpdate } from './update.ts';

/** What is known of a node besides its object, and whether it is live by that. */
export interface Seen {
  liveness: Liveness;
  observation?: Observation | undefined;
  /** record of the last provisioning; the stored status shows it a moment later */
  provisioned?: ProvisionedAgent | undefined;
}

export interface ProvisionedAgent {
  /** 0 when the agent named no architecture */
  archId: number;
  containerEngine?: string;
}

/**
 * A node with the status that the leader writes of what is observed now, as far as rules judge by it. The stored status is
 * up to half a second older, so a rule that judges a fact that a node reports is given this (docs/spec/rest-v3.md#one-truth).
 */
export function presentNode(node: EdgeNode, { liveness: alive, observation, provisioned }: Seen): EdgeNode {
  const microservices = observedMicroservices({ node, observation, desired: undefined, liveness: alive });
  const { actions } = observation?.report ?? {};
  return {
    ...node,
    status: {
      ...observedFacts({ node, observation, provisioned }, alive),
      ...observedArtifacts({ node, observation }),
      ...(actions && { actions: countedActions(node, actions) }),
      ...(microservices && { microservices }),
    },
  };
}

/** The stored status with what is reported of the machine itself, which has a fixed number of members. */
export function observedFacts(
  { node, observation, provisioned }: { node: EdgeNode } & Omit<Seen, 'liveness'>,
  alive: Liveness,
): EdgeNodeStatus {
  const { status: previous } = node;
  const report = observation?.report ?? {};
  return {
    observedGeneration: -1,
    ...previous,
    ...reportedFacts(report),
    ...reportedUpdate(report),
    ...(observation?.agent && { agent: observation.agent }),
    ...(provisioned && {
      archId: provisioned.archId || previous?.archId,
      containerEngine: report.config?.containerEngine ?? provisioned.containerEngine ?? previous?.containerEngine,
    }),
    daemonStatus: daemonState(node, observation, alive),
  };
}

/** The report of the agent about its machine, without measurements. */
function reportedFacts(report: StatusReport): Partial<EdgeNodeStatus> {
  const { config } = report;
  return withoutAbsent({
    version: report.version,
    ipAddress: report.ipAddress,
    ipAddressExternal: report.ipAddressExternal,
    warningMessage: report.warningMessage === undefined ? undefined : cut(report.warningMessage, BOUNDS.message),
    systemOs: report.systemOs,
    systemOsVersion: report.systemOsVersion,
    systemKernelVersion: report.systemKernelVersion,
    systemCpus: amount(report.systemCpus),
    systemTotalMemory: amount(report.systemTotalMemory),
    systemTotalDisk: amount(report.systemTotalDisk),
    availableRuntimes: report.availableRuntimes && [...report.availableRuntimes].sort(),
    availableCdiDevices: report.availableCdiDevices && [...report.availableCdiDevices].sort(),
    isReadyToUpgrade: report.isReadyToUpgrade,
    isReadyToRollback: report.isReadyToRollback,
    config,
    containerEngine: config?.containerEngine,
    refusedSettings: report.refusedSettings,
  });
}

/** The stored counts of actions, raised to those that a machine reports. */
export function countedActions(
  { status }: EdgeNode,
  reported: NonNullable<StatusReport['actions']>,
): NonNullable<EdgeNodeStatus['actions']> {
  const before = status?.actions ?? {};
  const counts = Object.entries(reported).flatMap(([action, value = 0]) =>
    isReportedCount(value) ? [[action, Math.max(value, before[action as NodeAction] ?? 0)]] : [],
  );
  return { ...before, ...Object.fromEntries(counts) };
}

const amount = (value: number | undefined): number | undefined =>
  value === undefined ? undefined : Math.min(Math.max(0, Math.round(value)), Number.MAX_SAFE_INTEGER);

const withoutAbsent = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T;
