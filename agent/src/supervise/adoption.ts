import type { Log } from '../../../src/lib/log.ts';
import { findOrphans, instanceOf } from '../domain/orphans.ts';
import type { ContainerPort } from '../engine-port/containers.ts';
import type { OtherAgentContainer, OwnershipPort } from '../engine-port/ownership.ts';
import { errorText } from '../machine/log.ts';
import type { Database } from '../state/database.ts';
import type { OwnIdentity } from '../state/own-identity.ts';

export interface AdoptionDependencies {
  engine: ContainerPort & OwnershipPort;
  identity: OwnIdentity;
  database: Pick<Database, 'saveValue'>;
  log: Log;
  /** whether the agent of an instance runs on this machine */
  isAlive(instance: string): Promise<boolean>;
}

/** Containers of agents that no longer exist: those of this node are adopted, others are removed on demand. */
export class Adoption {
  readonly #deps: AdoptionDependencies;
  #adopted: (instance: string) => void = () => {};

  constructor(deps: AdoptionDependencies) {
    this.#deps = deps;
  }

  /** Has a function act on another instance id of the agent. */
  onAdopted(act: (instance: string) => void): void {
    this.#adopted = act;
  }

  /**
   * Becomes the installation that made the containers of this node, unless the agent has containers of its own: the data
   * of that installation was lost, and its containers are what the controller wants here. Answers whether it did.
   */
  async adopt(signal?: AbortSignal): Promise<boolean> {
    const { engine, identity, database, log } = this.#deps;
    const { node } = identity.current;
    if (!node || (await engine.containers(signal)).length > 0) return false;
    const instance = instanceOf(await this.orphans(signal), node.uuid);
    if (!instance) return false;
    log.warn({ instance }, 'Adopting the containers of an earlier installation of this node');
    try {
      identity.become({ ...identity.current, instance });
      database.saveValue('instance', instance);
    } catch (error) {
      log.error({ error: errorText(error) }, 'Cannot save the identity');
    }
    engine.become(instance);
    this.#adopted(instance);
    return true;
  }

  /**
   * Adopts while the supervisor has a connection to the engine, which it then must renew. It must as well when the engine
   * does not answer: the next connection adopts before anything is made, and the present one would not.
   */
  async adoptNow(supervisor: { reconnect(): void }): Promise<void> {
    try {
      if (!(await this.adopt(AbortSignal.timeout(10_000)))) return;
    } catch (error) {
      this.#deps.log.warn({ error: errorText(error) }, 'Cannot look for containers of an earlier installation');
    }
    supervisor.reconnect();
  }

  /** Containers of agents that no longer exist, of any node. */
  orphans(signal?: AbortSignal): Promise<OtherAgentContainer[]> {
    return findOrphans(this.#deps.engine, this.#deps.isAlive, signal);
  }

  /** Stops and removes the orphans with these names, or all where there are no names; answers those. */
  async removeOrphans(names: readonly string[], signal?: AbortSignal): Promise<OtherAgentContainer[]> {
    const { engine, log } = this.#deps;
    const orphans = await this.orphans(signal);
    const found = orphans.filter(({ name }) => names.length === 0 || names.includes(name));
    for (const { id, name, application, microservice } of found) {
      log.info({ name, application, microservice }, 'Removing an orphan');
      await engine.stop(id, 10, signal);
      await engine.remove(id, signal);
    }
    return found;
  }
}
