import { afterAll, beforeAll, beforeEach } from 'vitest';
import { type InMemoryController, NAMESPACE, startInMemoryController } from '../../../testing/in-memory-controller.ts';
import type { Service } from '../../api/v3/service.ts';
import type { Resource } from '../../kube/mod.ts';
import type { ServiceLinks } from '../../rules/service-settings.ts';
import type { ClusterService } from './rules/cluster-service.ts';

/** Services of the cluster. */
export const CORE_SERVICES: Resource<ClusterService> = {
  ...{ group: '', version: 'v1', plural: 'services', kind: 'Service' },
  namespaced: true,
};

/** Routers that have every service. */
const ALL_CURRENT: ServiceLinks = {
  of: () => ({
    connected: { status: 'True', reason: 'Usable' },
    listening: { status: 'True', reason: 'Usable' },
    listeners: { up: 1, of: 1 },
  }),
  subscribe: () => ({ [Symbol.dispose]: () => {} }),
};

/** Options of a controller in memory in which services act. */
export const servicesOn = (env: Record<string, string> = {}) => ({
  env: { ROUTERS_ENABLED: 'true', ...env },
  serviceLinks: ALL_CURRENT,
});

/** A controller in memory with routers, whose objects are removed before each test. */
export function servicesInMemory(nodes: number, env: Record<string, string> = {}) {
  let fleet: InMemoryController;
  beforeAll(async () => {
    fleet = await startInMemoryController(nodes, servicesOn(env));
  }, 60_000);
  afterAll(() => fleet[Symbol.asyncDispose]());
  beforeEach(() => fleet.reset());
  const ref = (name: string) => ({ namespace: NAMESPACE, name });
  return {
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
