import { describe, expect, test } from 'vitest';
import {
  bytesField,
  decode,
  encode,
  flagField,
  integerField,
  listField,
  map,
  one,
  ProtobufError,
  textField,
} from './protobuf.ts';

const inner = { name: textField(1), count: integerField(2) };
const message = {
  number: integerField(1),
  name: textField(2),
  data: bytesField(3),
  isSet: flagField(4),
  inner: one(5, inner),
  names: listField(6, 'text'),
  inners: listField(7, inner),
  numbers: listField(8, 'number'),
  labels: map(9, 'text'),
  parts: map(10, inner),
};

describe('a message', () => {
  test('has the bytes that the encoding of protocol buffers defines', () => {
    expect(encode({ a: integerField(1) }, { a: 150 }).toString('hex')).toBe('089601');
    expect(encode({ b: textField(2) }, { b: 'testing' }).toString('hex')).toBe('120774657374696e67');
    expect(encode({ c: one(3, { a: integerField(1) }) }, { c: { a: 150 } }).toString('hex')).toBe('1a03089601');
    expect(encode({ a: integerField(1) }, { a: -1 }).toString('hex')).toBe('08ffffffffffffffffff01');
  });

  test('is read as it was written', () => {
    const value = {
      number: -5,
      name: 'käfer',
      data: Buffer.from([0, 255]),
      isSet: true,
      inner: { name: 'x', count: 2 ** 40 },
      names: ['', 'b'],
      inners: [
        { name: 'one', count: 1 },
        { name: '', count: 0 },
      ],
      numbers: [0, 300],
      labels: { 'a/b': 'c', ['__proto__']: 'd' },
      parts: { p: { name: 'q', count: 3 } },
    };
    const read = decode(message, encode(message, value));
    expect(read).toEqual(value);
    expect(Object.keys(read.labels)).toEqual(['a/b', '__proto__']);
  });

  test('lacks zeros, and reads absent fields as zeros', () => {
    expect(encode(message, { number: 0, name: '', isSet: false, data: Buffer.alloc(0) })).toHaveLength(0);
    expect(decode(message, Buffer.alloc(0))).toEqual({
      ...{ number: 0, name: '', data: Buffer.alloc(0), isSet: false, inner: undefined },
      ...{ names: [], inners: [], numbers: [], labels: {}, parts: {} },
    });
  });

  test('keeps a part that is empty: it is not absent', () => {
    expect(decode(message, encode(message, { inner: {} })).inner).toEqual({ name: '', count: 0 });
  });

  test('passes over fields that nobody named, of every form', () => {
    const others = Buffer.from(`a00601aa0602ffffb106${'00'.repeat(8)}b506${'00'.repeat(4)}`, 'hex');
    expect(decode(inner, Buffer.concat([others, encode(inner, { name: 'x' })]))).toEqual({ name: 'x', count: 0 });
  });

  test('reads numbers that stand packed in one field', () => {
    expect(decode(message, Buffer.from('4203010203', 'hex')).numbers).toEqual([1, 2, 3]);
  });

  test.each([
    ['a field that is longer than the message', '120a41'],
    ['a number without an end', '08ffffffffffffffffffff'],
    ['a form that does not exist', '0b'],
    ['bytes where a number is', '0a0141'],
    ['a number where bytes are', '1001'],
  ])('%s is refused', (_what, hex) => {
    expect(() => decode(message, Buffer.from(hex, 'hex'))).toThrow(ProtobufError);
  });
});
