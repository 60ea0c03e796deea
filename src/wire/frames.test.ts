import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeFrame, encodeFrame, FRAME_LIMITS, FRAME_TYPES, type Frame } from './frames.ts';
import { FrameError } from './message-pack.ts';

const id = fc.string({ maxLength: FRAME_LIMITS.id });
const anyFrame: fc.Arbitrary<Frame> = fc.record(
  {
    type: fc.constantFrom(...Object.values(FRAME_TYPES)),
    data: fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.uint8Array({ minLength: 1_000, maxLength: 1_100, size: 'max' }),
    ),
    sessionId: id,
    execId: id,
    microserviceUuid: id,
    iofogUuid: id,
    timestamp: fc.integer({ min: 0, max: 2 ** 48 }),
    notice: fc.constant(true),
  },
  { requiredKeys: ['type', 'data'] },
);

const withBuffer = (frame: Frame) => ({ ...frame, data: Buffer.from(frame.data) });
const decoded = (message: Uint8Array) => {
  const frame = decodeFrame(message);
  return frame && { ...frame, data: Buffer.from(frame.data) };
};

/** A map header, then the entries as they are. */
const map16 = (length: number, ...entries: number[]) => Uint8Array.from([0xde, length >> 8, length & 0xff, ...entries]);
const TYPE_0 = [0xa4, ...Buffer.from('type'), 0];

test('every frame survives the wire, with every byte of its data', () => {
  fc.assert(
    fc.property(anyFrame, (frame) => {
      expect(decoded(encodeFrame(frame))).toEqual(withBuffer(frame));
    }),
  );
});

test('members that another make sends as null count as absent', () => {
  const message = encode({
    type: FRAME_TYPES.LOG_LINE,
    data: Buffer.from('x'),
    microserviceUuid: null,
    iofogUuid: null,
  });
  expect(decodeFrame(message)).toEqual({ type: FRAME_TYPES.LOG_LINE, data: Uint8Array.from(Buffer.from('x')) });
});

test('the types of frames are the numbers of v3', () => {
  expect(FRAME_TYPES).toEqual({
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
  });
});

test('a frame is a MessagePack map with these bytes', () => {
  const frame = { type: FRAME_TYPES.STDIN, data: Buffer.from('ls\n'), execId: 'e', timestamp: 1 };
  const bytes = '84a47479706500a464617461c4036c730aa665786563496' + '4a165a974696d657374616d7001';
  expect(Buffer.from(encodeFrame(frame)).toString('hex')).toBe(bytes);
});

test('bytes that no program of ours made give a frame, nothing, or a FrameError', () => {
  const hostile = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    // close to a frame: one with some bytes changed
    fc.tuple(anyFrame, fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 4 })).map(([frame, changes]) => {
      const bytes = Buffer.from(encodeFrame(frame));
      for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
      return bytes;
    }),
    fc.object().map((value) => encode(value)),
  );
  fc.assert(
    fc.property(hostile, (bytes) => {
      try {
        const frame = decodeFrame(bytes);
        if (frame) expect(Object.values(FRAME_TYPES)).toContain(frame.type);
      } catch (error) {
        expect(error).toBeInstanceOf(FrameError);
      }
    }),
    { numRuns: 2_000 },
  );
});

test('a frame of a type that this version does not know is ignored', () => {
  expect(decodeFrame(encode({ type: 10, data: Buffer.from('x') }))).toBeUndefined();
  expect(decodeFrame(encode({ type: 200, data: { any: 'thing' } }))).toBeUndefined();
});

test('members that this version does not know are ignored', () => {
  expect(decodeFrame(encode({ type: 1, data: Buffer.from('x'), later: 1 }))).toMatchObject({ type: 1 });
});

test('data may be a text or absent, as some clients send it', () => {
  expect(decoded(encode({ type: 0, data: 'ä' }))?.data.toString()).toBe('ä');
  expect(decoded(encode({ type: 8 }))?.data).toHaveLength(0);
  expect(decoded(encode({ type: 8, data: null, microserviceUuid: null }))?.data).toHaveLength(0);
});

describe('a FrameError names what is wrong', () => {
  const big = (type: number, length: number) => [type, (length >>> 24) & 0xff, (length >>> 16) & 0xff, 0xff, 0xff];
  test.each<[string, Uint8Array, RegExp]>([
    ['nothing', new Uint8Array(0), /not a MessagePack map/],
    ['a number', encode(1), /not a MessagePack map/],
    ['bytes', encode(Buffer.from('type')), /not a MessagePack map/],
    ['a list', encode([1]), /not a MessagePack map/],
    ['a list in a member', encode({ type: 0, later: [1] }), /not a MessagePack map/],
    ['no type', encode({ data: Buffer.from('x') }), /^type:/],
    ['a type that is a text', encode({ type: '1' }), /^type:/],
    ['a negative type', encode({ type: -1 }), /^type:/],
    ['data that is a number', encode({ type: 0, data: 5 }), /^data:/],
    ['an id that is a number', encode({ type: 0, sessionId: 5 }), /^sessionId:/],
    ['a long id', encode({ type: 0, execId: 'x'.repeat(129) }), /^execId:/],
    [
      'a second value after the map',
      Buffer.concat([encode({ type: 0 }), encode({ type: 0 })]),
      /not a MessagePack map/,
    ],
    ['17 members', encode(Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`m${i}`, i]))), /16 members/],
    ['a key that is a number', Uint8Array.from([0x81, 1, 1]), /names of members/],
    ['a key that changes the prototype', encode(JSON.parse('{"__proto__":1}')), /not a MessagePack map/],
    ['a byte over the limit', new Uint8Array(FRAME_LIMITS.bytes + 1), /bytes at most/],
    [
      'data that announces 4 GiB',
      Uint8Array.from([0x82, ...TYPE_0, 0xa4, ...Buffer.from('data'), ...big(0xc6, 2 ** 32 - 1)]),
      /MessagePack map/,
    ],
    [
      'a text that announces 4 GiB',
      Uint8Array.from([0x82, ...TYPE_0, 0xa4, ...Buffer.from('data'), ...big(0xdb, 2 ** 32 - 1)]),
      /MessagePack map/,
    ],
    [
      'a list that announces 4 billion items',
      Uint8Array.from([0x82, ...TYPE_0, 0xa1, 0x78, ...big(0xdd, 2 ** 32 - 1)]),
      /MessagePack map/,
    ],
    ['a map that announces 4 billion members', Uint8Array.from(big(0xdf, 2 ** 32 - 1)), /16 members/],
    ['65,535 members', map16(65_535, ...TYPE_0), /16 members/],
    ['an extension', Uint8Array.from([0x82, ...TYPE_0, 0xa1, 0x78, 0xd6, 0xff, 0, 0, 0, 0]), /MessagePack map/],
  ])('%s', (_, message, text) => {
    expect(() => decodeFrame(message)).toThrow(text);
    expect(() => decodeFrame(message)).toThrow(FrameError);
  });
});

test('maps within maps are refused at 16 members, whatever their depth', () => {
  // Each level is a map with the one member "a", a mebibyte of them.
  const bomb = Buffer.alloc(FRAME_LIMITS.bytes);
  for (let at = 0; at + 3 <= bomb.length; at += 3) bomb.set([0x81, 0xa1, 0x61], at);
  const before = process.memoryUsage().heapUsed;
  expect(() => decodeFrame(bomb)).toThrow('16 members at most');
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(4 * 2 ** 20);
});

test('maps in the places of names are refused at 16 members, whatever their depth', () => {
  const bomb = Buffer.alloc(FRAME_LIMITS.bytes, 0x81);
  const before = process.memoryUsage().heapUsed;
  expect(() => decodeFrame(bomb)).toThrow('16 members at most');
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(4 * 2 ** 20);
});

test('a refused frame leaves nothing behind for the next one', () => {
  expect(() => decodeFrame(encode({ a: { b: { c: { type: 'x' } } } }))).toThrow(FrameError);
  expect(() => decodeFrame(Uint8Array.from([0x81, 0xa1, 0x61, 0x81, 0xa1]))).toThrow(FrameError);
  expect(decodeFrame(encode({ type: 4, data: Buffer.from('bye') }))).toMatchObject({ type: 4 });
});
