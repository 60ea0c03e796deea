/**
 * A plain HTTP proxy in front of a real API server that injects faults. Tests only.
 *
 * It forwards a request unless a fault matches; each fault counts the requests that it matched.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';

/** What happens to a request that matches. Lines are those of the response: one per event in a watch. */
export type Trouble =
  /** The proxy responds itself; the API server does not get the request. */
  | { answer: { status: number; headers?: Record<string, string>; body: unknown } }
  /** No response; the connection stays open. */
  | { hang: true }
  /** So many whole lines and half of the next one; then the connection is reset. */
  | { cutAfter: number }
  /** So many whole lines, then nothing; the connection stays open. */
  | { swallowAfter: number }
  /** So many whole lines, then this text, then the remaining lines. */
  | { insertAfter: number; text: string }
  /** The API server executes the request; the test responds in place of it. */
  | { instead: (response: ServerResponse) => void }
  /** The test writes the response; the API server does not get the request. */
  | { stream: (response: ServerResponse) => void };

export interface Seen {
  method: string;
  path: string;
  query: URLSearchParams;
  watch: boolean;
  at: number;
}

interface Fault {
  /** How many requests it matched. */
  readonly hits: number;
  /** Stops the fault for later requests; connections that it broke stay broken. */
  end(): void;
}

export interface FaultProxy extends AsyncDisposable {
  /** A KubeConfig that goes through the proxy. */
  config(): KubeConfig;
  /** Every request so far. */
  readonly requests: readonly Seen[];
  /** Applies the fault to the next `times` requests that match; to all of them when `times` is absent. */
  inject(match: (seen: Seen) => boolean, trouble: Trouble | ((seen: Seen) => Trouble), times?: number): Fault;
  /** Resets every open connection now. */
  cutAll(): void;
  /** Stops all traffic on all connections, present and new ones, and closes none of them. */
  freeze(): void;
  /** Resumes the traffic; what waited is sent. */
  thaw(): void;
}

export async function startFaultProxy(kubeconfig: string | KubeConfig): Promise<FaultProxy> {
  const target = typeof kubeconfig === 'string' ? loadConfig(kubeconfig) : kubeconfig;
  const cluster = target.getCurrentCluster();
  if (!cluster) throw new Error('no cluster');
  const server = new URL(cluster.server);
  const ca = cluster.caData ? Buffer.from(cluster.caData, 'base64') : undefined;

  const requests: Seen[] = [];
  const faults: { match: (seen: Seen) => boolean; trouble: (seen: Seen) => Trouble; left: number; hits: number }[] = [];
  const sockets = new Set<Socket>();
  let thawed = Promise.withResolvers<void>();
  thawed.resolve();
  let isFrozen = false;

  const front = createServer({ keepAliveTimeout: 60_000 }, (incoming, outgoing) => void handle(incoming, outgoing));
  front.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });

  async function handle(incoming: IncomingMessage, outgoing: ServerResponse) {
    await thawed.promise;
    const url = new URL(incoming.url ?? '/', 'http://proxy');
    const seen: Seen = {
      method: incoming.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      watch: url.searchParams.get('watch') === 'true',
      at: performance.now(),
    };
    requests.push(seen);
    const fault = faults.find((candidate) => candidate.left > 0 && candidate.match(seen));
    if (fault) {
      fault.left--;
      fault.hits++;
    }
    const trouble = fault?.trouble(seen);
    if (trouble && 'hang' in trouble) return;
    if (trouble && 'stream' in trouble) return trouble.stream(outgoing);
    if (trouble && 'answer' in trouble) {
      const { status, headers, body } = trouble.answer;
      incoming.resume();
      outgoing.writeHead(status, { 'content-type': 'application/json', ...headers });
      outgoing.end(typeof body === 'string' ? body : JSON.stringify(body));
      return;
    }
    forward(incoming, outgoing, trouble);
  }

  function forward(incoming: IncomingMessage, outgoing: ServerResponse, trouble: Trouble | undefined) {
    const { host: _, ...headers } = incoming.headers;
    const upstream = httpsRequest(
      {
        host: server.hostname,
        port: server.port,
        method: incoming.method,
        path: incoming.url,
        headers,
        ca,
        agent: false,
      },
      (answer) => {
        if (trouble && 'instead' in trouble) {
          answer.resume();
          return trouble.instead(outgoing);
        }
        const { connection: _, ...kept } = answer.headers;
        outgoing.writeHead(answer.statusCode ?? 502, kept);
        outgoing.flushHeaders();
        void pass(answer, outgoing, trouble).catch(() => outgoing.destroy());
      },
    );
    upstream.on('error', () => outgoing.destroy());
    outgoing.on('close', () => upstream.destroy());
    incoming.pipe(upstream);
  }

  async function pass(answer: IncomingMessage, outgoing: ServerResponse, trouble: Trouble | undefined) {
    let lines = 0;
    const write = async (bytes: Uint8Array | string) => {
      await thawed.promise;
      if (!outgoing.write(bytes))
        await new Promise((resolve) => outgoing.once('drain', resolve).once('close', resolve));
    };
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      let start = 0;
      while (start < chunk.length) {
        const newline = chunk.indexOf(0x0a, start);
        const end = newline < 0 ? chunk.length : newline + 1;
        const part = chunk.subarray(start, end);
        start = end;
        if (trouble && 'swallowAfter' in trouble && lines >= trouble.swallowAfter) continue;
        if (trouble && 'cutAfter' in trouble && lines >= trouble.cutAfter) {
          outgoing.write(part.subarray(0, part.length >> 1), () => outgoing.socket?.resetAndDestroy());
          return;
        }
        await write(part);
        if (newline >= 0) lines++;
        if (trouble && 'insertAfter' in trouble && newline >= 0 && lines === trouble.insertAfter)
          await write(trouble.text);
      }
    }
    if (trouble && 'swallowAfter' in trouble) return;
    outgoing.end();
  }

  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  const { port } = front.address() as AddressInfo;

  return {
    requests,
    config() {
      const config = new KubeConfig();
      const user = target.getCurrentUser() ?? { name: 'user' };
      config.loadFromClusterAndUser({ name: 'proxy', server: `http://127.0.0.1:${port}`, skipTLSVerify: true }, user);
      return config;
    },
    inject(match, trouble, times = Number.POSITIVE_INFINITY) {
      const fault = { match, trouble: typeof trouble === 'function' ? trouble : () => trouble, left: times, hits: 0 };
      faults.push(fault);
      return {
        get hits() {
          return fault.hits;
        },
        end() {
          fault.left = 0;
        },
      };
    },
    cutAll() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    freeze() {
      // What waits already would wait for ever on a promise that another has taken the place of.
      if (isFrozen) return;
      isFrozen = true;
      thawed = Promise.withResolvers<void>();
    },
    thaw() {
      isFrozen = false;
      thawed.resolve();
    },
    async [Symbol.asyncDispose]() {
      thawed.resolve();
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => front.close(resolve));
    },
  };
}

export function loadConfig(kubeconfig: string): KubeConfig {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  return config;
}

/** The body of a Kubernetes error. */
export function statusBody(code: number, reason: string, message: string = reason) {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message };
}
