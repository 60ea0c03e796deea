import type { MicroserviceSource } from '../../../domain/wanted.ts';
import type { Grant } from '../../server/grants.ts';

/** Reading of a microservice. */
export const READ: Grant = { resource: 'microservices', verb: 'get' };
/** What acts on microservices that may be the control plane. */
export interface ActingAgent {
  sourceOf(uuid: string): MicroserviceSource;
  readonly controlPlane: { requireUnprovisioned(what: string): void };
}

/** Throws FORBIDDEN for the control plane, while it may manage this machine: its controller would end with it. */
export function requireMayAct(agent: ActingAgent, uuid: string, what: string): void {
  if (agent.sourceOf(uuid) === 'controlplane') agent.controlPlane.requireUnprovisioned(what);
}

/** Starting, stopping and the like are POST requests. */
export const ACT: Grant = { resource: 'microservices', verb: 'create' };
