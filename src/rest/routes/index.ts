import type { Kind } from '../../kinds/definition.ts';
import { KINDS, type Kinds } from '../../subjects/kinds.ts';
import { microserviceTemplateCrud } from '../../subjects/workloads/kinds/microservice-template.ts';
import { constantReply } from '../constant-reply.ts';
import { openApiDocument } from '../openapi.ts';
import { type AnyRoute, route } from '../route.ts';
import { applicationTemplateRoutes } from './application-templates.ts';
import { applicationRoutes } from './applications.ts';
import { capabilityRoutes } from './capabilities.ts';
import { clusterRoutes } from './cluster.ts';
import { controllerRoutes } from './controller.ts';
import { coreObjectRoutes } from './core-objects.ts';
import { crudRoutes } from './crud.ts';
import { debugShellRoutes } from './debug-shell.ts';
import { eventRoutes } from './events.ts';
import { laterRoutes } from './later.ts';
import { microservicePartRoutes } from './microservice-parts.ts';
import { microserviceRoutes } from './microservices.ts';
import { nodeRoutes } from './nodes.ts';
import { registryRoutes } from './registries.ts';
import { serviceAccountRoutes } from './service-accounts.ts';
import { anyObject } from './shapes.ts';
import { templateWarning } from './template-warning.ts';
import { topologyRoutes } from './topology.ts';
import { volumeMountRoutes } from './volume-mounts.ts';

/** Routes of kinds that need more than the plain ones, by key. */
const OWN: Readonly<Record<string, readonly AnyRoute[]>> = {
  nodes: [...nodeRoutes, ...debugShellRoutes],
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
