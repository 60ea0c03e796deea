import type { KeyObject } from 'node:crypto';
import type { Agent } from 'node:http';
import type { z } from 'zod';
import { HEADERS, NODE_TOKEN_ISSUER } from '../../../src/api/names.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import {
  agentErrorSchema,
  type ControllerRegistration,
  type ProvisionReply,
  type ProvisionRequest,
  provisionReplySchema,
  readinessSchema,
  registeredSchema,
  type StatusReport,
  type VersionReply,
} from '../../../src/wire/agent.ts';
import { NODE_TOKEN } from '../../../src/wire/node-token.ts';
import { type ChangesReply, changesReplySchema, RESPONSES } from '../../../src/wire/sections.ts';
import { type SystemFileContent, systemFileContentSchema } from '../../../src/wire/system-files.ts';
import { jsonOr } from '../domain/json.ts';
import { AGENT_VERSION } from '../domain/names.ts';
import {
  closeIdle,
  exchange,
  type HttpRequest,
  type HttpResponse,
  hasIdle,
  keepAlive,
  STALE,
  TransportError,
} from '../machine/http.ts';
import { showCertificate } from '../machine/tls.ts';
import { signToken } from '../state/token.ts';

const SECOND = 1000;
const API = '/api/v3';
const MIB = 1024 * 1024;
/** A difference of clocks in milliseconds from which it is reported. */
const SKEW_TOLD = 60 * SECOND;

/** The state of the connection to the controller, as the local API names it. */
export type Connection =
  | 'NOT_PROVISIONED'
  | 'NOT_CONNECTED'
  | 'OK'
  | 'UNAUTHORIZED'
  | 'BROKEN_CERTIFICATE'
  | 'BAD_REQUEST'
  | 'NOT_FOUND'
  | 'INTERNAL_ERROR';

/** Code of the error when what answers is no controller. */
export const FOREIGN = 'FOREIGN_PROGRAM';

/** A request to the controller that failed, and what that means for the connection. */
export class ControllerError extends Error {
  readonly connection: Connection;
  readonly code: string;
  readonly status: number;
  /** milliseconds after which the controller asks for a retry */
  readonly retryAfter: number | undefined;
  constructor(
    connection: Connection,
    message: string,
    {
      code = '',
      status = 0,
      retryAfter,
      cause,
    }: { code?: string; status?: number; retryAfter?: number; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.name = 'ControllerError';
    this.connection = connection;
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Sends one request and reads its response; replaced in tests and simulations. */
export type Transport = (request: HttpRequest, limit: number) => Promise<HttpResponse>;

export interface ControllerClientOptions {
  controllerUrl: string;
  ca?: string;
  /** turns certificate verification off */
  insecure?: boolean;
  instance: string;
  boot: string;
  clock: Clock;
  transport?: Transport;
  /** called for each request that ended, with its path and the status or the transport's error code */
  onAnswer?: (path: string, code: string) => void;
  /** `Skerry-Not-Older-Than`, opaque: saved from each response and sent with each request */
  notOlderThan?: { get(): string | undefined; take(bound: string): void };
  /** absent while the agent is not provisioned */
  node?: { uuid: string; key: KeyObject };
  /** seconds that the controller has to answer, and to answer whether it is there */
  requestSeconds?: number;
  pingSeconds?: number;
  /** sealed position of the controller's datastore: saved from each response and sent with each request */
  epochPosition?: { get(): string | undefined; set(position: string): void };
}

/** The agent routes of one controller. Every request has its own token, a deadline, and a limit for its response. */
export class ControllerClient {
  readonly controllerUrl: string;
  #options: ControllerClientOptions;
  readonly #origin: URL;
  readonly #transport: Transport;
  readonly #connections: Agent;
  /** the controller's clock minus this machine's, milliseconds */
  #offset = 0;
  /** the times of both clocks when a difference was first noticed */
  #skew: { own: number; theirs: number } | undefined;
  #compared = false;

  constructor(options: ControllerClientOptions) {
    this.#options = options;
    this.#origin = new URL(options.controllerUrl);
    this.controllerUrl = this.#origin.origin;
    this.#transport = options.transport ?? exchange;
    this.#connections = keepAlive(this.#origin);
  }

  /** Milliseconds that the controller's clock is ahead of this machine's. */
  get offset(): number {
    return this.#offset;
  }

  /**
   * The times of both clocks when a difference was first noticed, Unix ms; undefined while they agree. The machine's clock
   * may be set at any time, so each call reads it again.
   */
  get skew(): { own: number; theirs: number } | undefined {
    const { clock } = this.#options;
    const [own, theirs] = [clock.wall(), Math.round(clock.now() + this.#offset)];
    if (!this.#compared || Math.abs(own - theirs) < SKEW_TOLD) this.#skew = undefined;
    else this.#skew ??= { own, theirs };
    return this.#skew;
  }

  /** Sealed position of the last response. */
  get epochPosition(): string | undefined {
    return this.#options.epochPosition?.get();
  }

  /** Checks whether the controller is ready, and adopts its time for tokens. */
  async ping(signal?: AbortSignal): Promise<{ uptimeSec: number }> {
    const { clock, pingSeconds = 20 } = this.#options;
    const before = clock.now();
    const answer = await this.#send('GET', '/status', { signal, deadline: pingSeconds * SECOND, anonymous: true });
    const after = clock.now();
    const ready = parseBody(readinessSchema, answer);
    this.#offset = ready.timestamp - (before + after) / 2;
    this.#compared = true;
    return ready;
  }

  /** Requests what has changed; with `wait` as a long poll of that many seconds. */
  async changes(have: string, wait: number | undefined, signal?: AbortSignal): Promise<ChangesReply> {
    const query = new URLSearchParams({ ...(wait !== undefined && { wait: String(wait) }), have });
    const deadline = ((wait ?? 0) + (this.#options.requestSeconds ?? 30)) * SECOND;
    return parseBody(changesReplySchema, await this.#send('GET', `/agent/changes?${query}`, { signal, deadline }));
  }

  /** Acknowledges changes to a controller that does not read `have`. */
  async acknowledge(lastUpdated: string, signal?: AbortSignal): Promise<void> {
    await this.#send('PATCH', '/agent/changes', { body: { lastUpdated }, signal });
  }

  /** One document of the desired state as text, with its ETag; undefined when there is none. */
  async document(path: string, signal?: AbortSignal): Promise<{ body: string; etag: string | undefined } | undefined> {
    try {
      const { body, headers } = await this.#send('GET', path, { signal, limit: 32 * MIB });
      return { body, etag: headers.etag };
    } catch (error) {
      return absent(error);
    }
  }

  /** The authorities that the controller wants to be known by: base64 of PEM; undefined when there are none. */
  async authorities(signal?: AbortSignal): Promise<string | undefined> {
    try {
      return (await this.#send('GET', '/agent/cert', { signal })).body;
    } catch (error) {
      return absent(error);
    }
  }

  /** Trusts these authorities (PEM) from the next connection on; undefined: the authorities of the system. */
  trust(ca: string | undefined): void {
    const { ca: _, ...others } = this.#options;
    this.#options = { ...others, ...(ca !== undefined && { ca }) };
    closeIdle(this.#connections);
  }

  /** Content of the system's files of this node, base64 by digest, in a response of at most `limit` bytes. */
  async systemFileContents(
    digests: readonly string[],
    limit: number,
    signal?: AbortSignal,
  ): Promise<SystemFileContent['contents']> {
    const path = `${RESPONSES.systemFiles.path}/content?digests=${digests.join(',')}`;
    try {
      const answer = await this.#send('GET', path, { signal, limit, deadline: 120 * SECOND });
      return parseBody(systemFileContentSchema, answer).contents;
    } catch (error) {
      // A replica of a former release has no such route.
      return absent(error) ?? {};
    }
  }

  /** The version that is requested; undefined when none is. */
  async version(signal?: AbortSignal): Promise<VersionReply | undefined> {
    try {
      return parseBody(RESPONSES.version.schema, await this.#send('GET', RESPONSES.version.path, { signal }));
    } catch (error) {
      return absent(error);
    }
  }

  /** Sends a report; returns whether the controller asks for a complete one because it does not have the earlier ones. */
  async report(status: StatusReport, signal?: AbortSignal): Promise<boolean> {
    const { headers } = await this.#send('PUT', '/agent/status', { body: status, signal });
    return headers[HEADERS.reportWanted] === 'full';
  }

  async provision(body: ProvisionRequest, signal?: AbortSignal): Promise<ProvisionReply> {
    const options = { body, signal, deadline: 60 * SECOND, anonymous: true };
    return parseBody(provisionReplySchema, await this.#send('POST', '/agent/provision', options));
  }

  /** Registers the controller that runs on this machine, which has to be a node of the system; resolves with its uuid. */
  async registerController(body: ControllerRegistration, signal?: AbortSignal): Promise<string> {
    const answer = await this.#send('POST', '/agent/controller/register', { body, signal });
    return parseBody(registeredSchema, answer).uuid;
  }

  async deprovision(microserviceUuids: string[], signal?: AbortSignal): Promise<void> {
    await this.#send('POST', '/agent/deprovision', { body: { microserviceUuids }, signal });
  }

  async deleteNode(signal?: AbortSignal): Promise<void> {
    await this.#send('DELETE', '/agent/delete-node', { signal });
  }

  /** How another request reaches a server: with authority and token at the controller's own address, with neither elsewhere. */
  accessTo({ origin }: URL): { ca?: string; insecure?: boolean; authorization?: string } {
    const { ca, insecure, node } = this.#options;
    if (origin !== this.controllerUrl) return {};
    return {
      ...(ca !== undefined && { ca }),
      ...(insecure && { insecure }),
      ...(node && { authorization: `Bearer ${this.#token()}` }),
    };
  }

  /**
   * How a WebSocket of an agent route is opened, with a token of its own. `kept`: over a connection that waits for a request,
   * where there is one, which spares the round trips of a new one.
   */
  socket(path: string, { kept }: { kept: boolean }): SocketRequest {
    const { ca, insecure, instance, boot } = this.#options;
    return {
      url: `${this.controllerUrl.replace(/^http/, 'ws')}${API}${path}`,
      headers: {
        [HEADERS.agent]: AGENT_VERSION,
        [HEADERS.instance]: instance,
        [HEADERS.boot]: boot,
        authorization: `Bearer ${this.#token()}`,
      },
      ...(ca !== undefined && { ca }),
      ...(insecure && { insecure }),
      ...(kept && hasIdle(this.#connections) && { connections: this.#connections }),
    };
  }

  /** Closes the connections that are kept open. */
  close(): void {
    this.#connections.destroy();
  }

  async #send(method: string, path: string, options: SendOptions): Promise<HttpResponse> {
    let answer: HttpResponse;
    try {
      answer = await this.#transport(this.#request(method, path, options), options.limit ?? MIB).catch(
        (error: unknown) => {
          if (!(error instanceof TransportError && error.code === STALE)) throw error;
          // Retried on a new connection, since the other kept ones may be closed as well.
          const again = { ...this.#request(method, path, options), connections: undefined };
          return this.#transport(again, options.limit ?? MIB);
        },
      );
    } catch (error) {
      if (error instanceof TransportError) closeIdle(this.#connections);
      if (!options.signal?.aborted)
        this.#options.onAnswer?.(path, error instanceof TransportError ? error.code : 'FAILED');
      throw await this.#timesTold(transportTrouble(error, this.controllerUrl));
    }
    this.#options.onAnswer?.(path, String(answer.status));
    const notOlderThan = answer.headers[HEADERS.notOlderThan];
    if (typeof notOlderThan === 'string') this.#options.notOlderThan?.take(notOlderThan);
    if (answer.status >= 200 && answer.status < 300) {
      const position = answer.headers[HEADERS.epochPosition];
      if (typeof position === 'string' && position !== '') this.#options.epochPosition?.set(position.slice(0, 64));
      return answer;
    }
    throw refused(answer, `${method} ${path.split('?')[0]}`, this.controllerUrl);
  }

  /** Adds to a certificate error the period of validity and the time of this machine. */
  async #timesTold(error: unknown): Promise<unknown> {
    if (!(error instanceof ControllerError) || !CERTIFICATE_TIME.has(error.code)) return error;
    const shown = await showCertificate(this.#origin, undefined);
    if (shown.state === 'none') return error;
    const [from, to, own] = [shown.validFrom, shown.validTo, this.#options.clock.wall()].map(timeText);
    return new ControllerError(
      'BROKEN_CERTIFICATE',
      `the certificate of ${this.controllerUrl} is valid from ${from} to ${to}, and the clock of this machine says ${own}`,
      { code: error.code, cause: error },
    );
  }

  #request(method: string, path: string, options: SendOptions): HttpRequest {
    const { ca, insecure, instance, boot, requestSeconds = 30 } = this.#options;
    const epochPosition = options.anonymous ? undefined : this.#options.epochPosition?.get();
    const notOlderThan = method === 'GET' && !options.anonymous ? this.#options.notOlderThan?.get() : undefined;
    return {
      target: { origin: this.#origin, ca, insecure },
      method,
      path: `${API}${path}`,
      headers: {
        accept: 'application/json',
        'accept-encoding': 'gzip',
        [HEADERS.agent]: AGENT_VERSION,
        [HEADERS.instance]: instance,
        [HEADERS.boot]: boot,
        ...(epochPosition !== undefined && { [HEADERS.epochPosition]: epochPosition }),
        ...(notOlderThan !== undefined && { [HEADERS.notOlderThan]: notOlderThan }),
        ...(options.body !== undefined && { 'content-type': 'application/json' }),
        ...(!options.anonymous && { authorization: `Bearer ${this.#token()}` }),
      },
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      deadline: options.deadline ?? requestSeconds * SECOND,
      signal: options.signal,
      connections: this.#connections,
    };
  }

  /** A token signed with the controller's time. */
  #token(): string {
    const { node, clock } = this.#options;
    if (!node) throw new ControllerError('NOT_PROVISIONED', 'the agent is not provisioned');
    const now = Math.floor((clock.now() + this.#offset) / 1000);
    const claims = { sub: node.uuid, iss: NODE_TOKEN_ISSUER, aud: [this.controllerUrl], tokenUse: NODE_TOKEN.use };
    return signToken(node.key, claims, now, NODE_TOKEN.lifetime);
  }
}

/** How a WebSocket is opened. */
export interface SocketRequest {
  url: string;
  headers: Record<string, string>;
  /** PEM of the authority */
  ca?: string;
  /** turns certificate verification off */
  insecure?: boolean;
  /** connections that stand already, one of which is taken */
  connections?: Agent;
}

interface SendOptions {
  body?: unknown;
  signal?: AbortSignal;
  deadline?: number;
  limit?: number;
  anonymous?: boolean;
}

function parseBody<T extends z.ZodType>(schema: T, { body }: HttpResponse): z.infer<T> {
  try {
    return schema.parse(JSON.parse(body));
  } catch (error) {
    throw new ControllerError(
      'INTERNAL_ERROR',
      'the controller gave an answer that cannot be read, or another program answers at its address',
      { code: FOREIGN, cause: error },
    );
  }
}

/** A time to the minute: a text that changes with each report would be sent with each report. */
function timeText(time: number): string {
  return `${new Date(time).toISOString().slice(0, 16)}Z`;
}

const CERTIFICATE_TIME: ReadonlySet<string> = new Set(['CERT_NOT_YET_VALID', 'CERT_HAS_EXPIRED']);
const CERTIFICATE_TROUBLE = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ALTNAME|UNABLE_TO_GET_ISSUER/;

/** A server that answers the beginning of TLS with something else. */
export const NO_TLS = /^(EPROTO|ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST))$/;

function transportTrouble(error: unknown, url: string): unknown {
  if (!(error instanceof TransportError)) return error;
  const { code, message } = error;
  const trouble = (connection: Connection, text: string) =>
    new ControllerError(connection, text, { code, cause: error });
  if (CERTIFICATE_TROUBLE.test(code))
    return trouble('BROKEN_CERTIFICATE', `the certificate of ${url} is not trusted: ${message}`);
  if (NO_TLS.test(code))
    return trouble('NOT_CONNECTED', `${url} does not speak TLS; the same address may do with http`);
  return trouble('NOT_CONNECTED', `the controller at ${url} does not answer: ${message}`);
}

const BY_STATUS: Record<number, Connection> = {
  400: 'BAD_REQUEST',
  401: 'UNAUTHORIZED',
  403: 'UNAUTHORIZED',
  404: 'NOT_FOUND',
};

function refused({ status, headers, body }: HttpResponse, what: string, url: string): ControllerError {
  const json = jsonOr(body, {});
  const error = agentErrorSchema.partial().safeParse(json).data ?? {};
  // A controller says why it refuses, in a form of its own: many other programs answer with a `message` or an `error` as well.
  // A proxy before it limits requests in words of its own.
  if (status < 500 && status !== 429 && !agentErrorSchema.safeParse(json).success)
    return new ControllerError('NOT_FOUND', `another program than a controller answers at ${url}: ${what}: ${status}`, {
      code: FOREIGN,
      status,
    });
  const seconds = Number(headers['retry-after']);
  const connection = BY_STATUS[status] ?? (status === 503 || status === 429 ? 'NOT_CONNECTED' : 'INTERNAL_ERROR');
  const text = error.message ?? error.error ?? '';
  return new ControllerError(connection, `${what}: ${status}${text && ` ${text}`}`, {
    code: error.code,
    status,
    retryAfter: Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 300) * SECOND : undefined,
  });
}

/** Nothing, where the controller says that there is none. The 404 of another program, such as a proxy without its routes, is thrown. */
function absent(error: unknown): undefined {
  if (error instanceof ControllerError && error.status === 404 && error.code !== FOREIGN) return undefined;
  throw error;
}
