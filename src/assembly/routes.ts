import type { Kind } from '../kinds/definition.ts';
import { constantReply } from '../rest/contract/constant-reply.ts';
import { type AnyRoute, route } from '../rest/contract/route.ts';
import { crudRoutes } from '../rest/crud/crud.ts';
import { anyObject } from '../rest/crud/shapes.ts';
import { capabilityRoutes } from '../rest/routes/capabilities.ts';
import { clusterRoutes } from '../rest/routes/cluster.ts';
import { controllerRoutes } from '../rest/routes/controller.ts';
import { eventRoutes } from '../rest/routes/events.ts';
import { laterRoutes } from '../rest/routes/later.ts';
import { openApiDocument } from '../rest/server/openapi.ts';
import { serviceAccountRoutes } from '../subjects/accounts/routes/service-accounts.ts';
import { registryRoutes } from '../subjects/catalog/routes/registries.ts';
import { coreObjectRoutes } from '../subjects/content/routes/core-objects.ts';
import { volumeMountsOfNodes } from '../subjects/content/routes/mounts-of-nodes.ts';
import { volumeMountRoutes } from '../subjects/content/routes/volume-mounts.ts';
import { KINDS, type Kinds } from '../subjects/kinds.ts';
import { nodeRoutes } from '../subjects/nodes/routes/nodes.ts';
import { topologyRoutes } from '../subjects/nodes/routes/topology.ts';
import { microserviceTemplateCrud } from '../subjects/workloads/kinds/microservice-template.ts';
import { applicationTemplateRoutes } from '../subjects/workloads/routes/application-templates.ts';
import { applicationRoutes } from '../subjects/workloads/routes/applications.ts';
import { debugShellRoutes } from '../subjects/workloads/routes/debug-shell.ts';
import { microservicePartRoutes } from '../subjects/workloads/routes/microservice-parts.ts';
import { microserviceRoutes } from '../subjects/workloads/routes/microservices.ts';
import { templateWarning } from '../subjects/workloads/routes/template-warning.ts';

/** Routes of kinds that need more than the plain ones, by key. */
const OWN: Readonly<Record<string, readonly AnyRoute[]>> = {
  nodes: [...nodeRoutes(volumeMountsOfNodes), ...debugShellRoutes],
  applications: [...applicationRoutes, ...microserviceRoutes, ...microservicePartRoutes],
  registries: registryRoutes,
  applicationTemplates: applicationTemplateRoutes,
  microserviceTemplates: crudRoutes(KINDS.microserviceTemplates, microserviceTemplateCrud, {
    warning: templateWarning,
  }),
  volumeMounts: volumeMountRoutes,
  serviceAccounts: serviceAccountRoutes,
};

const routesOfKind = (kind: Kind): readonly AnyRoute[] =>
  OWN[kind.key] ?? (kind.rest.crud ? crudRoutes(kind, kind.rest.crud) : []);

/** Every route of the REST API: the router, the list of permissions and the OpenAPI document are made from it. */
export function createRoutes(kinds: Kinds): readonly AnyRoute[] {
  const { nodes, ...others } = kinds;
  const routes: AnyRoute[] = [
    ...controllerRoutes,
    ...capabilityRoutes,
    route({
      method: 'GET',
      path: '/openapi.json',
      operation: 'getOpenApi',
      tag: 'Controller',
      summary: 'This description',
      access: 'public',
      reply: { status: 200, schema: anyObject },
      handler: () => document,
    }),
    ...[nodes, ...Object.values(others)].flatMap((kind) => (kind ? routesOfKind(kind) : [])),
    ...clusterRoutes,
    ...topologyRoutes,
    ...eventRoutes,
    ...coreObjectRoutes,
    ...laterRoutes,
  ];
  const document = constantReply(() => openApiDocument(routes));
  return routes;
}

export const routes = createRoutes(KINDS);
