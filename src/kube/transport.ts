import type { RequestOptions } from 'node:https';
import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { TransportError } from './api-error.ts';

export interface TransportRequest {
  method: string;
  /** Path and query below the server's URL. */
  path: string;
  headers?: Record<string, string>;
  body?: string;
  /** Watches live long and must not use up the connections of calls. */
  lane: 'call' | 'watch';
  signal: AbortSignal;
}

/** Bytes to and from the API server, as whoever the KubeConfig says we are. */
export interface Transport extends AsyncDisposable {
  send(request: TransportRequest): Promise<Dispatcher.ResponseData>;
  /** Forget the credentials: they were refused. */
  reload(): void;
}

export interface TransportOptions {
  config: () => KubeConfig;
  userAgent: string;
  connections: number;
}

/** How long resolved credentials are used before files and exec plugins are asked again (as client-go does). */
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

export function createTransport({ config, userAgent, connections }: TransportOptions): Transport {
  let current = config();
  let session: Session | undefined;
  let resolving: Promise<Session> | undefined;
  let stale = false;

  /** Resolves credentials; keeps the connections when only a token changed. */
  async function resolve(): Promise<Session> {
    // A new KubeConfig has new authenticators, without the token that was just refused.
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
    // Let what is under way end on the old connections.
    if (before && !reusable) for (const lane of Object.values(before.lanes)) void lane.close().catch(() => {});
    return session;
  }

  function currentSession(): Session | Promise<Session> {
    if (session && !stale && performance.now() - session.resolvedAt < CREDENTIALS_MS) return session;
    resolving ??= resolve()
      .catch((error: unknown) => {
        // A plugin that fails or a file half written: nothing was sent, and the next attempt may find it mended.
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
          // Identity encoding: on the way from a near API server gzip costs more time than it saves.
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

/** Errors of undici and the operating system in our words; an abort in the words of whoever aborted. */
export function translate(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof TransportError) return error;
  const code = codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  return new TransportError(
    NOT_CONNECTED.has(code) ? 'refused' : 'lost',
    code ? `${code}: ${message}` : message,
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
    // One socket per watch: with HTTP/2 all would share one, and one half-open socket would silence all of them.
    allowH2: false,
    pipelining: 1,
    keepAliveTimeout: 30_000,
    // Deadlines are ours: a watch may rightly be silent for minutes.
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
