import { createRest } from '../assembly/rest.ts';
import { routes as allRoutes } from '../assembly/routes.ts';
import { createTestClient, type TestClient } from './_client.ts';
import { createMemoryDependencies } from './_memory.ts';
import type { RestServerOptions } from './server/server.ts';

/** A REST server on a port of its own. */
interface MemoryServer {
  /** A client without a token: `client.as('admin')`. */
  client: TestClient;
  /** For `beforeAll` to return. */
  stop(): Promise<void>;
}

/** Starts a REST server over dependencies in memory. */
export async function serveInMemory(options: Partial<RestServerOptions> = {}): Promise<MemoryServer> {
  const { deps = createMemoryDependencies(), routes = allRoutes } = options;
  const server = createRest({ ...options, deps, routes });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  return {
    client: createTestClient(`http://127.0.0.1:${port}`, routes),
    stop: async () => server[Symbol.asyncDispose](),
  };
}
