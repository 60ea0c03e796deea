/**
 * Protocol buffers, as far as containerd's API needs them: a message is a table of its fields, from which follow its type, its
 * bytes and its reading. Only the fields that the agent uses are named; others are passed over.
 */

type Scalar = 'text' | 'bytes' | 'number' | 'flag';
interface Values {
  text: string;
  bytes: Buffer;
  /** integers of every size; above 2^53 the last digits are lost */
  number: number;
  flag: boolean;
}
type Form = 'one' | 'list' | 'map';

interface Field<T> {
  readonly number: number;
  readonly kind: Scalar | Message;
  readonly form: Form;
  /** only for the compiler */
  readonly type?: T;
}

/** A message: its fields by the names that the agent gives them. */
export type Message = Readonly<Record<string, Field<unknown>>>;
/** The value of a message as it is read: scalars have their zero, messages may be absent. */
export type Of<M extends Message> = { [K in keyof M]: M[K] extends Field<infer T> ? T : never };
/** The value of a message as it is written. */
export type Given<T> = T extends Buffer | string | number | boolean
  ? T
  : T extends readonly (infer I)[]
    ? readonly Given<I>[]
    : { [K in keyof T]?: Given<T[K]> | undefined };

type ValueOf<K extends Scalar | Message> = K extends Scalar ? Values[K] : K extends Message ? Of<K> : never;

export const textField = (number: number): Field<string> => ({ number, kind: 'text', form: 'one' });
export const bytesField = (number: number): Field<Buffer> => ({ number, kind: 'bytes', form: 'one' });
export const integerField = (number: number): Field<number> => ({ number, kind: 'number', form: 'one' });
export const flagField = (number: number): Field<boolean> => ({ number, kind: 'flag', form: 'one' });
export const one = <M extends Message>(number: number, kind: M): Field<Of<M> | undefined> => ({
  number,
  kind,
  form: 'one',
});
export const listField = <K extends Scalar | Message>(number: number, kind: K): Field<ValueOf<K>[]> => ({
  number,
  kind,
  form: 'list',
});
export const map = <K extends Scalar | Message>(number: number, kind: K): Field<Record<string, ValueOf<K>>> => ({
  number,
  kind,
  form: 'map',
});

/** The bytes are no message. */
export class ProtobufError extends Error {
  override name = 'ProtobufError';
}

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

export function encode<M extends Message>(message: M, value: Given<Of<M>>): Buffer {
  const pieces: Buffer[] = [];
  for (const [name, { number, kind, form }] of Object.entries(message)) {
    const given = (value as Record<string, unknown>)[name];
    if (given === undefined) continue;
    if (form === 'list') for (const item of given as unknown[]) pieces.push(tagged(number, kind, item));
    else if (form === 'map')
      for (const [key, item] of Object.entries(given as object))
        if (item !== undefined)
          pieces.push(prefixed(number, Buffer.concat([tagged(1, 'text', key), tagged(2, kind, item)])));
        else continue;
    else if (typeof kind === 'object' || !isZero(given)) pieces.push(tagged(number, kind, given));
  }
  return Buffer.concat(pieces);
}

const isZero = (value: unknown) =>
  value === '' || value === 0 || value === false || (value instanceof Uint8Array && value.length === 0);

function tagged(number: number, kind: Scalar | Message, value: unknown): Buffer {
  if (kind === 'number' || kind === 'flag')
    return Buffer.concat([varint((number << 3) | VARINT), varint(Number(value))]);
  if (kind === 'text') return prefixed(number, Buffer.from(value as string));
  if (kind === 'bytes') return prefixed(number, value as Buffer);
  return prefixed(number, encode(kind, value as Given<Of<typeof kind>>));
}

const prefixed = (number: number, content: Buffer) =>
  Buffer.concat([varint((number << 3) | LENGTH), varint(content.length), content]);

function varint(value: number): Buffer {
  // A negative number has the 64 bits of its complement.
  let left = BigInt.asUintN(64, BigInt(Math.trunc(value)));
  const digits: number[] = [];
  do {
    const digit = Number(left & 0x7fn);
    left >>= 7n;
    digits.push(left > 0n ? digit | 0x80 : digit);
  } while (left > 0n);
  return Buffer.from(digits);
}

/** Throws ProtobufError. */
export function decode<M extends Message>(message: M, from: Buffer): Of<M> {
  const value: Record<string, unknown> = {};
  const names = new Map<number, string>();
  for (const [name, { number, kind, form }] of Object.entries(message)) {
    names.set(number, name);
    value[name] = form === 'list' ? [] : form === 'map' ? {} : typeof kind === 'object' ? undefined : ZEROS[kind]();
  }
  for (const { number, wire, content } of fieldsOf(from)) {
    const name = names.get(number);
    const field = name === undefined ? undefined : message[name];
    if (!field || name === undefined) continue;
    if (field.form === 'map') addEntry(value[name] as Record<string, unknown>, field.kind, expectBytes(content));
    else if (field.form === 'list') (value[name] as unknown[]).push(...itemsOf(field.kind, wire, content));
    else value[name] = readValue(field.kind, content);
  }
  return value as Of<M>;
}

const ZEROS: Readonly<Record<Scalar, () => unknown>> = {
  text: () => '',
  bytes: () => Buffer.alloc(0),
  number: () => 0,
  flag: () => false,
};

function addEntry(into: Record<string, unknown>, kind: Scalar | Message, content: Buffer): void {
  let key = '';
  let value: unknown = typeof kind === 'object' ? decode(kind, Buffer.alloc(0)) : ZEROS[kind]();
  for (const part of fieldsOf(content))
    if (part.number === 1) key = readValue('text', part.content) as string;
    else if (part.number === 2) value = readValue(kind, part.content);
  Object.defineProperty(into, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Numbers of a list may stand packed in one field. */
function itemsOf(kind: Scalar | Message, wire: number, content: Buffer | bigint): unknown[] {
  if ((kind !== 'number' && kind !== 'flag') || wire !== LENGTH) return [readValue(kind, content)];
  const packed = expectBytes(content);
  const items: unknown[] = [];
  for (let at = 0; at < packed.length; ) {
    const { value, end } = readVarint(packed, at);
    items.push(readValue(kind, value));
    at = end;
  }
  return items;
}

function readValue(kind: Scalar | Message, content: Buffer | bigint): unknown {
  if (kind === 'number' || kind === 'flag') {
    if (typeof content !== 'bigint') throw new ProtobufError('a number has the form of bytes');
    return kind === 'flag' ? content !== 0n : Number(BigInt.asIntN(64, content));
  }
  const found = expectBytes(content);
  if (kind === 'text') return found.toString('utf8');
  return kind === 'bytes' ? Buffer.from(found) : decode(kind, found);
}

function expectBytes(content: Buffer | bigint): Buffer {
  if (typeof content === 'bigint') throw new ProtobufError('bytes have the form of a number');
  return content;
}

interface Part {
  number: number;
  wire: number;
  content: Buffer | bigint;
}

function* fieldsOf(from: Buffer): Generator<Part> {
  for (let at = 0; at < from.length; ) {
    const tag = readVarint(from, at);
    const number = Number(tag.value >> 3n);
    const wire = Number(tag.value & 7n);
    at = tag.end;
    if (wire === VARINT) {
      const { value, end } = readVarint(from, at);
      at = end;
      yield { number, wire, content: value };
    } else {
      const { start, end } = boundsOf(from, at, wire);
      if (end > from.length) throw new ProtobufError('a field is longer than its message');
      at = end;
      yield { number, wire, content: from.subarray(start, end) };
    }
  }
}

function boundsOf(from: Buffer, at: number, wire: number): { start: number; end: number } {
  if (wire === FIXED64) return { start: at, end: at + 8 };
  if (wire === FIXED32) return { start: at, end: at + 4 };
  if (wire !== LENGTH) throw new ProtobufError(`a field has the unknown form ${wire}`);
  const length = readVarint(from, at);
  return { start: length.end, end: length.end + Number(length.value) };
}

function readVarint(from: Buffer, start: number): { value: bigint; end: number } {
  let value = 0n;
  for (let at = start; at < Math.min(from.length, start + 10); at++) {
    const digit = from[at] ?? 0;
    value |= BigInt(digit & 0x7f) << BigInt(7 * (at - start));
    if (digit < 0x80) return { value, end: at + 1 };
  }
  throw new ProtobufError('a number does not end');
}
