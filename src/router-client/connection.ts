import type { Socket } from 'node:net';
import type { Connection, ConnectionOptions, Container, EventContext, Sender } from 'rhea';
import { untilAborted } from '../lib/until-aborted.ts';
import { type EntityKind, typeOfKind } from '../router-schema/schema.ts';
import type { FoundEntity, Managed, RouterEntity } from './changes.ts';
import { type ClientCertificate, routerClientTls } from './client-tls.ts';

/** The management of a running router, as a client with a certificate of its machine may use it. */
export interface RouterConnection {
  /** the router at the other end */
  readonly router: { readonly id: string; readonly version: string };
  /** Resolves when the connection has ended, for whatever reason. */
  readonly closed: Promise<void>;
  /** `edge`, `interior` or `standalone`: a router has its mode from its start to its end. */
  mode(signal: AbortSignal): Promise<string>;
  /** All entities of a kind, with every attribute that they have. */
  query(kind: Managed, signal: AbortSignal): Promise<FoundEntity[]>;
  /** These three reject with `RouterRefused` when the router answers with a refusal; others may then be fine. */
  create(entity: RouterEntity, signal: AbortSignal): Promise<void>;
  update(entity: RouterEntity, signal: AbortSignal): Promise<void>;
  delete(entity: Pick<RouterEntity, 'kind' | 'name'>, signal: AbortSignal): Promise<void>;
  /** Ends the connection; never rejects. */
  close(): Promise<void>;
}

export interface RouterClientOptions {
  host: string;
  port: number;
  /** the name that its certificate has to have; absent: the host */
  servername?: string;
  tls: ClientCertificate;
  /** as which the router knows the connection */
  name: string;
  signal: AbortSignal;
}

/** The router does not do what it is asked. `status` is its answer, as of HTTP. */
export class RouterRefused extends Error {
  readonly status: number;
  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

const CONNECT_MS = 5_000;
const REPLY_MS = 10_000;
/** A router that sends nothing for this long is disconnected. */
const IDLE_MS = 30_000;
const MOST_FRAME_BYTES = 65_536;
/** Bytes that a router may send until all that it was asked is answered. */
const MOST_BYTES = 32 * 2 ** 20;
const MOST_ENTITIES = 20_000;
const MOST_OF_MESSAGE = 256;
const MANAGEMENT = '$management';
const CREDIT = 100;

/**
 * Connects once, within 5 s, and never by itself again: whoever holds a connection that ended has to compare everything anyway.
 * Rejects with the reason of the refusal, or of the signal.
 */
export async function connectRouter(options: RouterClientOptions): Promise<RouterConnection> {
  options.signal.throwIfAborted();
  // Loaded with the first connection: most agents have no router.
  const { default: rhea } = await import('rhea');
  options.signal.throwIfAborted();
  const management = new Management(rhea.create_container({ id: options.name }), options);
  const late = setTimeout(() => management.end('it does not answer'), CONNECT_MS);
  try {
    await untilAborted(management.opened, options.signal);
    return management;
  } catch (error) {
    management.end('it was given up');
    throw error;
  } finally {
    clearTimeout(late);
  }
}

interface Waiting {
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

interface Answer {
  status: number;
  description: string;
  body: unknown;
}

class Management implements RouterConnection {
  router = { id: '', version: '' };
  readonly opened: Promise<void>;
  readonly closed: Promise<void>;
  readonly #name: string;
  readonly #connection: Connection;
  readonly #waiting = new Map<string, Waiting>();
  #sender: Sender | undefined;
  #replyTo = '';
  #count = 0;
  #bytes = 0;
  #reason: Error | undefined;
  #failOpening: (error: Error) => void = () => {};
  #resolveClosed = () => {};

  constructor(container: Container, { host, port, servername = host, tls, name }: RouterClientOptions) {
    this.#name = `${host}:${port}`;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    // What would be an exception without a listener.
    for (const event of ENDING) container.on(event, () => {});
    this.#connection = container.connect({
      ...{ host, port, container_id: name, reconnect: false, transport: 'tls', ...routerClientTls(servername, tls) },
      ...{ idle_time_out: IDLE_MS, max_frame_size: MOST_FRAME_BYTES, enable_sasl_external: true },
    } as unknown as ConnectionOptions);
    for (const event of ENDING)
      this.#connection.on(event, (context: EventContext) => this.end(whyOf(context) ?? event.replaceAll('_', ' ')));
    this.opened = new Promise((resolve, reject) => {
      this.#failOpening = reject;
      this.#connection.on('connection_open', () => this.#open(resolve));
    });
    // Who asks for it gets the reason.
    this.opened.catch(() => {});
  }

  #open(opened: () => void): void {
    const { container_id: id = '', properties } = this.#connection as {
      container_id?: string;
      properties?: Properties;
    };
    this.router = { id: shortened(id), version: shortened(String(properties?.version ?? '')) };
    this.#countBytes();
    this.#sender = this.#connection.open_sender({ target: { address: MANAGEMENT } });
    const receiver = this.#connection.open_receiver({ source: { dynamic: true, address: '' }, credit_window: CREDIT });
    receiver.on('receiver_open', () => {
      this.#replyTo = String(receiver.source?.address ?? '');
      if (this.#sender?.sendable()) opened();
    });
    this.#sender.on('sendable', () => {
      if (this.#replyTo !== '') opened();
    });
    receiver.on('message', ({ message }) => {
      if (message) this.#take(message);
    });
  }

  /** The library keeps a message until it is whole, however long it becomes. */
  #countBytes(): void {
    const { socket } = this.#connection as unknown as { socket?: Socket };
    socket?.on('data', (chunk: Buffer) => {
      this.#bytes = this.#waiting.size === 0 ? chunk.length : this.#bytes + chunk.length;
      if (this.#bytes > MOST_BYTES) this.end(`it sent more than ${MOST_BYTES} bytes`);
    });
  }

  #take({ correlation_id: id, application_properties: properties, body }: Reply): void {
    const waiting = this.#waiting.get(String(id));
    const { statusCode, statusDescription } = properties ?? {};
    waiting?.resolve({
      status: Number(statusCode ?? 0),
      description: shortened(String(statusDescription ?? '')),
      body,
    });
  }

  async mode(signal: AbortSignal): Promise<string> {
    const [router] = await this.#rows('router', signal);
    return String(router?.mode);
  }

  async query(kind: Managed, signal: AbortSignal): Promise<FoundEntity[]> {
    const rows = await this.#rows(kind, signal);
    return rows.flatMap((attributes) => {
      const { name } = attributes;
      return typeof name === 'string' ? [{ kind, name, attributes }] : [];
    });
  }

  /** The attributes of each entity of a kind. */
  async #rows(kind: EntityKind, signal: AbortSignal): Promise<Record<string, unknown>[]> {
    const type = typeOfKind(kind);
    const { body } = await this.#ask(
      { operation: 'QUERY', type: 'org.amqp.management', name: 'self', entityType: type },
      { attributeNames: [] },
      signal,
    );
    const { attributeNames: names, results } = (body ?? {}) as { attributeNames?: unknown; results?: unknown };
    if (!Array.isArray(names) || !Array.isArray(results) || results.length > MOST_ENTITIES)
      throw new Error(
        `The router ${this.#name} does not answer a query for ${kind} with at most ${MOST_ENTITIES} rows`,
      );
    return results.flatMap((row: unknown) =>
      Array.isArray(row) ? [Object.fromEntries(names.map((name, i) => [String(name), plain(row[i])]))] : [],
    );
  }

  async create({ kind, name, attributes }: RouterEntity, signal: AbortSignal): Promise<void> {
    await this.#ask({ operation: 'CREATE', type: typeOfKind(kind), name }, { ...attributes }, signal);
  }

  async update({ kind, name, attributes }: RouterEntity, signal: AbortSignal): Promise<void> {
    await this.#ask({ operation: 'UPDATE', type: typeOfKind(kind), name }, { ...attributes }, signal);
  }

  async delete({ kind, name }: Pick<RouterEntity, 'kind' | 'name'>, signal: AbortSignal): Promise<void> {
    try {
      await this.#ask({ operation: 'DELETE', type: typeOfKind(kind), name }, {}, signal);
    } catch (error) {
      // Somebody else was faster.
      if (!(error instanceof RouterRefused && error.status === 404)) throw error;
    }
  }

  async close(): Promise<void> {
    this.end('it was closed');
    await this.closed;
  }

  /** Ends the connection for a reason, once. */
  end(why: string): void {
    if (this.#reason) return;
    this.#reason = new Error(`The connection to the router ${this.#name} ended: ${why}`);
    const { socket } = this.#connection as unknown as { socket?: { destroySoon?(): void } };
    try {
      this.#connection.close();
    } catch {
      // It is broken already.
    }
    socket?.destroySoon?.();
    this.#failOpening(this.#reason);
    for (const { reject } of this.#waiting.values()) reject(this.#reason);
    this.#resolveClosed();
  }

  async #ask(properties: Record<string, string>, body: Record<string, unknown>, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    if (this.#reason) throw this.#reason;
    const id = String(this.#count++);
    let timer: NodeJS.Timeout | undefined;
    const answered = new Promise<Answer>((resolve, reject) => {
      const late = () => reject(new Error(`The router ${this.#name} did not answer within ${REPLY_MS} ms`));
      timer = setTimeout(late, REPLY_MS);
      this.#waiting.set(id, { resolve, reject });
      this.#sender?.send({
        to: MANAGEMENT,
        reply_to: this.#replyTo,
        correlation_id: id,
        application_properties: properties,
        body,
      });
    });
    try {
      const answer = await untilAborted(answered, signal);
      if (answer.status >= 200 && answer.status < 300) return answer;
      const { operation, name } = properties;
      throw new RouterRefused(
        `The router ${this.#name} refuses ${operation} of ${JSON.stringify(name)}: ${answer.description} (${answer.status})`,
        answer.status,
      );
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
    }
  }
}

interface Properties {
  version?: unknown;
}

interface Reply {
  correlation_id?: unknown;
  application_properties?: { statusCode?: unknown; statusDescription?: unknown };
  body?: unknown;
}

/** How connections end, with the refusal of what this connection needs. */
const ENDING = [
  'disconnected',
  'connection_close',
  'connection_error',
  'session_close',
  'session_error',
  'sender_close',
  'sender_error',
  'receiver_close',
  'receiver_error',
  'protocol_error',
  'error',
];

/** What the router says, or the system; nothing of it is secret. */
function whyOf(context: EventContext): string | undefined {
  const { connection, session, sender, receiver } = context as unknown as Record<
    string,
    { error?: unknown } | undefined
  >;
  const own = (context as unknown as { error?: unknown }).error;
  const error = own ?? [receiver, sender, session, connection].find((one) => one?.error)?.error;
  const { message, condition, description } = (error ?? {}) as Record<string, unknown>;
  const said = [condition, description ?? message].filter(Boolean).join(' ');
  return said === '' ? undefined : shortened(said);
}

const shortened = (text: string): string => text.slice(0, MOST_OF_MESSAGE);

/** Large numbers come as objects of the library. */
const plain = (value: unknown): unknown =>
  Buffer.isBuffer(value) ? Number(value.readBigInt64BE()) : (value ?? undefined);
