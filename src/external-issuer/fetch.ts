import { readFileSync } from 'node:fs';
import { getCACertificates } from 'node:tls';
import { Agent, EnvHttpProxyAgent, fetch } from 'undici';

/** Requests to the provider: bounded in time and size, with the installation's authority and proxy. */
export interface ProviderFetch extends AsyncDisposable {
  request: (url: string, init: ProviderRequest) => Promise<Response>;
}

interface ProviderRequest {
  method: string;
  headers: Record<string, string>;
  body?: unknown;
  signal?: AbortSignal | undefined;
}

export interface ProviderFetchOptions {
  /** File in PEM with authorities besides the authorities of the system. */
  caFile?: string | undefined;
  /** of the proxy: HTTPS_PROXY, HTTP_PROXY, NO_PROXY, in capitals or not */
  env?: Readonly<Record<string, string | undefined>>;
  /** The provider is this process: no proxy is between, and its certificate needs no authority. */
  isOwn?: true;
  /** for the connection, the headers and the body together */
  timeoutMs?: number;
  maxBytes?: number;
}

/** A reply that cannot be used, for people. */
export class ProviderReplyError extends Error {}

/** Statuses whose responses have no body. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

/** Throws with the name of the variable where the file of authorities cannot be used. */
export function createProviderFetch(options: ProviderFetchOptions = {}): ProviderFetch {
  const { env = process.env, timeoutMs = 5_000, maxBytes = 2 ** 20 } = options;
  const dispatcher = options.isOwn
    ? new Agent({ connect: { timeout: timeoutMs, rejectUnauthorized: false } })
    : throughProxy(authorities(options.caFile), env, timeoutMs);
  return {
    async request(url, { method, headers, body, signal }) {
      const deadline = AbortSignal.timeout(timeoutMs);
      const response = await fetch(url, {
        ...{ method, headers, redirect: 'manual', dispatcher },
        ...(body !== undefined && body !== null && { body: body as string | URLSearchParams }),
        signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      });
      const chunks: Uint8Array[] = [];
      let size = 0;
      for await (const chunk of response.body ?? []) {
        size += chunk.byteLength;
        if (size > maxBytes) throw new ProviderReplyError(`its reply is larger than ${maxBytes} bytes`);
        chunks.push(chunk);
      }
      const { status } = response;
      return new Response(BODILESS.has(status) ? null : Buffer.concat(chunks), {
        status,
        headers: [...response.headers],
      });
    },
    [Symbol.asyncDispose]: () => dispatcher.destroy(),
  };
}

function throughProxy(
  ca: string[] | undefined,
  env: Readonly<Record<string, string | undefined>>,
  timeoutMs: number,
): EnvHttpProxyAgent {
  const variable = (name: string) => env[name.toLowerCase()] || env[name] || '';
  return new EnvHttpProxyAgent({
    httpProxy: variable('HTTP_PROXY'),
    httpsProxy: variable('HTTPS_PROXY') || variable('HTTP_PROXY'),
    noProxy: variable('NO_PROXY'),
    connect: { timeout: timeoutMs, ...(ca && { ca }) },
    ...(ca && { requestTls: { ca }, proxyTls: { ca } }),
  });
}

/** The authorities of the system and of a file; absent: the authorities of the system alone. */
function authorities(caFile: string | undefined): string[] | undefined {
  if (caFile === undefined) return undefined;
  const unusable = (why: string) => new Error(`SKERRY_OIDC_CA_FILE="${caFile}" cannot be used: ${why}`);
  let text: string;
  try {
    text = readFileSync(caFile, 'utf8');
  } catch (error) {
    throw unusable((error as NodeJS.ErrnoException).code ?? 'it cannot be read');
  }
  if (!text.includes('-----BEGIN CERTIFICATE-----')) throw unusable('there is no certificate in PEM in it');
  return [...getCACertificates('default'), text];
}

/** Why a request to the provider failed, for people: no text of the provider is in it. */
export function providerProblem(error: unknown): string {
  const chain: Error[] = [];
  for (let cause = error; cause instanceof Error && chain.length < 10; cause = cause.cause) chain.push(cause);
  const reply = chain.find((one) => one instanceof ProviderReplyError);
  if (reply) return reply.message;
  if (chain.some(({ name }) => name === 'TimeoutError')) return 'it does not answer in time';
  const codes = chain.flatMap((one) => ('code' in one && typeof one.code === 'string' ? [one.code] : []));
  return codes.at(-1) ?? 'its reply makes no sense';
}
