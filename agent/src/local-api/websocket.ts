import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError } from './errors.ts';

/** The server's end of WebSockets (RFC 6455), as far as the local API needs it: small messages, no extensions. */

/** The longest message, in bytes; a client that sends a longer one is disconnected. */
const MESSAGE_LIMIT = 4096;
/** What a client may leave unread, in bytes. */
const BACKLOG_LIMIT = 64 * 1024;

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/** Why a connection ends. */
export const CLOSE = { normal: 1000, goingAway: 1001, protocol: 1002, tooBig: 1009 } as const;

const OPCODES = { continuation: 0x0, text: 0x1, binary: 0x2, close: 0x8, ping: 0x9, pong: 0xa } as const;

export interface Frame {
  final: boolean;
  opcode: number;
  payload: Buffer;
}

/** The first frame of what a client sent and how long it is, nothing while it is incomplete, or the code to close with. */
export function decodeFrame(data: Buffer): { frame: Frame; length: number } | { wrong: number } | undefined {
  if (data.length < 2) return undefined;
  const [first = 0, second = 0] = data;
  const opcode = first & 0x0f;
  const final = (first & 0x80) !== 0;
  const isControl = opcode >= OPCODES.close;
  const short = second & 0x7f;
  // Clients mask, and no extension was agreed on.
  if ((first & 0x70) !== 0 || (second & 0x80) === 0) return { wrong: CLOSE.protocol };
  if (!(Object.values(OPCODES) as number[]).includes(opcode)) return { wrong: CLOSE.protocol };
  if (isControl && (short > 125 || !final)) return { wrong: CLOSE.protocol };
  if (short === 127) return { wrong: CLOSE.tooBig };
  const head = short === 126 ? 4 : 2;
  if (data.length < head) return undefined;
  const size = short === 126 ? data.readUInt16BE(2) : short;
  if (size > MESSAGE_LIMIT) return { wrong: CLOSE.tooBig };
  const length = head + 4 + size;
  if (data.length < length) return undefined;
  const mask = data.subarray(head, head + 4);
  const payload = Buffer.from(data.subarray(head + 4, length));
  for (const [index, byte] of payload.entries()) payload[index] = byte ^ (mask[index % 4] ?? 0);
  return { frame: { final, opcode, payload }, length };
}

/** A frame of the server; its payloads are short. */
function encodeFrame(opcode: number, payload: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([0x80 | opcode, payload.length]), payload]);
}

/** Refuses an invalid handshake, and one from a web page in a browser of this machine. */
export function checkHandshake({ headers }: IncomingMessage): void {
  const key = headers['sec-websocket-key'] ?? '';
  if (headers.upgrade?.toLowerCase() !== 'websocket' || headers['sec-websocket-version'] !== '13')
    throw new ApiError('INVALID_ARGUMENT', 'this is a WebSocket: ask for an upgrade to version 13');
  if (Buffer.from(key, 'base64').length !== 16)
    throw new ApiError('INVALID_ARGUMENT', 'Sec-WebSocket-Key is 16 bytes in base64');
  const { origin } = headers;
  if (origin !== undefined && !isLocal(origin)) throw new ApiError('FORBIDDEN', 'web pages have no access');
}

function isLocal(origin: string): boolean {
  return /^(localhost|127\.0\.0\.1|\[::1\])$/.test(URL.parse(origin)?.hostname ?? '');
}

/** An open connection. A client that does not read, or that violates the protocol, is disconnected. */
export class WebSocketConnection {
  readonly #socket: Duplex;
  #received: Buffer;
  /** pieces of a message whose end is to come */
  #pieces: Buffer[] = [];
  #closing = false;
  #isAlive = true;
  /** a whole message of the client */
  onMessage: (data: Buffer) => void = () => {};
  onClosed: () => void = () => {};

  /** Answers the handshake, which was checked. `head`: what came behind it already. */
  constructor(incoming: IncomingMessage, socket: Duplex, head: Buffer) {
    this.#socket = socket;
    this.#received = head;
    const key = incoming.headers['sec-websocket-key'] ?? '';
    const accept = createHash('sha1')
      .update(key + GUID)
      .digest('base64');
    const lines = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade'];
    socket.write(`${[...lines, `Sec-WebSocket-Accept: ${accept}`].join('\r\n')}\r\n\r\n`);
    socket.on('data', (piece: Buffer) => this.#take(piece));
    socket.on('error', () => socket.destroy());
    socket.on('end', () => socket.end());
    socket.on('close', () => this.onClosed());
    // Until the next turn the caller can set its listeners.
    setImmediate(() => this.#take(Buffer.alloc(0)));
  }

  send(payload: Uint8Array): void {
    this.#write(OPCODES.binary, payload);
  }

  /** Asks whether the client is still there; one that answered nothing since the last time is gone. */
  ping(): void {
    if (!this.#isAlive) return void this.#socket.destroy();
    this.#isAlive = false;
    this.#write(OPCODES.ping, Buffer.alloc(0));
  }

  close(code: number): void {
    if (this.#closing) return;
    const reason = Buffer.alloc(2);
    reason.writeUInt16BE(code);
    this.#write(OPCODES.close, reason);
    this.#closing = true;
    this.#socket.end();
    // A client that does not end its side is not waited for.
    setTimeout(() => this.#socket.destroy(), 2000).unref();
  }

  #write(opcode: number, payload: Uint8Array): void {
    if (this.#closing || this.#socket.destroyed) return;
    if (this.#socket.writableLength > BACKLOG_LIMIT) return void this.#socket.destroy();
    this.#socket.write(encodeFrame(opcode, payload));
  }

  #take(piece: Buffer): void {
    this.#isAlive = true;
    this.#received = Buffer.concat([this.#received, piece]);
    while (!this.#closing) {
      const decoded = decodeFrame(this.#received);
      if (!decoded) return;
      if ('wrong' in decoded) return void this.close(decoded.wrong);
      this.#received = this.#received.subarray(decoded.length);
      this.#act(decoded.frame);
    }
    this.#received = Buffer.alloc(0);
  }

  #act({ final, opcode, payload }: Frame): void {
    if (opcode === OPCODES.close) return void this.close(CLOSE.normal);
    if (opcode === OPCODES.ping) return void this.#write(OPCODES.pong, payload);
    if (opcode === OPCODES.pong) return;
    if ((opcode === OPCODES.continuation) !== this.#pieces.length > 0) return void this.close(CLOSE.protocol);
    this.#pieces.push(payload);
    const size = this.#pieces.reduce((sum, { length }) => sum + length, 0);
    // Empty pieces without end are bounded by their number.
    if (size > MESSAGE_LIMIT || this.#pieces.length > 64) return void this.close(CLOSE.tooBig);
    if (!final) return;
    const message = Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.onMessage(message);
  }
}
