import type { Clock } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { MicroserviceStatus } from '../../../src/wire/agent.ts';
import type { OtherAgentContainer } from '../engine-port/ownership.ts';
import { errorText } from '../machine/log.ts';
import { type ContainerUsage, UsageReader } from '../machine/usage.ts';
import type { Adoption } from './adoption.ts';
import type { Supervisor } from './supervisor.ts';
import { type WatchdogDependencies, watch } from './watchdog.ts';

export interface InventoryDependencies {
  engine: WatchdogDependencies['engine'];
  clock: Clock;
  log: Log;
  supervisor: Pick<Supervisor, 'containers' | 'statuses' | 'engine'>;
  adoption: Pick<Adoption, 'orphans'>;
  /** whether the watchdog is on, and whether it removes what it finds */
  isWatching(): boolean;
  isRemoving(): boolean;
}

/** What was last found at the engine in addition to what the supervisor needs: usage, foreign containers, orphans. */
export class Inventory {
  readonly #deps: InventoryDependencies;
  readonly #reader: UsageReader;
  #usage: ReadonlyMap<string, ContainerUsage> = new Map();
  #foreignContainers: readonly string[] | undefined;
  #orphans: readonly OtherAgentContainer[] = [];

  constructor(deps: InventoryDependencies) {
    this.#deps = deps;
    this.#reader = new UsageReader(() => deps.clock.now());
  }

  /** Names of the containers that are not of this agent; looked up only while the watchdog is on. */
  get foreignContainers(): readonly string[] {
    return this.#foreignContainers ?? [];
  }

  get orphans(): readonly OtherAgentContainer[] {
    return this.#orphans;
  }

  /** The status of each microservice, with its usage; undefined until the engine was read once. */
  microservices(): MicroserviceStatus[] | undefined {
    return this.#deps.supervisor.statuses()?.map((status) => withUsage(status, this.#usage));
  }

  async measureUsage(): Promise<void> {
    this.#usage = await this.#reader.read(this.#deps.supervisor.containers);
  }

  /** Reads what a report needs. What cannot be read stays as it was. */
  async refresh(measurements: boolean): Promise<void> {
    const { supervisor, isWatching } = this.#deps;
    if (measurements) await this.measureUsage();
    if (supervisor.engine.state !== 'connected') return;
    if (isWatching() && (measurements || this.#foreignContainers === undefined)) await this.#refreshForeignContainers();
    if (measurements) await this.refreshOrphans().catch(() => {});
  }

  async refreshOrphans(signal?: AbortSignal): Promise<void> {
    this.#orphans = await this.#deps.adoption.orphans(signal);
  }

  async #refreshForeignContainers(): Promise<void> {
    const { log, isRemoving } = this.#deps;
    try {
      this.#foreignContainers = await watch(this.#deps, isRemoving());
    } catch (error) {
      log.debug({ error: errorText(error) }, 'Cannot list foreign containers');
    }
  }
}

/** A status with what its container uses, while it runs. */
function withUsage(status: MicroserviceStatus, usage: ReadonlyMap<string, ContainerUsage>): MicroserviceStatus {
  const one = status.status === 'RUNNING' && status.containerId ? usage.get(status.containerId) : undefined;
  return one ? { ...status, cpuUsage: one.cpu, memoryUsage: one.memory } : status;
}
