// A CommonJS module whose exports Node cannot name.
import rhea, { type Connection, type ConnectionOptions, type Delivery, type Receiver, type Sender } from 'rhea';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { type ClientCertificate, routerClientTls } from '../router-client/client-tls.ts';
import type { Address, Broker, BrokerMessage, ChannelListener } from './broker.ts';

export interface AmqpBrokerOptions {
  /** Asked with each connection, and tried one after the other. */
  hosts(): readonly { host: string; port: number }[];
  /** Asked with each connection: TLS with a client certificate, and SASL EXTERNAL. */
  tls?: (() => ClientCertificate) | undefined;
  /** without certificates */
  login?: { username: string; password: string };
  name: string;
  clock: Clock;
  log: Log;
  random?: () => number;
}

/** Connections of one replica; a session has one of them by its id. */
const CONNECTIONS = 8;
/** Messages that a router may send before they are taken. */
const CREDIT = 50;
const IDLE_MS = 300_000;
/** until a connection stands, and until a message can be sent */
const REACH_MS = 5_000;
const RETRY: Backoff = { baseMs: 200, factor: 2, maxMs: 5_000, jitter: 0.5 };
/** until a connection counts as one that holds: a router may refuse after it has opened it */
const HOLDS_MS = 5_000;
/** between two lines of the log about the same trouble */
const QUIET_MS = 600_000;
const UNREACHABLE = 'The router between the replicas cannot be reached';
const REFUSED = 'The router has closed an address of a session; the controller may have to be permitted to use it';
const NON_DURABLE = 0;
const terminus = (address: string) => ({ address, durable: NON_DURABLE, expiry_policy: 'link-detach' as const });

/**
 * A router that speaks AMQP 1.0. Its queues last as long as somebody listens. With each connection that is lost, everything
 * that was on its way is, too: the listeners hear of it, and are bound again.
 */
export function createAmqpBroker(options: AmqpBrokerOptions): Broker {
  const trouble = createTrouble(options);
  const slots = Array.from({ length: CONNECTIONS }, () => createSlot(options, trouble));
  return {
    maxBytes: 2 ** 21,
    open: (address, listener) => (slots[slotOf(address.id)] as Slot).open(nameOf(address), listener),
    [Symbol.dispose]() {
      for (const slot of slots) slot[Symbol.dispose]();
    },
  };
}

interface Trouble {
  say(what: string, why: string): void;
  /** It is over: the next time is news. */
  forget(what: string): void;
}

/** What is wrong with one connection is wrong with the others, too: the log has one line of it. */
function createTrouble({ clock, log }: AmqpBrokerOptions): Trouble {
  const quietUntil = new Map<string, number>();
  return {
    say(what, why) {
      if (clock.now() < (quietUntil.get(what) ?? Number.NEGATIVE_INFINITY)) return log.debug({ why }, what);
      quietUntil.set(what, clock.now() + QUIET_MS);
      log.warn({ why }, what);
    },
    forget: (what) => void quietUntil.delete(what),
  };
}

/** The same on both sides is not necessary, since each has connections of its own. */
function slotOf(id: string): number {
  let hash = 0;
  for (const character of id) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) >>> 0;
  return hash % CONNECTIONS;
}

/**
 * An address for each connection of an agent: while a former one is not known to be dead, messages for two replicas would
 * be in one queue, in the order of chance.
 */
function nameOf(address: Address): string {
  const { kind, id } = address;
  const prefix = kind === 'log' ? 'logs-' : '';
  return address.end === 'user' ? `${prefix}user-${id}` : `${prefix}agent-${id}.${address.link}`;
}

interface Bound {
  address: string;
  listener: ChannelListener;
  isUp: boolean;
  receiver?: Receiver;
  senders: Map<string, Outgoing>;
}

/** A link of the protocol to one address, and what waits for its credit. */
interface Outgoing {
  sender: Sender;
  queue: BrokerMessage[];
  /** messages that were given to the library */
  given: number;
  cancel?: (() => void) | undefined;
  /** Nothing more is sent: it is closed once nothing waits. */
  isForgotten?: boolean;
}

interface Slot extends Disposable {
  open(address: string, listener: ChannelListener): ReturnType<Broker['open']>;
}

/** One connection, made when it is first needed, and again while something is bound to it. */
function createSlot(options: AmqpBrokerOptions, trouble: Trouble): Slot {
  const { clock, log, random = Math.random } = options;
  const bounds = new Set<Bound>();
  const settle = createSettler();
  let connection: Connection | undefined;
  let isOpen = false;
  let isDisposed = false;
  let attempts = 0;
  let cancel = () => {};

  function dial() {
    if (connection || isDisposed || bounds.size === 0) return;
    cancel();
    let made: Connection;
    try {
      const container = rhea.create_container({ id: options.name });
      // What would be an exception without a listener.
      for (const event of [
        'error',
        'connection_error',
        'session_error',
        'protocol_error',
        'sender_error',
        'receiver_error',
      ])
        container.on(event, ({ error }: { error?: unknown }) => log.debug({ err: error, event }, 'AMQP'));
      made = container.connect(connectionOptions(options, attempts));
    } catch (error) {
      return retry(String(error));
    }
    connection = made;
    made.on('connection_open', () => {
      if (connection !== made) return;
      cancel();
      isOpen = true;
      cancel = clock.after(HOLDS_MS, () => {
        attempts = 0;
        trouble.forget(UNREACHABLE);
      });
      for (const bound of bounds) bind(made, bound);
    });
    for (const event of LOST_EVENTS) made.on(event, (context) => lost(made, whyOf(event, context)));
    cancel = clock.after(REACH_MS, () => !isOpen && lost(made, 'it does not answer'));
  }

  function lost(made: Connection, why: string) {
    if (connection !== made) return;
    connection = undefined;
    isOpen = false;
    hangUp(made);
    for (const bound of [...bounds]) drop(bound, why);
    retry(why);
  }

  function retry(why: string) {
    attempts++;
    trouble.say(UNREACHABLE, why);
    cancel();
    cancel = clock.after(backoffDelay(RETRY, attempts, random), dial);
  }

  function drop(bound: Bound, why: string) {
    delete bound.receiver;
    // After the connection, the links end with it.
    for (const sender of bound.senders.values()) {
      if (isOpen) leave(sender);
      else sender.cancel?.();
    }
    bound.senders.clear();
    const wasUp = bound.isUp;
    bound.isUp = false;
    if (wasUp) bound.listener.down(why);
  }

  function bind(to: Connection, bound: Bound) {
    const source = terminus(bound.address);
    const receiver = to.open_receiver({ source, credit_window: CREDIT, autoaccept: false });
    bound.receiver = receiver;
    const isCurrent = () => bound.receiver === receiver;
    // The connection may be to a machine that is gone without a word, which the protocol notices after twice its idle time.
    clock.after(REACH_MS, () => isCurrent() && !bound.isUp && lost(to, 'the router does not answer'));
    receiver.on('receiver_open', () => {
      if (!isCurrent() || bound.isUp) return;
      bound.isUp = true;
      bound.listener.up();
    });
    receiver.on('message', ({ message: received, delivery }) => {
      // Its listener is gone: what is on its way to it goes back to the router.
      if (!isCurrent() || !received) return settle(delivery, 'release');
      bound.listener.message(messageOf(received));
      settle(delivery, 'accept');
    });
    for (const event of ['receiver_close', 'receiver_error'])
      receiver.on(event, (context) => {
        if (!isCurrent()) return;
        trouble.say(REFUSED, whyOf(event, context));
        drop(bound, 'the router has closed the address');
        clock.after(RETRY.maxMs, () => connection === to && isOpen && bounds.has(bound) && bind(to, bound));
      });
  }

  function senderTo(from: Bound, address: string, to: Connection) {
    const known = from.senders.get(address);
    if (known) return known;
    const sender = to.open_sender({ target: terminus(address) });
    const made: Outgoing = { sender, queue: [], given: 0 };
    from.senders.set(address, made);
    sender.on('sendable', () => flush(from, made));
    sender.on('sender_flow', () => isStuck(made) && lost(to, 'the router took back credit that was used'));
    for (const event of ['sender_close', 'sender_error'])
      sender.on(event, (context) => {
        if (from.senders.get(address) !== made) return;
        trouble.say(REFUSED, whyOf(event, context));
        restart(from, 'the router has closed the address');
      });
    return made;
  }

  function flush(from: Bound, to: Outgoing) {
    while (to.queue.length > 0 && hasCredit(to)) {
      const next = to.queue.shift() as BrokerMessage;
      to.given++;
      to.sender.send({
        content_type: 'application/octet-stream',
        application_properties: { ...next.properties },
        body: rhea.message.data_section(Buffer.from(next.body.buffer, next.body.byteOffset, next.body.length)),
      });
      to.cancel?.();
      to.cancel = undefined;
    }
    if (to.queue.length > 0)
      to.cancel ??= clock.after(REACH_MS, () => (to.isForgotten ? leave(to) : restart(from, 'nothing can be sent')));
    else if (to.isForgotten) leave(to);
  }

  /** Its other side may be gone: that it takes nothing is the end of nothing else. */
  function forget(from: Bound, address: string) {
    const known = from.senders.get(address);
    if (!known) return;
    from.senders.delete(address);
    known.cancel?.();
    known.cancel = undefined;
    known.isForgotten = true;
    flush(from, known);
  }

  function leave({ sender, cancel }: Outgoing) {
    cancel?.();
    sender.close();
  }

  /** Messages to the other side are lost; what listens here is not. */
  function restart(bound: Bound, why: string) {
    const { receiver, isUp } = bound;
    drop(bound, why);
    if (!receiver || !isUp || !bounds.has(bound)) return;
    bound.receiver = receiver;
    bound.isUp = true;
    bound.listener.up();
  }

  return {
    open(address, listener) {
      const bound: Bound = { address, listener, isUp: false, senders: new Map() };
      bounds.add(bound);
      queueMicrotask(() => {
        if (!bounds.has(bound) || bound.receiver) return;
        if (connection && isOpen) bind(connection, bound);
        else dial();
      });
      return {
        send(to, said) {
          if (!connection || !isOpen || !bound.isUp) return;
          const made = senderTo(bound, nameOf(to), connection);
          made.queue.push(said);
          flush(bound, made);
        },
        forget: (to) => forget(bound, nameOf(to)),
        close() {
          if (!bounds.delete(bound)) return;
          // What was sent last is on its way before its link is closed.
          for (const sender of bound.senders.values()) leave(sender);
          bound.receiver?.close();
          delete bound.receiver;
        },
      };
    },
    [Symbol.dispose]() {
      isDisposed = true;
      cancel();
      if (connection) hangUp(connection);
      connection = undefined;
      bounds.clear();
    },
  };
}

/**
 * Gives the outcome of each delivery in its turn. The library writes the outcomes of one turn of the event loop as one range, with
 * the first outcome for a second one that differs: a released message would count as accepted, and be lost. So a turn has one outcome.
 */
function createSettler(): (delivery: Delivery | undefined, outcome: 'accept' | 'release') => void {
  let current: 'accept' | 'release' | undefined;
  const settle = (delivery: Delivery | undefined, outcome: 'accept' | 'release') => {
    if (current !== undefined && current !== outcome) return void setImmediate(settle, delivery, outcome);
    if (current === undefined)
      setImmediate(() => {
        current = undefined;
      });
    current = outcome;
    delivery?.[outcome]();
  };
  return settle;
}

/**
 * Whether the address takes one more message. The library would accept a message without credit, and then sends nothing more to
 * any address over the connection until that message has credit. It counts what it has sent, not what it was given.
 */
function hasCredit({ sender, given }: Outgoing): boolean {
  const { credit, delivery_count: sent } = sender as CountingSender;
  return given < sent + credit && sender.sendable();
}

/** Whether the library has a message that the address no longer takes. */
function isStuck({ sender, given }: Outgoing): boolean {
  const { credit, delivery_count: sent } = sender as CountingSender;
  return given > sent && given > sent + credit;
}

/** Its types do not know these. */
type CountingSender = Sender & { credit: number; delivery_count: number };

/** A router that permits an address to none may end the session of the protocol, and with it all that is bound. */
const LOST_EVENTS = [
  'disconnected',
  'connection_close',
  'connection_error',
  'session_close',
  'session_error',
  'protocol_error',
  'error',
];

interface Failure {
  message?: string;
  condition?: string;
  description?: string;
}

/** What the router says, or the system; nothing of it is secret. */
function whyOf(
  event: string,
  context?: Partial<Record<'receiver' | 'sender' | 'session', { error?: unknown }>> & { error?: unknown },
): string {
  const found = [context, context?.receiver, context?.sender, context?.session].find((one) => one?.error)?.error;
  const { message: text, condition, description } = (found ?? {}) as Failure;
  return [event, condition, description ?? text].filter(Boolean).join(' ');
}

function hangUp(connection: Connection) {
  try {
    connection.close();
  } catch {
    // It is broken already.
  }
  const { socket } = connection as unknown as { socket?: { destroySoon?(): void } };
  socket?.destroySoon?.();
}

function connectionOptions(options: AmqpBrokerOptions, attempt: number): ConnectionOptions {
  const { tls, login, name } = options;
  const hosts = options.hosts();
  const at = hosts[attempt % hosts.length];
  if (!at) throw new Error('there is no router');
  const { host, port } = at;
  const usual = { host, port, container_id: name, idle_time_out: IDLE_MS, reconnect: false };
  if (!tls) return { ...usual, ...login };
  return {
    ...usual,
    transport: 'tls',
    enable_sasl_external: true,
    ...routerClientTls(host, tls()),
  } as ConnectionOptions;
}

function messageOf({
  application_properties,
  body,
}: {
  application_properties?: object;
  body?: unknown;
}): BrokerMessage {
  const content = Buffer.isBuffer(body) ? body : (body as { content?: unknown } | undefined)?.content;
  return {
    properties: (application_properties ?? {}) as BrokerMessage['properties'],
    body: Buffer.isBuffer(content) ? content : Buffer.alloc(0),
  };
}
