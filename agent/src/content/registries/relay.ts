import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import type { ImageReference } from '../../domain/reference.ts';
import { EngineError } from '../../engine-port/error.ts';
import { readAll, TransportError } from '../../machine/http.ts';
import { isForeign, type RegistryClient } from './client.ts';

const SECOND = 1000;
const MANIFEST_LIMIT = 4 * 1024 * 1024;

export interface RelayOptions {
  client: RegistryClient;
  /** what is pulled: nothing else is served */
  image: ImageReference;
  /** of the paths of all relays of one agent, so that names which a crash left in the engine are known as its own */
  prefix: string;
  onProgress?: (percentage: number) => void;
  /** ms without a byte after which a response of the registry is given up; the engine may ask again */
  quiet?: number;
}

/** A registry on the loopback interface that serves one image, for the time of one pull. */
export interface Relay extends AsyncDisposable {
  /** the image, as the engine is to pull it */
  readonly reference: string;
  /** how many requests it has received */
  readonly requests: number;
  /** why the last request failed, unless one has succeeded since */
  readonly failure: EngineError | undefined;
  /** a text of the engine, with the names that the user knows */
  translate(text: string): string;
}

/**
 * Opens a relay. Engines trust the loopback interface, so where an engine cannot be configured to trust a registry, the
 * agent fetches from the registry and the engine from the agent. The engine checks all digests as usual.
 *
 * The path holds 128 random bits: a process of this machine that does not know them gets nothing, and cannot use the
 * agent's credentials. Nothing is written, and only the one repository is read.
 */
export async function openRelay(options: RelayOptions): Promise<Relay> {
  const { client, image, prefix, quiet = 60 * SECOND } = options;
  const secret = `${prefix}${randomBytes(16).toString('hex')}`;
  const root = `/v2/${secret}/${image.repository}/`;
  const over = new AbortController();
  const progress = new BlobProgress(options.onProgress);
  let requests = 0;
  let failure: EngineError | undefined;

  const server = createServer((incoming, outgoing) => void respond(incoming, outgoing));
  // containerd 2 begins with TLS, and continues without it where the answer is one of HTTP.
  server.on('clientError', (_error, socket) => socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n'));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const host = `127.0.0.1:${port}`;

  async function respond(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method = '', url = '' } = incoming;
    requests++;
    if (method !== 'GET' && method !== 'HEAD') return refuse(outgoing, 405, 'UNSUPPORTED');
    // Every registry answers this request, whoever sends it.
    if (url === '/v2/') return reply(outgoing, 200, { 'content-type': 'application/json' }, '{}');
    const what = begins(url, root) ? url.slice(root.length) : '';
    if (!/^(manifests|blobs)\/[\w][\w.:+-]{0,255}$/.test(what)) return refuse(outgoing, 404, 'NAME_UNKNOWN');
    try {
      await fetch(what, incoming, outgoing);
      failure = undefined;
    } catch (error) {
      const own = error instanceof EngineError;
      // A connection that the engine has closed is no failure of the registry.
      if (over.signal.aborted || (!own && outgoing.destroyed)) return;
      failure = own ? error : broken(image.host, error as Error);
      if (outgoing.headersSent) outgoing.destroy();
      // The engine gets a status; people get `failure`.
      else if (failure.code === 'ImageUnauthorized') refuse(outgoing, 403, 'DENIED');
      else refuse(outgoing, 502, 'UNAVAILABLE');
    }
  }

  async function fetch(what: string, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const gone = new AbortController();
    outgoing.once('close', () => gone.abort());
    const { accept, range } = incoming.headers;
    const found = await client.open({
      method: incoming.method ?? 'GET',
      path: `/v2/${image.repository}/${what}`,
      repository: image.repository,
      headers: { ...(accept && { accept }), ...(range && { range }) },
      signal: AbortSignal.any([over.signal, gone.signal]),
    });
    const status = found.statusCode ?? 0;
    if (status !== 200 && status !== 206) {
      const text = await readAll(found, 64 * 1024, 10 * SECOND).catch(() => Buffer.alloc(0));
      if (status === 404) {
        failure = undefined;
        return refuse(outgoing, 404, what.startsWith('manifests/') ? 'MANIFEST_UNKNOWN' : 'BLOB_UNKNOWN');
      }
      throw statusError(image.host, status, isForeign(found) ? '' : text.toString('utf8'));
    }
    const headers = Object.fromEntries(
      PASSED_ON.map((name) => [name, found.headers[name]]).filter(([, value]) => value),
    );
    if (incoming.method === 'HEAD') {
      found.destroy();
      return reply(outgoing, status, headers);
    }
    if (what.startsWith('manifests/')) {
      const manifest = await readAll(found, MANIFEST_LIMIT, quiet);
      progress.expect(manifest);
      return reply(outgoing, status, { ...headers, 'content-length': manifest.length }, manifest);
    }
    outgoing.writeHead(status, headers);
    const blob = pieces(found, quiet, (length) => progress.add(what, length));
    const watched = async function* () {
      try {
        yield* blob;
      } catch (error) {
        throw gone.signal.aborted ? error : broken(image.host, error as Error);
      }
    };
    await pipeline(watched, outgoing);
  }

  return {
    reference: `${host}/${secret}/${image.repository}${image.digest ? `@${image.digest}` : `:${image.tag || 'latest'}`}`,
    get requests() {
      return requests;
    },
    get failure() {
      return failure;
    },
    translate: (text) =>
      text
        .replaceAll(`${host}/v2/${secret}/`, `${image.host}/v2/`)
        .replaceAll(`${host}/${secret}/`, `${image.host}/`)
        .replaceAll(`${secret}/`, '')
        .replaceAll(host, image.host),
    async [Symbol.asyncDispose]() {
      over.abort();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** The headers of a response that an engine uses. */
const PASSED_ON = [
  'content-type',
  'content-length',
  'content-range',
  'accept-ranges',
  'docker-content-digest',
] as const;

function statusError(host: string, status: number, body: string): EngineError {
  const said = /"message"\s*:\s*"([^"\\]{1,200})"/.exec(body)?.[1];
  const text = `registry ${host}: status ${status}${said ? ` (${said})` : ''}`;
  return new EngineError(status === 401 || status === 403 ? 'ImageUnauthorized' : 'ImagePullFailed', text);
}

/** The pieces of a stream. Time that the reader takes does not count as silence of the sender. */
async function* pieces(
  incoming: IncomingMessage,
  quiet: number,
  onPiece: (length: number) => void,
): AsyncGenerator<Buffer> {
  const source = incoming[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  try {
    for (;;) {
      const timer = setTimeout(
        () => incoming.destroy(new TransportError('TIMEOUT', `it sent nothing for ${quiet / SECOND} s`)),
        quiet,
      );
      const { value, done } = await source.next().finally(() => clearTimeout(timer));
      if (done) break;
      onPiece(value.length);
      yield value;
    }
  } finally {
    incoming.destroy();
  }
}

function broken(host: string, error: Error): EngineError {
  const why = error instanceof TransportError ? error.message : 'the connection broke before the response ended';
  return new EngineError('ImagePullFailed', `registry ${host}: ${why}`, { cause: error });
}

function reply(outgoing: ServerResponse, status: number, headers: OutgoingHttpHeaders, body?: Buffer | string): void {
  outgoing.writeHead(status, { 'docker-distribution-api-version': 'registry/2.0', ...headers });
  outgoing.end(body);
}

function refuse(outgoing: ServerResponse, status: number, code: string): void {
  reply(
    outgoing,
    status,
    { 'content-type': 'application/json' },
    JSON.stringify({ errors: [{ code, message: code }] }),
  );
}

/** Whether a path begins with another one, in a time that does not reveal how far they agree. */
function begins(path: string, root: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(path.slice(0, root.length)), hash(root));
}

/** How much of an image has been fetched. The engine never asks for layers that it has, so 100 % is never reported here. */
class BlobProgress {
  readonly #onProgress: ((percentage: number) => void) | undefined;
  readonly #sizes = new Map<string, number>();
  #fetched = 0;
  #shown = 0;

  constructor(onProgress: ((percentage: number) => void) | undefined) {
    this.#onProgress = onProgress;
  }

  /** Reads the sizes of all blobs from the manifest of the image. */
  expect(manifest: Buffer): void {
    try {
      const { config, layers } = JSON.parse(manifest.toString('utf8')) as Record<string, unknown>;
      for (const { digest, size } of [config, ...((layers as unknown[]) ?? [])].filter(Boolean) as Blob[])
        if (typeof digest === 'string' && Number.isFinite(size)) this.#sizes.set(`blobs/${digest}`, size);
    } catch {
      // The engine reports what is wrong with it.
    }
  }

  add(blob: string, length: number): void {
    if (!this.#sizes.has(blob)) return;
    this.#fetched += length;
    let total = 0;
    for (const size of this.#sizes.values()) total += size;
    const percentage = Math.min(99, Math.floor((this.#fetched / total) * 100));
    if (percentage <= this.#shown) return;
    this.#shown = percentage;
    this.#onProgress?.(percentage);
  }
}

interface Blob {
  digest: string;
  size: number;
}
