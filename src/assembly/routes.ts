import type { Kind } from '../kinds/definition.ts';
import { constantReply } from '../rest/contract/constant-reply.ts';
import { grouped, route, type TaggedRoute } from '../rest/contract/route.ts';
import { crudRoutes } from '../rest/crud/crud.ts';
import { anyObject } from '../rest/crud/shapes.ts';
import { capabilityRoutes } from '../rest/routes/capabilities.ts';
import { clusterRoutes } from '../rest/routes/cluster.ts';
import { controllerRoutes } from '../rest/routes/controller.ts';
import { eventRoutes } from '../rest/routes/events.ts';
import { openApiDocument } from '../rest/server/openapi.ts';
import { KINDS, type Kinds } from '../subjects/kinds.ts';
import { SUBJECTS } from './subjects.ts';

/** Routes of kinds that need more than the plain ones, by key. */
const OF_KINDS: Readonly<Record<string, readonly TaggedRoute[]>> = Object.assign(
  {},
  ...SUBJECTS.map(({ routes = {} }) => routes),
);

const routesOfKind = (kind: Kind): readonly TaggedRoute[] =>
  OF_KINDS[kind.key] ?? (kind.rest.crud ? crudRoutes(kind, kind.rest.crud) : []);

/** Every route of the REST API: the router, the list of permissions and the OpenAPI document are made from it. */
export function createRoutes(kinds: Kinds): readonly TaggedRoute[] {
  const { nodes, ...others } = kinds;
  const routes: TaggedRoute[] = [
    ...controllerRoutes,
    ...capabilityRoutes,
    ...grouped('Controller', [
      route({
        method: 'GET',
        path: '/openapi.json',
        operation: 'getOpenApi',
        summary: 'This description',
        access: 'public',
        reply: { status: 200, schema: anyObject },
        handler: () => document,
      }),
    ]),
    ...[nodes, ...Object.values(others)].flatMap((kind) => (kind ? routesOfKind(kind) : [])),
    ...SUBJECTS.flatMap(({ furtherRoutes = [] }) => furtherRoutes),
    ...clusterRoutes,
    ...eventRoutes,
  ];
  const document = constantReply(() => openApiDocument(routes));
  return routes;
}

export const routes = createRoutes(KINDS);
