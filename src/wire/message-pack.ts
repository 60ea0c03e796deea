/** Reads the MessagePack of frames. Nothing is allocated for a length that a message announces and does not have. */

/** A message that is no frame. The text names what is wrong and has nothing of the content. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

const NO_MAP = 'the message is not a MessagePack map';

/**
 * Reads a message that is one map. `most` is the number of members of all maps in it, which bounds how deep they are nested: each
 * nested map, also one in the place of a name, needs a member. Lists are empty, and extensions are refused. Throws FrameError.
 */
export function readMap(message: Uint8Array, most: number): Record<string, unknown> {
  const reader = new Reader(message, most);
  const value = reader.value();
  if (!reader.isAtEnd || !(value instanceof Members)) throw new FrameError(NO_MAP);
  return value;
}

/** The class distinguishes a map from all other values. */
class Members {
  [name: string]: unknown;
}

/** Bytes of a text up to which a loop is faster than a call into Node. */
const SHORT = 40;

class Reader {
  readonly #message: Uint8Array;
  readonly #most: number;
  #members = 0;
  #at = 0;

  constructor(message: Uint8Array, most: number) {
    this.#message = message;
    this.#most = most;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#message.length;
  }

  value(): unknown {
    const head = this.unsigned(1);
    if (head < 0x80) return head;
    if (head < 0x90) return this.map(head & 0x0f);
    if (head < 0xa0) return this.list(head & 0x0f);
    if (head < 0xc0) return this.text(head & 0x1f);
    if (head >= 0xe0) return head - 0x100;
    const read = FORMS[head];
    if (!read) throw new FrameError(NO_MAP);
    return read(this);
  }

  map(length: number): Members {
    this.#members += length;
    if (this.#members > this.#most) throw new FrameError(`a frame has ${this.#most} members at most`);
    const members = new Members();
    for (let i = 0; i < length; i++) {
      const name = this.value();
      if (typeof name !== 'string') throw new FrameError('the names of members are texts');
      if (name === '__proto__') throw new FrameError(NO_MAP);
      members[name] = this.value();
    }
    return members;
  }

  list(length: number): unknown[] {
    if (length > 0) throw new FrameError(NO_MAP);
    return [];
  }

  text(length: number): string {
    const start = this.#skip(length);
    return (
      (length <= SHORT ? this.#ascii(start) : undefined) ?? bufferOf(this.#message.subarray(start, this.#at)).toString()
    );
  }

  bytes(length: number): Uint8Array {
    const start = this.#skip(length);
    return this.#message.subarray(start, this.#at);
  }

  unsigned(length: number): number {
    let value = 0;
    for (let at = this.#skip(length); at < this.#at; at++) value = value * 256 + (this.#message[at] as number);
    return value;
  }

  /** The value of so many bytes in one of the forms that Node reads. */
  number<T>(length: number, read: (bytes: Buffer) => T): T {
    return read(bufferOf(this.bytes(length)));
  }

  /** The text from there; undefined for one with other letters. */
  #ascii(start: number): string | undefined {
    let text = '';
    for (let at = start; at < this.#at; at++) {
      const byte = this.#message[at] as number;
      if (byte >= 0x80) return undefined;
      text += String.fromCharCode(byte);
    }
    return text;
  }

  /** Returns where so many bytes begin. */
  #skip(length: number): number {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.#message.length) throw new FrameError(NO_MAP);
    return start;
  }
}

/** The values whose first byte says their form alone (https://github.com/msgpack/msgpack/blob/master/spec.md#formats). */
const FORMS: Readonly<Record<number, (reader: Reader) => unknown>> = {
  192: () => null,
  194: () => false,
  195: () => true,
  196: (reader) => reader.bytes(reader.unsigned(1)),
  197: (reader) => reader.bytes(reader.unsigned(2)),
  198: (reader) => reader.bytes(reader.unsigned(4)),
  202: (reader) => reader.number(4, (bytes) => bytes.readFloatBE()),
  203: (reader) => reader.number(8, (bytes) => bytes.readDoubleBE()),
  204: (reader) => reader.unsigned(1),
  205: (reader) => reader.unsigned(2),
  206: (reader) => reader.unsigned(4),
  207: (reader) => reader.number(8, (bytes) => Number(bytes.readBigUInt64BE())),
  208: (reader) => reader.number(1, (bytes) => bytes.readInt8()),
  209: (reader) => reader.number(2, (bytes) => bytes.readInt16BE()),
  210: (reader) => reader.number(4, (bytes) => bytes.readInt32BE()),
  211: (reader) => reader.number(8, (bytes) => Number(bytes.readBigInt64BE())),
  217: (reader) => reader.text(reader.unsigned(1)),
  218: (reader) => reader.text(reader.unsigned(2)),
  219: (reader) => reader.text(reader.unsigned(4)),
  220: (reader) => reader.list(reader.unsigned(2)),
  221: (reader) => reader.list(reader.unsigned(4)),
  222: (reader) => reader.map(reader.unsigned(2)),
  223: (reader) => reader.map(reader.unsigned(4)),
};

const bufferOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
