import { FRAME_TYPES } from '../wire/frames.ts';

/**
 * What carries sessions between replicas that do not reach each other directly: a router (AMQP 1.0) or the message bus. Both
 * give no more than messages in order while a connection stands; order, loss and flow are matters of `link.ts`.
 */
export interface Broker extends Disposable {
  /** Listens at an address, again after each time that the connection was lost. The first connection is made when needed. */
  open(address: Address, listener: ChannelListener): Channel;
  /** Bytes that one message may have. */
  readonly maxBytes: number;
}

interface Channel {
  /** Does nothing while the channel is down: what is sent then is lost. */
  send(to: Address, message: BrokerMessage): void;
  /** Nothing more is sent to this address; what was sent is still on its way. */
  forget(to: Address): void;
  close(): void;
}

export interface ChannelListener {
  /** What is sent to the address arrives from now on. */
  up(): void;
  message(message: BrokerMessage): void;
  /** Messages may have been lost, and more will be until `up`. */
  down(reason: string): void;
}

/** One end of a session; that of an agent is another one with each connection of the agent. */
export type Address = { kind: 'exec' | 'log'; id: string } & ({ end: 'user' } | { end: 'agent'; link: string });

/** The properties are those of AMQP, and headers of the bus, where all are texts. */
export interface BrokerMessage {
  properties: Readonly<Record<string, string | number | boolean>>;
  body: Uint8Array;
}

/** What a link says: a frame, or a part of one; that an agent has connected; how much was taken; that it is over. */
export type Envelope = { link: string } & (
  | { op: 'frame'; messageType: number; seq: number; hasMore: boolean; body: Uint8Array }
  | { op: 'join'; kind: 'exec' | 'log'; asked: string }
  /** `seq`: the next one of this side; `taken`: bytes that it has taken */
  | { op: 'taken'; seq: number; taken: number }
  | { op: 'close'; seq: number; closeAck: boolean; code: number; reason: string }
);

const T = FRAME_TYPES;

export function writeEnvelope(said: Envelope): BrokerMessage {
  const { link, op } = said;
  const properties = { messageType: messageTypeOf(said), closeAck: said.op === 'close' && said.closeAck, link, op };
  switch (said.op) {
    case 'frame':
      return { properties: { ...properties, seq: said.seq, hasMore: said.hasMore }, body: said.body };
    case 'join':
      return { properties: { ...properties, kind: said.kind, asked: said.asked }, body: NOTHING };
    case 'taken':
      return { properties: { ...properties, seq: said.seq, taken: said.taken }, body: NOTHING };
    case 'close':
      return {
        properties: { ...properties, seq: said.seq, code: said.code, reason: said.reason.replace(/\s+/g, ' ') },
        body: NOTHING,
      };
  }
}

const NOTHING = new Uint8Array(0);

function messageTypeOf(said: Envelope): number {
  if (said.op === 'frame') return said.messageType;
  if (said.op === 'join') return said.kind === 'exec' ? T.ACTIVATION : T.LOG_START;
  return said.op === 'close' ? T.CLOSE : T.CONTROL;
}

/** Undefined for what no replica of this version sends. */
export function readEnvelope({ properties: p, body }: BrokerMessage): Envelope | undefined {
  const link = String(p.link ?? '');
  const number = (name: string) => Number(p[name] ?? Number.NaN);
  const seq = number('seq');
  if (link === '' || link.length > 64) return undefined;
  switch (p.op) {
    case 'frame': {
      const hasMore = String(p.hasMore) === 'true';
      return Number.isSafeInteger(seq)
        ? { link, op: 'frame', seq, hasMore, messageType: number('messageType'), body }
        : undefined;
    }
    case 'join': {
      const kind = p.kind === 'exec' || p.kind === 'log' ? p.kind : undefined;
      return kind && { link, op: 'join', kind, asked: String(p.asked ?? '') };
    }
    case 'taken': {
      const taken = number('taken');
      return Number.isSafeInteger(seq) && Number.isSafeInteger(taken) ? { link, op: 'taken', seq, taken } : undefined;
    }
    case 'close': {
      const closeAck = String(p.closeAck) === 'true';
      const reason = String(p.reason ?? '');
      return Number.isSafeInteger(seq) ? { link, op: 'close', seq, closeAck, code: number('code'), reason } : undefined;
    }
    default:
      return undefined;
  }
}
