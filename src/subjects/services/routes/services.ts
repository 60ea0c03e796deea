import { ANNOTATIONS } from '../../../api/names.ts';
import type { Service } from '../../../api/v3/service.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { grouped, route } from '../../../rest/contract/route.ts';
import { type CrudHooks, crudRoutes } from '../../../rest/crud/crud.ts';
import { nameParam } from '../../../rest/crud/shapes.ts';
import { edit, withChanges } from '../../../rest/objects/edit.ts';
import { accessByKey, presentObject } from '../../../rest/objects/lookup.ts';
import { verdictError } from '../../../rules/errors.ts';
import { ROUTER_HUB_OBJECT } from '../../../rules/router-hub.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import { routerHubSettings } from '../../routers/rules/hub.ts';
import { serviceCrud, serviceKind } from '../kinds/service.ts';
import { backendOf } from '../rules/backend.ts';
import { requestedReconciles } from '../rules/provisioning.ts';
import { serviceRead } from '../rules/read.ts';
import { placeVerdict } from '../rules/verdict.ts';

/** The routes of services (docs/spec/rest-v3.md#services). */

/** The fault of a service in this installation. Objects that another replica made a moment ago are read. */
async function judge(deps: RestDependencies, service: Service, signal: AbortSignal): Promise<Verdict | undefined> {
  const { lookups, self, nodes, applications, routerHubs } = deps;
  const facts = {
    get hasDefaultRouter() {
      if (self.controlPlane === 'remote') return nodes.find('system', 'true').length > 0;
      const hub =
        self.hasRouters === true && routerHubs.list().find(({ metadata }) => metadata.name === ROUTER_HUB_OBJECT);
      return hub !== undefined && hub !== false && routerHubSettings(hub).host !== undefined;
    },
  };
  const now = () => placeVerdict(service, { lookups, controlPlane: self.controlPlane, facts });
  const first = now();
  if (first?.status !== 404) return first;
  await (service.spec.type === 'agent' ? nodes : applications).refresh(signal);
  return now();
}

/** A name of ours is stored as the uuid that it means. */
function withUuid({ lookups }: RestDependencies, service: Service): Service {
  const backend = backendOf(service, lookups);
  return backend ? withChanges(service, { spec: { ...service.spec, resource: backend.uuid } }) : service;
}

const hooks: CrudHooks<Service, { name?: string; spec: Service['spec'] }> = {
  async create(deps, service, _write, signal) {
    return deps.services.create(withUuid(deps, service), signal);
  },
  async change(deps, service, { spec }) {
    const changed = withUuid(deps, withChanges(service, { spec }));
    const annotations = {
      ...changed.metadata.annotations,
      [ANNOTATIONS.updatedAt]: new Date(deps.clock()).toISOString(),
    };
    return { ...changed, metadata: { ...changed.metadata, annotations } };
  },
  // What was wrong before may stay so while something else is changed.
  async permit(_caller, service, before, deps) {
    const signal = AbortSignal.timeout(10_000);
    const verdict = await judge(deps, service, signal);
    if (!verdict) return;
    const known =
      before && before.spec.resource === service.spec.resource ? await judge(deps, before, signal) : undefined;
    if (known?.code !== verdict.code || known.field !== verdict.field) throw verdictError(verdict);
  },
};

const byName = accessByKey(serviceKind);

export const serviceRoutes = [
  ...crudRoutes(serviceKind, serviceCrud, hooks),
  ...grouped('Services', [
    route({
      method: 'POST',
      path: '/services/{name}/reconcile',
      operation: 'reconcileService',
      summary: 'Attempt again to make a service in the hub and the cluster',
      description: '`provisioningStatus` is pending from then on, and counts ten attempts again.',
      access: { resource: 'services', verb: 'patch', ...byName },
      params: nameParam,
      reply: { status: 200, schema: serviceCrud.shapes.read },
      errors: [404, 409],
      needs: () => [serviceKind.key],
      async handler({ deps, params: { name }, signal }) {
        const service = await edit(
          deps.services,
          () => presentObject(deps, serviceKind, name, signal),
          async (present) => {
            const count = Math.max(requestedReconciles(present), present.status?.reconciles ?? 0) + 1;
            const annotations = { ...present.metadata.annotations, [ANNOTATIONS.reconcile]: String(count) };
            return { ...present, metadata: { ...present.metadata, annotations } };
          },
          signal,
        );
        const { id } = service.status ?? {};
        return { ...(id !== undefined && { id }), ...serviceRead(service) } as never;
      },
    }),
  ]),
];
