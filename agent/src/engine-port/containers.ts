import type { Container } from './container.ts';
import type { ContainerSpec } from './container-spec.ts';

/** Ends and removes containers, of whatever agent. */
export interface EndPort {
  /** SIGTERM, after the grace SIGKILL. A container that does not run is no error. */
  stop(id: string, graceSeconds: number, signal?: AbortSignal): Promise<void>;
  kill(id: string, posixSignal: string, signal?: AbortSignal): Promise<void>;
  /** Removes a stopped container; anonymous volumes go with it. An absent container is no error. */
  remove(id: string, signal?: AbortSignal): Promise<void>;
}

/** The containers of this agent: reads, makes and changes them. */
export interface ContainerPort extends EndPort {
  /** All containers of this agent, running or not. */
  containers(signal?: AbortSignal): Promise<Container[]>;
  create(spec: ContainerSpec, signal?: AbortSignal): Promise<{ id: string; imageId: string }>;
  start(id: string, signal?: AbortSignal): Promise<void>;
  /** A container's first process; 0 when it does not run. */
  processOf(id: string, signal?: AbortSignal): Promise<number>;
  /** Resumes a paused container. A container that is not paused is no error. */
  resume(id: string, signal?: AbortSignal): Promise<void>;
  rename(id: string, name: string, signal?: AbortSignal): Promise<void>;
}
