import { AgentError } from '../domain/agent-error.ts';
import { type Capable, can } from '../engine-port/engine.ts';

const LACKS = {
  exec: 'the container engine of this machine starts no programs in containers',
  logs: 'the container engine of this machine keeps no logs of containers',
} as const;

/** The engine with a capability that a session needs. Throws AgentError where it lacks it. */
export function withCapability<C extends keyof typeof LACKS>(engine: Capable, capability: C) {
  if (!can(engine, capability)) throw new AgentError('CONFLICT', LACKS[capability]);
  return engine;
}
