import { createRestServer, type RestServer, type RestServerOptions } from '../rest/server/server.ts';
import { renderBody } from '../subjects/workloads/routes/templates.ts';
import { createRoutes } from './routes.ts';

/** The REST API of all subjects. */
export function createRest(
  options: Omit<RestServerOptions, 'routes' | 'renderBody'> & Partial<Pick<RestServerOptions, 'routes'>>,
): RestServer {
  return createRestServer({ routes: createRoutes(options.deps.kinds), renderBody, ...options });
}
