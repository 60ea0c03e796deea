import { z } from 'zod';
import { type RouterHub, routerHubSpecSchema } from '../../../api/v3/router-hub.ts';
import { replyShape } from '../../../kinds/rest.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { badRequest, notFound } from '../../../rest/contract/errors.ts';
import { grouped, route } from '../../../rest/contract/route.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { putOnlyOne, readOnlyOne } from '../../../rest/objects/only-one.ts';
import { holder } from '../../../rules/precedence.ts';
import { ROUTER_HUB_OBJECT } from '../../../rules/router-hub.ts';
import { routerHubKind } from '../kinds/router-hub.ts';
import { type RouterHubSettings, requireRouterHub, routerHubSettings, routerHubSettingsOfNode } from '../rules/hub.ts';

const { host, messagingPort, edgeRouterPort, interRouterPort } = routerHubSpecSchema.shape;
const fields = { messagingPort, edgeRouterPort, interRouterPort };
const body = z.object({ host: host.unwrap(), ...fields }).meta({ id: 'DefaultRouterConfiguration' });
const port = z.number().int();
const shape = replyShape(
  {
    host: z.string().nullable().describe('null while the Service of the router has no address'),
    ...{ messagingPort: port, edgeRouterPort: port, interRouterPort: port },
  },
  'DefaultRouter',
);

const shown = (settings: RouterHubSettings) => ({ host: null, ...settings });
const read = (hub: RouterHub) => shown(routerHubSettings(hub));

const only = ({ routerHubs }: RestDependencies) => ({
  objects: routerHubs,
  kind: routerHubKind.resource.kind,
  name: ROUTER_HUB_OBJECT,
  require: requireRouterHub,
});

/** Outside of a cluster the router of the first node of the system is the default router. */
function ofSystem({ self, nodes }: RestDependencies): RouterHubSettings | undefined {
  if (self.controlPlane !== 'remote') return undefined;
  const first = holder(nodes.find('system', 'true').filter((node) => isPresent(node)));
  return first && routerHubSettingsOfNode(first);
}

/** The default router: one, so that it has no name in a path. */
export const routerHubRoutes = grouped(routerHubKind.rest.tag, [
  route({
    method: 'GET',
    path: '/router',
    operation: 'getDefaultRouter',
    summary: 'The default router, to which routers of nodes connect',
    access: { resource: 'router', verb: 'get' },
    reply: { status: 200, schema: shape },
    errors: [404],
    async handler({ deps, signal }) {
      const settings = ofSystem(deps);
      if (settings) return shown(settings);
      const hub = deps.self.controlPlane === 'remote' ? undefined : await readOnlyOne(only(deps), signal);
      if (hub) return read(hub);
      throw notFound(
        'ROUTER_HUB_NOT_FOUND',
        deps.self.controlPlane === 'remote'
          ? 'there is no default router: it is the router of the first node with isSystem'
          : 'there is no default router: PUT /router names one',
      );
    },
  }),
  route({
    method: 'PUT',
    path: '/router',
    operation: 'replaceDefaultRouter',
    summary: 'Names the default router, or changes its ports',
    description:
      'Without a router in the cluster, this is a router of yours. Members that the body leaves out get their defaults. Routers of nodes that name no upstreams connect to it. 400 on the control plane remote, whose default router is the router of its first node of the system.',
    access: { resource: 'router', verb: 'update' },
    body: { kind: 'json', schema: body, shows: shape },
    reply: { status: 200, schema: shape },
    errors: [409],
    async handler({ deps, body: settings, signal }) {
      if (deps.self.controlPlane === 'remote')
        throw badRequest(
          'the default router of the control plane remote is the router of its first node with isSystem: change the host and ports of that node',
          'INVALID_ROUTER',
        );
      return read(await putOnlyOne(only(deps), { fields: Object.keys(fields), settings }, signal));
    },
  }),
]);
