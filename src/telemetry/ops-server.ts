import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';

/** The port for probes and scrapers: `/metrics`, `/healthz` (liveness), `/readyz` (readiness). */
export interface OpsServer extends AsyncDisposable {
  listen(address: { port: number; host?: string }): Promise<{ port: number }>;
}

/**
 * There are few probes and scrapers, and none of them authenticates. A new connection always gets a place, so that the probes of
 * the kubelet are answered whatever a pod does that may connect.
 */
const OPS_CONNECTIONS = { all: 256, strangers: 256, address: 32, graceMs: 10_000, caller: 0 };

export interface OpsServerOptions {
  registry: Registry;
  ready: () => Promise<string | undefined>;
  /** Bounds the connections of the server. */
  bound(server: Server, limits: typeof OPS_CONNECTIONS): void;
}

export function createOpsServer(options: OpsServerOptions): OpsServer {
  const pages = new Map(
    Object.entries<() => Promise<{ status: number; type: string; text: string }>>({
      '/metrics': async () => ({
        status: 200,
        type: options.registry.contentType,
        text: await options.registry.metrics(),
      }),
      '/healthz': async () => ({ status: 200, type: 'text/plain', text: 'ok\n' }),
      '/readyz': async () => {
        const problem = await options.ready();
        return { status: problem ? 503 : 200, type: 'text/plain', text: `${problem ?? 'ok'}\n` };
      },
    }),
  );
  const server = createServer((request, response) => {
    const page = pages.get((request.url ?? '').split('?')[0] ?? '');
    const answer =
      page && request.method === 'GET'
        ? page()
        : Promise.resolve({ status: 404, type: 'text/plain', text: 'not found\n' });
    answer
      .catch(() => ({ status: 500, type: 'text/plain', text: 'failed\n' }))
      .then(({ status, type, text }) => response.writeHead(status, { 'content-type': type }).end(text))
      .catch(() => response.destroy());
  });
  server.requestTimeout = 10_000;
  server.headersTimeout = 10_000;
  options.bound(server, OPS_CONNECTIONS);
  return {
    listen: ({ port, host }) =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen({ port, host }, () => resolve({ port: (server.address() as AddressInfo).port }));
      }),
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
