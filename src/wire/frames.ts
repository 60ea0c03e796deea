import { Encoder } from '@msgpack/msgpack';
import { FrameError, readMap } from './message-pack.ts';
import { SESSION_TIMES } from './sessions.ts';

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

export const FRAME_LIMITS = {
  /** of a whole message, on every socket */
  bytes: 2 ** 20,
  /** members, those that are not known included */
  members: 16,
  /** characters of an id */
  id: 128,
} as const;

/** Bounds of every WebSocket of a session: bytes of a message, and ms of the connection after a close frame. */
export const SOCKET_BOUNDS = { maxBytes: FRAME_LIMITS.bytes, closeMs: SESSION_TIMES.linger + SESSION_TIMES.close };

const KNOWN: ReadonlySet<unknown> = new Set(Object.values(FRAME_TYPES));

/** Throws FrameError. Undefined for a type that this version does not know, which receivers ignore. */
export function decodeFrame(message: Uint8Array): Frame | undefined {
  if (message.length > FRAME_LIMITS.bytes) throw new FrameError(`a frame has ${FRAME_LIMITS.bytes} bytes at most`);
  return frameOf(readMap(message, FRAME_LIMITS.members));
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
