import { constantReply } from '../constant-reply.ts';
import { openApiDocument } from '../openapi.ts';
import { type AnyRoute, route } from '../route.ts';
import { applicationRoutes } from './applications.ts';
import { controllerRoutes } from './controller.ts';
import { laterRoutes } from './later.ts';
import { microservicePartRoutes } from './microservice-parts.ts';
import { microserviceRoutes } from './microservices.ts';
import { nodeRoutes } from './nodes.ts';
import { registryRoutes } from './registries.ts';
import { anyObject } from './shapes.ts';

const document = constantReply(() => openApiDocument(routes));

/** Every route of the facade: the router, the catalogue of permissions and the OpenAPI document are made from it. */
export const routes: readonly AnyRoute[] = [
  ...controllerRoutes,
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
  ...nodeRoutes,
  ...applicationRoutes,
  ...microserviceRoutes,
  ...microservicePartRoutes,
  ...registryRoutes,
  ...laterRoutes,
];
