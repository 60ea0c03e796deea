import { atEnd } from '../../testing/at-end.ts';
import { createRest } from '../assembly/rest.ts';
import { routes as allRoutes } from '../assembly/routes.ts';
import { createTestClient, type TestClient } from './_client.ts';
import { createMemoryDependencies } from './_memory.ts';
import type { RestServerOptions } from './server/server.ts';

/**
 * Starts a REST server over dependencies in memory, which ends with the present test or with the file. The client has no token:
 * `client.as('admin')`.
 */
export async function serveInMemory(options: Partial<RestServerOptions> = {}): Promise<TestClient> {
  const { client, stop } = await startInMemory(options);
  atEnd(stop);
  return client;
}

/** The same, for a server that ends at another time. */
export async function startInMemory(options: Partial<RestServerOptions> = {}) {
  const { deps = createMemoryDependencies(), routes = allRoutes } = options;
  const server = createRest({ ...options, deps, routes });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  const client = createTestClient(`http://127.0.0.1:${port}`, routes);
  return { client, stop: async () => server[Symbol.asyncDispose]() };
}
