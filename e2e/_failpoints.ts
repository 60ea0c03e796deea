import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';

/**
 * A proxy of the API server that counts the writes of a controller and can kill the process right before the n-th write is
 * carried out, or right after, before the response is sent. So each write is a failpoint, and the program under test is
 * unmodified.
 */
export interface Failpoints extends AsyncDisposable {
  /** `VERB resource` of each write so far */
  readonly writes: readonly string[];
  /** Calls `strike` once, at the n-th write from now, counted from 1. */
  arm(n: number, when: When, strike: () => void): void;
  disarm(): void;
}
export type When = 'before' | 'after';

/** Not counted: reviews change nothing, and events are not written at the same points of every run. */
const NO_WRITES = /\/(tokenreviews|subjectaccessreviews|selfsubjectreviews|token)$|\/events(\/|$)/;

/** Writes a kubeconfig for the controller to `file`. */
export async function startFailpoints(kubeconfig: string, file: string): Promise<Failpoints> {
  const target = new KubeConfig();
  target.loadFromFile(kubeconfig);
  const cluster = target.getCurrentCluster();
  if (!cluster) throw new Error(`${kubeconfig} has no cluster`);
  const server = new URL(cluster.server);
  const agent = new Agent({ keepAlive: true, ca: Buffer.from(cluster.caData ?? '', 'base64') });
  const writes: string[] = [];
  let armed: { at: number; when: When; strike: () => void } | undefined;

  function handle(incoming: IncomingMessage, outgoing: ServerResponse) {
    const path = new URL(incoming.url ?? '/', server).pathname;
    const method = incoming.method ?? 'GET';
    const isRenewal = method === 'PUT' && path.includes('/leases/');
    let here: typeof armed;
    if (method !== 'GET' && !NO_WRITES.test(path) && !isRenewal) {
      writes.push(`${method} ${path.split('/').slice(-2).join('/')}`);
      if (armed && writes.length === armed.at) {
        here = armed;
        armed = undefined;
      }
    }
    if (here?.when === 'before') return here.strike();
    const { host: _, ...headers } = incoming.headers;
    const upstream = httpsRequest(
      { host: server.hostname, port: server.port, method, path: incoming.url, headers, agent },
      (answer) => {
        if (here) {
          answer.resume();
          answer.on('end', here.strike);
          return;
        }
        const { connection: _, ...kept } = answer.headers;
        outgoing.writeHead(answer.statusCode ?? 502, kept);
        outgoing.flushHeaders();
        answer.pipe(outgoing);
        answer.on('error', () => outgoing.destroy());
      },
    );
    upstream.on('error', () => outgoing.destroy());
    outgoing.on('close', () => upstream.destroy());
    incoming.pipe(upstream);
  }

  const front = createServer({ keepAliveTimeout: 60_000 }, handle);
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
  const text = JSON.parse(JSON.stringify(parseConfig(readFileSync(kubeconfig, 'utf8'))));
  // The client accepts a server without TLS only when it does not verify certificates.
  text.clusters[0].cluster = { server: url, 'insecure-skip-tls-verify': true };
  writeFileSync(file, JSON.stringify(text));
  return {
    writes,
    arm(n, when, strike) {
      armed = { at: writes.length + n, when, strike };
    },
    disarm() {
      armed = undefined;
    },
    async [Symbol.asyncDispose]() {
      front.closeAllConnections();
      agent.destroy();
      await new Promise<void>((resolve) => front.close(() => resolve()));
    },
  };
}

/** The test kubeconfigs are JSON, which is YAML. */
const parseConfig = (text: string) => JSON.parse(text) as { clusters: { cluster: object }[] };
