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

/** Characters of what a message says besides its body. `asked` is what the path of an agent's socket names, as JSON. */
const MOST = { word: 64, asked: 2_048, reason: 1_024 } as const;

/**
 * Undefined for what no replica of this version sends. Others may write to a broker, and a value may be of any type of AMQP: one
 * that is no text, number or boolean counts as absent.
 */
export function readEnvelope({ properties: p, body }: BrokerMessage): Envelope | undefined {
  const text = (name: string, most: number = MOST.word): string => {
    const value: unknown = p[name];
    const read = typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
    return typeof read === 'string' && read.length <= most ? read : '';
  };
  const number = (name: string) => Number(text(name) || Number.NaN);
  const link = text('link');
  const seq = number('seq');
  if (link === '') return undefined;
  switch (p.op) {
    case 'frame': {
      const hasMore = text('hasMore') === 'true';
      return Number.isSafeInteger(seq)
        ? { link, op: 'frame', seq, hasMore, messageType: number('messageType'), body }
        : undefined;
    }
    case 'join': {
      const kind = p.kind === 'exec' || p.kind === 'log' ? p.kind : undefined;
      return kind && { link, op: 'join', kind, asked: text('asked', MOST.asked) };
    }
    case 'taken': {
      const taken = number('taken');
      return Number.isSafeInteger(seq) && Number.isSafeInteger(taken) ? { link, op: 'taken', seq, taken } : undefined;
    }
    case 'close': {
      const closeAck = text('closeAck') === 'true';
      const reason = text('reason', MOST.reason);
      return Number.isSafeInteger(seq) ? { link, op: 'close', seq, closeAck, code: number('code'), reason } : undefined;
    }
    default:
      return undefined;
  }
}
