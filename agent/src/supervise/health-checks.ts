import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import { type Container, runKey } from '../engine-port/container.ts';
import type { HealthPort } from '../engine-port/health.ts';
import { errorText } from '../machine/log.ts';

/** A check is not carried out more often, ms, whatever the interval of a container says: each starts a process. */
const LEAST_INTERVAL = 1000;

export interface HealthCheckPorts {
  engine: HealthPort;
  clock: Clock;
  log: Log;
  /** the health of a container may be another one now */
  changed(): void;
}

/**
 * Runs health checks where an engine leaves that to another program (podman without systemd). One loop for each run of a
 * container: the first check comes an interval after the start, and never two at a time. The engine is asked whether a
 * check has been carried out lately, so that an engine which checks by itself is not disturbed.
 */
export class HealthChecks {
  readonly #ports: HealthCheckPorts;
  #loops = new Map<string, AbortController>();

  constructor(ports: HealthCheckPorts) {
    this.#ports = ports;
  }

  /** Starts loops for running containers and ends those of all others. */
  follow(containers: readonly Container[]): void {
    const due = new Map(
      containers
        .filter(({ state, paused, checkEvery }) => state === 'running' && !paused && checkEvery)
        .map((container) => [runKey(container), container]),
    );
    for (const [key, loop] of this.#loops)
      if (!due.has(key)) {
        loop.abort();
        this.#loops.delete(key);
      }
    for (const [key, { id, checkEvery = 0 }] of due) {
      if (this.#loops.has(key)) continue;
      const loop = new AbortController();
      this.#loops.set(key, loop);
      void this.#check(id, Math.max(checkEvery, LEAST_INTERVAL), loop.signal);
    }
  }

  /** Ends all loops. */
  stop(): void {
    this.follow([]);
  }

  async #check(id: string, every: number, signal: AbortSignal): Promise<void> {
    const { engine, clock, log, changed } = this.#ports;
    for (;;) {
      await sleep(every, signal, clock);
      if (signal.aborted) return;
      try {
        await engine.checkHealth(id, clock.wall() - 0.75 * every, signal);
      } catch (error) {
        if (signal.aborted) return;
        log.debug({ containerId: id.slice(0, 12), error: errorText(error) }, 'A health check could not be carried out');
      }
      changed();
    }
  }
}
