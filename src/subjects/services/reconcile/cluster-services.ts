import { FIELD_MANAGERS } from '../../../api/names.ts';
import type { Service } from '../../../api/v3/service.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import {
  applyOwned,
  createStore,
  deleteOwned,
  keyFor,
  type Resource,
  refOf,
  startReflector,
  type Watch,
} from '../../../kube/mod.ts';
import type { ServiceSettings } from '../../../rules/service-settings.ts';
import { type ClusterService, clusterServiceOf, hasWanted, madeLabels } from '../rules/cluster-service.ts';

const RESOURCE: Resource<ClusterService> = {
  ...{ group: '', version: 'v1', plural: 'services', kind: 'Service' },
  namespaced: true,
};

/** The Services of the cluster that the controller makes: each is a child of a Service of ours and ends with it. */
export function createClusterServices(
  { client, namespace, log }: Pick<ControllerDependencies, 'client' | 'namespace' | 'log'>,
  settings: ServiceSettings,
) {
  const labels = madeLabels(settings);
  const store = createStore<ClusterService>({ resource: RESOURCE, selection: { namespace, labels }, indexes: {}, log });
  /** what each was made from by this process, by its name: annotations that are wanted no more are not seen in it */
  const applied = new Map<string, string>();

  return {
    /**
     * Makes or changes the Service of the cluster, unless it is as wanted. Resolves with it; undefined when something else has the
     * name, which is left as it is.
     */
    async keep(service: Service, bridgePort: number, signal: AbortSignal): Promise<ClusterService | undefined> {
      const wanted = clusterServiceOf(service, bridgePort, settings);
      const { name } = service.metadata;
      const text = JSON.stringify([service.metadata.uid, wanted]);
      const present = store.get(namespace, name);
      if (present && applied.get(name) === text && hasWanted(present, wanted)) return present;
      applied.delete(name);
      const options = { signal, fieldManager: FIELD_MANAGERS.controller };
      const made = await applyOwned(client, RESOURCE, service, wanted, options);
      if (!made) return undefined;
      store.observe(made);
      applied.set(name, text);
      return made;
    },

    /** Deletes the Service that was made for a service, which leads somewhere else now. */
    async remove(service: Service, signal: AbortSignal): Promise<void> {
      const { name } = service.metadata;
      applied.delete(name);
      if (store.get(namespace, name))
        await deleteOwned(client, RESOURCE, service, refOf(service) as { namespace: string; name: string }, signal);
    },

    /** Leads to the services whose Service of the cluster somebody changed or deleted. */
    watch: {
      whenSynced: async () => {},
      start(enqueue) {
        const reflector = startReflector({ client, store, log });
        const subscription = store.subscribe(({ object: { metadata } }) =>
          enqueue(keyFor(namespace, metadata.name), false),
        );
        return {
          [Symbol.dispose]() {
            subscription[Symbol.dispose]();
            void reflector[Symbol.asyncDispose]();
          },
        };
      },
    } satisfies Watch,
  };
}
