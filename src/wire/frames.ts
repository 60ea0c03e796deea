import { Decoder, Encoder } from '@msgpack/msgpack';

/**
 * The frames of exec and log sessions: one MessagePack map in each binary WebSocket message
 * (docs/spec/sessions.md#frames). Not part of index.ts, so that only what has sessions loads MessagePack.
 */

export const FRAME_TYPES = {
  STDIN: 0,
  STDOUT: 1,
  STDERR: 2,
  CONTROL: 3,
  CLOSE: 4,
  ACTIVATION: 5,
  LOG_LINE: 6,
  LOG_START: 7,
  LOG_STOP: 8,
  LOG_ERROR: 9,
} as const;
export type FrameType = (typeof FRAME_TYPES)[keyof typeof FRAME_TYPES];

export interface Frame {
  type: FrameType;
  data: Uint8Array;
  sessionId?: string;
  /** the same as `sessionId`, in exec sessions */
  execId?: string;
  microserviceUuid?: string;
  /** uuid of the node; the name is that of v3 */
  iofogUuid?: string;
  /** Unix ms */
  timestamp?: number;
  /** ours: a text of the controller between what the program writes; third-party clients show it as output */
  notice?: boolean;
}

/** A message that is no frame. The text names what is wrong and has nothing of the content. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

export const FRAME_LIMITS = {
  /** of a whole message, on every socket */
  bytes: 2 ** 20,
  /** members, those that are not known included */
  members: 16,
  /** characters of an id */
  id: 128,
} as const;

const KNOWN: ReadonlySet<unknown> = new Set(Object.values(FRAME_TYPES));

/** Members of all maps of the frame that is being decoded. */
let members = 0;

/**
 * What a frame may contain is bounded before memory is allocated: lengths by these limits, and nesting by the number of
 * members, since a list has no item and each nested map, also one in the place of a name, needs a member of its own.
 */
const decoder = new Decoder({
  maxStrLength: FRAME_LIMITS.bytes,
  maxBinLength: FRAME_LIMITS.bytes,
  maxArrayLength: 0,
  maxExtLength: 0,
  mapKeyConverter(key) {
    if (typeof key !== 'string') throw new FrameError('the names of members are texts');
    return key;
  },
});

// The decoder has no bound of its own for maps within maps. This is where it begins one, private by its types alone.
const begins = decoder as unknown as { pushMapState(this: Decoder, size: number): void };
const { pushMapState } = begins;
begins.pushMapState = function (size) {
  members += size;
  if (members > FRAME_LIMITS.members) throw new FrameError(`a frame has ${FRAME_LIMITS.members} members at most`);
  pushMapState.call(this, size);
};

/** Throws FrameError. Undefined for a type that this version does not know, which receivers ignore. */
export function decodeFrame(message: Uint8Array): Frame | undefined {
  if (message.length > FRAME_LIMITS.bytes) throw new FrameError(`a frame has ${FRAME_LIMITS.bytes} bytes at most`);
  members = 0;
  let value: unknown;
  try {
    value = decoder.decode(message);
  } catch (cause) {
    throw cause instanceof FrameError ? cause : new FrameError('the message is not a MessagePack map', { cause });
  }
  if (value === null || typeof value !== 'object' || value instanceof Uint8Array || Array.isArray(value))
    throw new FrameError('the message is not a MessagePack map');
  return frameOf(value as Record<string, unknown>);
}

function frameOf(value: Record<string, unknown>): Frame | undefined {
  const { type, data, sessionId, execId, microserviceUuid, iofogUuid, timestamp, notice } = value;
  if (typeof type !== 'number' || !Number.isInteger(type) || type < 0)
    throw new FrameError('type: a number from 0 to 9 is required');
  if (!KNOWN.has(type)) return undefined;
  const frame: Frame = { type: type as FrameType, data: bytesOf(data) };
  if (isGiven(sessionId)) frame.sessionId = idOf('sessionId', sessionId);
  if (isGiven(execId)) frame.execId = idOf('execId', execId);
  if (isGiven(microserviceUuid)) frame.microserviceUuid = idOf('microserviceUuid', microserviceUuid);
  if (isGiven(iofogUuid)) frame.iofogUuid = idOf('iofogUuid', iofogUuid);
  if (typeof timestamp === 'number' && Number.isFinite(timestamp)) frame.timestamp = timestamp;
  if (notice === true) frame.notice = true;
  return frame;
}

const isGiven = (value: unknown) => value !== undefined && value !== null;
const NOTHING = new Uint8Array(0);

/** Some clients send a text, or nothing at all. */
function bytesOf(data: unknown): Uint8Array {
  if (data instanceof Uint8Array) return data;
  if (typeof data === 'string') return Buffer.from(data);
  if (!isGiven(data)) return NOTHING;
  throw new FrameError('data: bytes are required');
}

function idOf(member: string, value: unknown): string {
  if (typeof value === 'string' && value.length <= FRAME_LIMITS.id) return value;
  throw new FrameError(`${member}: a text of ${FRAME_LIMITS.id} characters at most is required`);
}

/**
 * The message of a frame. Agents of other makes read each member as what it is and give up the session otherwise, so absent members
 * are left out and times are whole.
 */
export function encodeFrame(given: Frame): Uint8Array {
  const { timestamp } = given;
  const isWhole = timestamp === undefined || Number.isInteger(timestamp);
  const frame = isWhole ? given : { ...given, timestamp: Math.floor(timestamp) };
  return frame.data.length < LARGE ? encoder.encode(frame) : encodeLarge(frame);
}

/** With the data as its last member, they are copied once; the encoder would copy them three times. */
function encodeLarge({ data, ...rest }: Frame): Uint8Array {
  const head = encoder.encodeSharedRef({ ...rest, data: NOTHING });
  const at = head.length - NO_BYTES;
  const message = Buffer.allocUnsafe(at + BIN_32 + data.length);
  message.set(head.subarray(0, at));
  message[at] = 0xc6;
  message.writeUInt32BE(data.length, at + 1);
  message.set(data, at + BIN_32);
  return message;
}

const encoder = new Encoder({ ignoreUndefined: true });
/** bytes of data */
const LARGE = 1024;
/** bytes of an empty value of bytes, and those in front of one whose length is a number of 32 bits */
const NO_BYTES = 2;
const BIN_32 = 5;
