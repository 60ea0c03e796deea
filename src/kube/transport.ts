import type { RequestOptions } from 'node:https';
import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { TransportError } from './api-error.ts';

interface TransportRequest {
  method: string;
  /** Path and query below the server's URL. */
  path: string;
  headers?: Record<string, string>;
  body?: string;
  /** Watches are long-lived and must not use the connections of calls. */
  lane: 'call' | 'watch';
  signal: AbortSignal;
}

/** Media types of responses that have the metadata of objects alone. */
const METADATA = 'g=meta.k8s.io;v=v1';
export const METADATA_ONLY = {
  list: `application/json;as=PartialObjectMetadataList;${METADATA}`,
  watch: `application/json;as=PartialObjectMetadata;${METADATA}`,
} as const;

/** HTTP requests to the API server with the credentials of the KubeConfig. */
export interface KubeTransport extends AsyncDisposable {
  send(request: TransportRequest): Promise<Dispatcher.ResponseData>;
  /** Makes the next request load the credentials again, after the API server refused them. */
  reload(): void;
}

export interface TransportOptions {
  config: () => KubeConfig;
  userAgent: string;
  connections: number;
}

/** How long resolved credentials are used before files are read and exec plugins are run again (as in client-go). */
const CREDENTIALS_MS = 30_000;
const CONNECT_MS = 10_000;

interface Session {
  readonly origin: string;
  readonly prefix: string;
  readonly headers: Record<string, string>;
  readonly tls: TlsOptions;
  readonly lanes: Record<TransportRequest['lane'], Dispatcher>;
  readonly resolvedAt: number;
}

type TlsOptions = Pick<
  RequestOptions,
  'ca' | 'cert' | 'key' | 'pfx' | 'passphrase' | 'rejectUnauthorized' | 'servername'
>;

export function createTransport({ config, userAgent, connections }: TransportOptions): KubeTransport {
  let current = config();
  let session: Session | undefined;
  let resolving: Promise<Session> | undefined;
  let stale = false;

  /** Resolves the credentials; reuses the connections when only a token changed. */
  async function resolve(): Promise<Session> {
    // A new KubeConfig has new authenticators, which have not cached the refused token.
    if (stale) current = config();
    stale = false;
    const cluster = current.getCurrentCluster();
    if (!cluster) throw new TypeError('the kubeconfig has no current cluster');
    const options: RequestOptions = {};
    await current.applyToHTTPSOptions(options);
    const url = new URL(cluster.server);
    const tls = tlsOf(options);
    const before = session;
    const reusable = before && before.origin === url.origin && sameTls(before.tls, tls);
    session = {
      origin: url.origin,
      prefix: url.pathname.replace(/\/$/, ''),
      headers: headersOf(options),
      tls,
      lanes: reusable
        ? before.lanes
        : { call: agentFor(tls, cluster.proxyUrl, connections), watch: agentFor(tls, cluster.proxyUrl, null) },
      resolvedAt: performance.now(),
    };
    // Requests in progress end on the old connections.
    if (before && !reusable) for (const lane of Object.values(before.lanes)) void lane.close().catch(() => {});
    return session;
  }

  function currentSession(): Session | Promise<Session> {
    if (session && !stale && performance.now() - session.resolvedAt < CREDENTIALS_MS) return session;
    resolving ??= resolve()
      .catch((error: unknown) => {
        // A plugin failed, or a file is written at this moment: no request was sent, and the next attempt may succeed.
        stale = true;
        const reason = error instanceof Error ? error.message : String(error);
        throw new TransportError('refused', `no credentials for the API server: ${reason}`, error);
      })
      .finally(() => {
        resolving = undefined;
      });
    return resolving;
  }

  return {
    async send({ method, path, headers, body, lane, signal }) {
      signal.throwIfAborted();
      const { origin, prefix, headers: auth, lanes } = await currentSession();
      signal.throwIfAborted();
      try {
        return await lanes[lane].request({
          origin,
          path: prefix + path,
          method: method as Dispatcher.HttpMethod,
          // No compression: with an API server nearby gzip costs more time than it saves.
          headers: {
            accept: 'application/json',
            'accept-encoding': 'identity',
            'user-agent': userAgent,
            ...headers,
            ...auth,
          },
          body: body ?? null,
          signal,
        });
      } catch (error) {
        throw translate(error, signal);
      }
    },
    reload() {
      stale = true;
    },
    async [Symbol.asyncDispose]() {
      await resolving?.catch(() => {});
      if (session) await Promise.all(Object.values(session.lanes).map((lane) => lane.destroy()));
    },
  };
}

/** Errors of undici and the operating system as a TransportError; an abort as the reason of the signal. */
export function translate(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof TransportError) return error;
  const code = codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  return new TransportError(
    NOT_CONNECTED.has(code) ? 'refused' : 'lost',
    message.includes(code) ? message : `${code}: ${message}`,
    error,
  );
}

const NOT_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : '';
}

function agentFor(tls: TlsOptions, proxyUrl: string | undefined, connections: number | null): Dispatcher {
  const connect = { ...tls, keepAlive: true, keepAliveInitialDelay: 30_000, timeout: CONNECT_MS };
  const common = {
    connections,
    // One socket per watch: with HTTP/2 all watches would share one, and one half-open socket would affect all of them.
    allowH2: false,
    pipelining: 1,
    keepAliveTimeout: 30_000,
    // The client has its own deadlines: a healthy watch may send nothing for minutes.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  return proxyUrl
    ? new ProxyAgent({ ...common, uri: proxyUrl, requestTls: connect })
    : new Agent({ ...common, connect });
}

function tlsOf({ ca, cert, key, pfx, passphrase, rejectUnauthorized, servername }: RequestOptions): TlsOptions {
  const all = { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function sameTls(a: TlsOptions, b: TlsOptions): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function headersOf({ headers = {}, auth }: RequestOptions): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) result[name.toLowerCase()] = String(value).trim();
  }
  if (auth) result.authorization = `Basic ${Buffer.from(auth).toString('base64')}`;
  return result;
}
