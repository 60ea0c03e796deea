import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';

/** The port for probes and scrapers: `/metrics`, `/healthz` (liveness), `/readyz` (readiness). */
export interface OpsServer extends AsyncDisposable {
  listen(address: { port: number; host?: string }): Promise<{ port: number }>;
}

export function createOpsServer(options: { registry: Registry; ready: () => Promise<string | undefined> }): OpsServer {
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
  // There are few probes and scrapers.
  server.maxConnections = 256;
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
