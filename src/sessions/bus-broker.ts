import {
  connect,
  credsAuthenticator,
  ErrorCode,
  headers,
  type Msg,
  type MsgHdrs,
  type NatsConnection,
  type Subscription,
} from 'nats';
import { busTlsOptions } from '../bus-client/tls.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Address, Broker, BrokerMessage, ChannelListener } from './broker.ts';

export interface BusBrokerOptions {
  /** URLs; asked for at each connection. None: the bus is not there yet. */
  servers(): readonly string[];
  /** Certificates by which servers with `tls://` URLs are known; undefined: public authorities sign them. */
  ca?: (() => string | undefined) | undefined;
  /** Text with the token and the seed of the account and user `controller`; asked for at each connection. */
  credentials?: (() => Uint8Array) | undefined;
  clock: Clock;
  log: Log;
}

const PREFIX = 'controller.relay.v1';
const RECONNECT_MS = 1_000;
/** After so many attempts the servers are asked for again: the bus may be elsewhere. */
const RECONNECTS = 5;
const FLUSH_MS = 5_000;
/** What may be published and not flushed. What comes after that is lost, and the session hears of it. */
const PENDING = { bytes: 32 * 2 ** 20, messages: 8_192 } as const;
/** The usual bound of a message on the bus is 1 MiB with its headers. */
const MAX_BYTES = 512 * 1024;

const tlsFor = (servers: readonly string[], ca: string | undefined) =>
  ca === undefined ? {} : busTlsOptions(servers, { ca });

interface Bound {
  subject: string;
  listener: ChannelListener;
  isUp: boolean;
  subscription?: Subscription;
}

/** The message bus: one connection, which is made when it is first needed and comes back without end. */
export function createBusBroker({ servers, ca, credentials, clock, log }: BusBrokerOptions): Broker {
  const bounds = new Set<Bound>();
  let connection: NatsConnection | undefined;
  let isConnected = false;
  let isDisposed = false;
  let isDialing = false;
  let pending = { bytes: 0, messages: 0 };
  let isFlushing = false;
  let wasRefused = false;

  async function dial(): Promise<void> {
    if (isDialing || isDisposed) return;
    isDialing = true;
    for (let attempt = 0; !connection && !isDisposed; attempt++) {
      try {
        const at = servers();
        if (at.length === 0) throw new Error('no server of the message bus is known');
        const made = await connect({
          servers: [...at],
          name: 'controller-ws-relay',
          timeout: FLUSH_MS,
          reconnectTimeWait: RECONNECT_MS,
          maxReconnectAttempts: RECONNECTS,
          // The library knows no schemes: without this, it takes TLS only where the server offers it.
          ...(at.some((one) => one.startsWith('tls://')) && { tls: tlsFor(at, ca?.()) }),
          ...(credentials && {
            authenticator: (nonce?: string) => credsAuthenticator(credentials())(nonce),
          }),
        });
        if (isDisposed) return void made.close().catch(() => {});
        connection = made;
        watch(made).catch((error: unknown) =>
          log.warn({ err: error }, 'The connection to the message bus is not watched'),
        );
        bindAll(made);
      } catch (error) {
        if (attempt % 60 === 0) log.warn({ err: error }, 'The message bus between the replicas cannot be reached');
        await new Promise<void>((resolve) => void clock.after(RECONNECT_MS, resolve));
      }
    }
    isDialing = false;
  }

  async function watch(made: NatsConnection): Promise<void> {
    // The library gives up on servers that are away, and on credentials that are refused again and again: then it begins from the start.
    void made.closed().then((error) => {
      if (connection !== made) return;
      connection = undefined;
      lost(String(error ?? 'it was closed'));
      if (!isDisposed && bounds.size > 0) void dial();
    });
    for await (const { type, data } of made.status()) {
      if (connection !== made) return;
      if (data === ErrorCode.PermissionsViolation) refused(new Error(data));
      if (type === 'disconnect') lost('the connection is lost');
      if (type === 'reconnect') bindAll(made);
    }
  }

  function bindAll(made: NatsConnection) {
    isConnected = true;
    pending = { bytes: 0, messages: 0 };
    for (const bound of bounds) void bind(made, bound);
  }

  function lost(why: string) {
    isConnected = false;
    for (const bound of [...bounds]) down(bound, why);
  }

  function down(bound: Bound, why: string) {
    if (!bound.isUp) return;
    bound.isUp = false;
    bound.listener.down(why);
  }

  /** An exception would end the library's reading of the connection, and with it all sessions over the bus. */
  function heard(bound: Bound, received: Msg) {
    try {
      bound.listener.message(messageOf(received));
    } catch (error) {
      log.debug({ err: error }, 'A message of the bus could not be read');
    }
  }

  /** Up once the server has the subscription. */
  async function bind(made: NatsConnection, bound: Bound): Promise<void> {
    // It may have been closed since it was last tried.
    if (connection !== made || made.isClosed() || !bounds.has(bound)) return;
    if (!bound.subscription || bound.subscription.isClosed())
      bound.subscription = made.subscribe(bound.subject, {
        callback: (error, received) => (error ? refused(error) : heard(bound, received)),
      });
    const isFlushed = await flushed(made);
    if (connection !== made || !isConnected || !bounds.has(bound) || bound.isUp) return;
    if (!isFlushed) return void clock.after(RECONNECT_MS, () => void bind(made, bound));
    // The server has refused it.
    if (bound.subscription.isClosed()) return;
    bound.isUp = true;
    bound.listener.up();
  }

  function refused(error: Error) {
    const level = wasRefused ? 'debug' : 'warn';
    log[level]({ err: error }, 'The message bus refuses what sessions need: the permission is controller.relay.v1.>');
    wasRefused = true;
  }

  async function flushed(made: NatsConnection): Promise<boolean> {
    let cancel = () => {};
    const late = new Promise<boolean>((resolve) => {
      cancel = clock.after(FLUSH_MS, () => resolve(false));
    });
    try {
      return await Promise.race([made.flush().then(() => true), late]);
    } catch {
      return false;
    } finally {
      cancel();
    }
  }

  async function flush(made: NatsConnection): Promise<void> {
    isFlushing = true;
    while (pending.messages > 0 && connection === made && isConnected) {
      const before = { ...pending };
      if (!(await flushed(made))) {
        lost('what was published does not arrive');
        if (connection === made && !made.isClosed()) bindAll(made);
        break;
      }
      pending = { bytes: pending.bytes - before.bytes, messages: pending.messages - before.messages };
    }
    isFlushing = false;
  }

  function publish(bound: Bound, subject: string, said: BrokerMessage) {
    const made = connection;
    if (!made || !isConnected || !bound.isUp) return;
    if (pending.bytes > PENDING.bytes || pending.messages > PENDING.messages) {
      down(bound, 'too much waits to be sent');
      return void bind(made, bound);
    }
    try {
      made.publish(subject, said.body, { headers: headersOf(said) });
    } catch (error) {
      return down(bound, String(error));
    }
    pending = { bytes: pending.bytes + said.body.length, messages: pending.messages + 1 };
    if (!isFlushing) void flush(made);
  }

  return {
    maxBytes: MAX_BYTES,
    open(address, listener) {
      const bound: Bound = { subject: subjectOf(address), listener, isUp: false };
      bounds.add(bound);
      queueMicrotask(() => {
        if (!bounds.has(bound)) return;
        if (connection) void (isConnected && bind(connection, bound));
        else void dial();
      });
      return {
        send: (to, said) => publish(bound, subjectOf(to), said),
        forget() {},
        close() {
          if (bounds.delete(bound)) bound.subscription?.unsubscribe();
        },
      };
    },
    [Symbol.dispose]() {
      isDisposed = true;
      bounds.clear();
      void connection?.close().catch(() => {});
    },
  };
}

/** All connections of an agent share a subject; what is for another one names another link. */
const subjectOf = ({ kind, id, end }: Address) => `${PREFIX}.${kind}.${id}.${end}`;

function headersOf({ properties }: BrokerMessage): MsgHdrs {
  const all = headers();
  for (const [name, value] of Object.entries(properties)) all.set(name, String(value));
  return all;
}

function messageOf({ headers: given, data }: { headers?: MsgHdrs; data: Uint8Array }): BrokerMessage {
  const properties = Object.fromEntries((given?.keys() ?? []).map((name) => [name, given?.get(name) ?? '']));
  return { properties, body: data };
}
