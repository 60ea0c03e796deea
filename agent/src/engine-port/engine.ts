import type { ConnectionPort } from './connection.ts';
import type { ContainerPort } from './containers.ts';
import type { ExecPort } from './exec.ts';
import type { HealthPort } from './health.ts';
import type { ImagePort } from './images.ts';
import type { LogPort } from './logs.ts';
import type { NetworkPort } from './networks.ts';
import type { BindsPort, OwnershipPort } from './ownership.ts';

/** The port of each capability: what an engine may lack. */
interface CapabilityPorts {
  exec: ExecPort;
  health: HealthPort;
  logs: LogPort;
}
export type Capability = keyof CapabilityPorts;

/** Declares what an engine can do beyond what each engine does. */
export interface Capable {
  readonly capabilities: ReadonlySet<Capability>;
}

/**
 * A container engine, with one contract test and one adapter for each: the ports that none lacks, and its capabilities. An
 * adapter handles only containers with the agent's own instance id, translates the engine's errors into EngineError, and
 * does not know the desired state.
 */
export interface Engine
  extends ConnectionPort,
    ContainerPort,
    OwnershipPort,
    BindsPort,
    NetworkPort,
    ImagePort,
    Capable {}

/** An engine with every capability. */
export interface CompleteEngine extends Engine, ExecPort, HealthPort, LogPort {}

export const ALL_CAPABILITIES: ReadonlySet<Capability> = new Set(['exec', 'health', 'logs']);

/** Whether an engine has a capability, and so the methods of its port. */
export function can<E extends Capable, C extends Capability>(
  engine: E,
  capability: C,
): engine is E & CapabilityPorts[C] {
  return engine.capabilities.has(capability);
}
