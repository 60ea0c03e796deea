import { afterAll, beforeAll, beforeEach } from 'vitest';
import { type InMemoryController, NAMESPACE, startInMemoryController } from '../../../testing/in-memory-controller.ts';
import type { Service } from '../../api/v3/service.ts';
import type { Stores } from '../../datastore/stores.ts';
import type { Resource } from '../../kube/mod.ts';
import type { RouterHubEnds } from '../../rules/router-hub.ts';
import type { ClusterService } from './rules/cluster-service.ts';

/** Services of the cluster. */
export const CORE_SERVICES: Resource<ClusterService> = {
  ...{ group: '', version: 'v1', plural: 'services', kind: 'Service' },
  namespaced: true,
};

/** What the leader knows of a default router that has every service, until a test says otherwise. */
class TestHub implements RouterHubEnds {
  isThere = true;
  unreachedSince: number | undefined;
  of: RouterHubEnds['of'] = () => undefined;
  readonly #listeners = new Set<(names: readonly string[]) => void>();

  subscribe(listener: (names: readonly string[]) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  tell(names: readonly string[]): void {
    for (const listener of this.#listeners) listener(names);
  }

  /** It has all services that are in the store, at their ports. */
  hasAll(stores: Stores): this {
    this.unreachedSince = undefined;
    this.of = (end) => {
      const service = stores.services.get(NAMESPACE, end.replace(/-(listener|connector)$/, ''));
      if (!service) return undefined;
      const { spec, status } = service;
      return end.endsWith('-listener')
        ? { port: String(status?.bridgePort) }
        : { port: String(spec.targetPort), host: spec.resource };
    };
    return this;
  }
}

/** Options of a controller in memory in which services act. */
export const servicesOn = (env: Record<string, string> = {}, hub = new TestHub()) => ({
  env: { ROUTERS_ENABLED: 'true', ...env },
  hubEnds: (stores: Stores) => hub.hasAll(stores),
});

/** A controller in memory with routers, whose objects are removed before each test. */
export function servicesInMemory(nodes: number, env: Record<string, string> = {}) {
  let fleet: InMemoryController;
  const hub = new TestHub();
  beforeAll(async () => {
    fleet = await startInMemoryController(nodes, servicesOn(env, hub));
  }, 60_000);
  afterAll(() => fleet[Symbol.asyncDispose]());
  beforeEach(() => {
    hub.hasAll(fleet.stores);
    return fleet.reset();
  });
  const ref = (name: string) => ({ namespace: NAMESPACE, name });
  return {
    hub,
    get fleet() {
      return fleet;
    },
    /** the present object */
    service: (name: string): Service | undefined => fleet.stores.services.get(NAMESPACE, name),
    /** the condition Ready */
    ready(name: string) {
      const conditions = fleet.stores.services.get(NAMESPACE, name)?.status?.conditions ?? [];
      return conditions.find(({ type }) => type === 'Ready');
    },
    inCluster: (name: string): Promise<ClusterService | undefined> =>
      fleet.cluster.client.find(CORE_SERVICES, ref(name)),
    /** sends a request, and waits until the controller is at rest */
    async send(method: string, path: string, body?: object) {
      const answer = await fleet.request(method, path, { token: 'admin', ...(body && { body }) });
      await fleet.settle();
      return answer;
    },
  };
}
