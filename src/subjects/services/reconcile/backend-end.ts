import type { Service } from '../../../api/v3/service.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { done, type Outcome, refOf, requeueAfter } from '../../../kube/mod.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { entryUuid } from '../../../rules/names.ts';
import { RESOURCES } from '../../kinds.ts';
import { backendOf } from '../rules/backend.ts';

/** The pause until another look at a backend that the API server has and the stores do not show, ms. */
const BEHIND_MS = 5_000;

/** Ends services whose microservice or node was deleted. */
export function createBackendEnd({
  client,
  namespace,
  lookups,
}: Pick<ControllerDependencies, 'client' | 'namespace' | 'lookups'>) {
  /** The backend that its status recorded for the present spec, and that no longer exists. */
  function lostBackend(service: Service): NonNullable<Service['status']>['backend'] {
    const { spec, status, metadata } = service;
    const { backend, observedGeneration } = status ?? {};
    // A backend that was never seen may still be created: nothing is deleted by absence.
    if (!backend || observedGeneration !== metadata.generation || metadata.deletionTimestamp) return undefined;
    if (backendOf(service, lookups)) return undefined;
    const isThere =
      spec.type === 'agent'
        ? lookups.nodeByUuid(backend.uuid) !== undefined
        : lookups.applicationsWithEntry(backend.uuid).length > 0;
    return isThere ? undefined : backend;
  }

  /** Whether the API server has it: the stores of a new leader may be behind the API server. */
  async function exists({ spec }: Service, backend: { uuid: string; object: string }, signal: AbortSignal) {
    const ref = { namespace, name: backend.object };
    if (spec.type === 'agent') {
      const node = await client.find(RESOURCES.nodes, ref, { signal });
      return node !== undefined && nodeUuid(node) === backend.uuid;
    }
    const application = await client.find(RESOURCES.applications, ref, { signal });
    const entries = application?.spec.microservices ?? [];
    return application !== undefined && entries.some((entry) => entryUuid(application, entry) === backend.uuid);
  }

  async function endWith(service: Service, backend: { uuid: string; object: string }, signal: AbortSignal) {
    if (await exists(service, backend, signal)) return requeueAfter(BEHIND_MS);
    const { uid, resourceVersion } = service.metadata;
    const preconditions = { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) };
    await client.delete(RESOURCES.services, refOf(service), { signal, preconditions });
    return done();
  }

  return {
    takeOver(service: Service, signal: AbortSignal): Promise<Outcome> | undefined {
      const backend = lostBackend(service);
      return backend && endWith(service, backend, signal);
    },
  };
}
