import type { MicroserviceStatus } from '../../../../../src/wire/agent.ts';
import { AgentError } from '../../../domain/agent-error.ts';
import type { LocalRow } from '../../../local/row.ts';

/** How far a deployed microservice is, in this order. */
export const APPLY_STAGES = ['parsing', 'pulling', 'creating', 'starting', 'persisting', 'done'] as const;
export type ApplyStage = (typeof APPLY_STAGES)[number];

/** A deployed microservice as it is now. */
export interface ApplyProgress {
  /** the row as it is now; absent: it was removed */
  row: LocalRow | undefined;
  /** absent: the supervision has not looked at it yet */
  status: MicroserviceStatus | undefined;
  /** whether there is an engine that the status can be of; until the first look at an engine after its return, the status is from before */
  hasEngine: boolean;
}

/** What the progress of an apply is read from. */
export interface FollowedAgent {
  readonly own: { readonly rows: ReadonlyMap<string, LocalRow> };
  /** undefined until the engine was read once */
  microservices(): readonly MicroserviceStatus[] | undefined;
  readonly supervisor: { readonly engine: { state: 'connected' | 'connecting' | 'lost' } };
}

export const applyProgressOf = (agent: FollowedAgent, uuid: string): ApplyProgress => ({
  row: agent.own.rows.get(uuid),
  status: agent.microservices()?.find(({ id }) => id === uuid),
  hasEngine: agent.supervisor.engine.state === 'connected',
});

const STAGES: Readonly<Partial<Record<MicroserviceStatus['status'], ApplyStage>>> = {
  PULLING: 'pulling',
  CREATING: 'creating',
  CREATED: 'starting',
  STARTING: 'starting',
  UPDATING: 'starting',
};

/** The stage that a status stands for; undefined for a status that says nothing of it. */
export const stageOf = ({ status }: ApplyProgress): ApplyStage | undefined => status && STAGES[status.status];

/** States and reasons by which a microservice does not become what was deployed by itself soon. */
const ENDS: readonly ((status: MicroserviceStatus, hasEngine: boolean) => boolean | undefined)[] = [
  ({ status }) => status === 'FAILED' || status === 'STUCK_IN_RESTART' || status === 'RESTARTING',
  // an old container runs on, since the new one cannot be had
  ({ status, reason }) => status === 'RUNNING' && reason !== undefined,
  ({ reason }) => reason === 'PortTaken' || reason === 'NetworkFailed',
  ({ reason }, hasEngine) => reason === 'EngineUnavailable' && !hasEngine,
];

/**
 * Whether what was deployed runs. Throws an AgentError when that is not to be expected: the row was changed since, or an attempt
 * has failed. Pure.
 */
export function hasArrived(deployed: LocalRow, { row, status, hasEngine }: ApplyProgress): boolean {
  if (!row || row.desiredState === 'deleted') throw new AgentError('CONFLICT', 'it was removed meanwhile');
  if (row.generation !== deployed.generation)
    throw new AgentError('CONFLICT', 'another manifest was applied meanwhile');
  if (row.desiredState === 'stopped') throw new AgentError('CONFLICT', 'it was stopped meanwhile');
  if (!status) return false;
  if (status.status === 'RUNNING' && status.revision === row.view?.revision && !status.reason) return true;
  if (!ENDS.some((ends) => ends(status, hasEngine))) return false;
  const why = status.errorMessage || status.lastError || status.status;
  throw new AgentError('UNAVAILABLE', `${status.reason ?? status.status}: ${why}. The agent goes on trying`);
}
