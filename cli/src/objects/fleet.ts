import type { Application, CatalogItem, EdgeNode } from '../../../src/api/v3/index.ts';
import type { Service } from '../../../src/api/v3/service.ts';
import { createStore, type KubeObject, type Resource, startReflector } from '../../../src/kube/mod.ts';
import {
  APPLICATIONS,
  type CommandContext,
  catalogItemsFor,
  EDGE_SERVICES,
  listApplications,
  listNodes,
  listServices,
  NODES,
} from '../context/command.ts';

/** The objects that rows are made from. Kinds that were not asked for are empty. */
export interface Fleet {
  nodes: readonly EdgeNode[];
  applications: readonly Application[];
  services: readonly Service[];
  /** those that a wide listing needs */
  catalogItems: readonly CatalogItem[];
}

export interface FleetQuery {
  nodes?: boolean;
  applications?: boolean;
  services?: boolean;
  catalogItems?: boolean;
}

/** The fleet as it is now. */
export async function readFleet(context: CommandContext, wanted: FleetQuery): Promise<Fleet> {
  const [nodes, applications, services] = await Promise.all([
    wanted.nodes ? listNodes(context) : [],
    wanted.applications ? listApplications(context) : [],
    wanted.services ? listServices(context) : [],
  ]);
  return {
    nodes,
    applications,
    services,
    catalogItems: wanted.catalogItems ? await catalogItemsFor(context, applications) : [],
  };
}

/**
 * The fleet after each change, several changes of one moment at once; catalog items stay those of `first`. Continues after a lost
 * connection, and ends with the signal.
 */
export async function* followFleet(context: CommandContext, wanted: FleetQuery, first: Fleet): AsyncGenerator<Fleet> {
  const { signal } = context;
  let wake = () => {};
  await using open = new AsyncDisposableStack();
  function storeOf<T extends KubeObject>(resource: Resource<T>) {
    const { client, namespace } = context.cluster;
    const store = createStore({ resource, selection: { namespace } });
    open.use(store.subscribe(() => wake()));
    open.use(startReflector({ client, store }, signal));
    return store;
  }
  const nodes = wanted.nodes ? storeOf(NODES) : undefined;
  const applications = wanted.applications ? storeOf(APPLICATIONS) : undefined;
  const services = wanted.services ? storeOf(EDGE_SERVICES) : undefined;
  await Promise.all([nodes, applications, services].map((store) => store?.whenSynced(signal)));
  const onAbort = () => wake();
  signal.addEventListener('abort', onAbort);
  open.defer(() => signal.removeEventListener('abort', onAbort));
  while (!signal.aborted) {
    const changed = new Promise<void>((resolve) => {
      wake = resolve;
    });
    yield {
      ...first,
      ...(nodes && { nodes: nodes.list() }),
      ...(applications && { applications: applications.list() }),
      ...(services && { services: services.list() }),
    };
    await changed;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
