import { Decoder, ExtensionCodec, encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FrameError, readMap } from './message-pack.ts';

const MOST = 16;

class NoExtensions extends ExtensionCodec {
  override decode(): never {
    throw new Error('no extensions');
  }
}
const decoder = new Decoder({
  maxArrayLength: 0,
  extensionCodec: new NoExtensions(),
  mapKeyConverter(key) {
    if (typeof key !== 'string') throw new Error('a name is a text');
    return key;
  },
});

/** The map that the library reads, with the bounds of frames; undefined for what is refused. */
function expected(message: Uint8Array): unknown {
  try {
    const value = decoder.decode(message);
    return isMap(value) && membersOf(value) <= MOST ? value : undefined;
  } catch {
    return undefined;
  }
}
const isMap = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !(value instanceof Uint8Array) && !Array.isArray(value);
const membersOf = (value: unknown): number =>
  isMap(value) ? Object.values(value).reduce((sum: number, one) => sum + 1 + membersOf(one), 0) : 0;

function read(message: Uint8Array): unknown {
  try {
    // Without the class of its maps.
    return structuredClone(readMap(message, MOST));
  } catch (error) {
    expect(error).toBeInstanceOf(FrameError);
    return undefined;
  }
}

const text = fc.string({ unit: 'binary', maxLength: 300 });
const scalar = fc.oneof(
  text,
  fc.constantFrom(null, true, false),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double(),
  fc.uint8Array({ maxLength: 300 }),
  fc.constantFrom(new Uint8Array(70_000), 'x'.repeat(70_000)),
);
const { map } = fc.letrec<{ map: object; value: unknown }>((tie) => ({
  map: fc.dictionary(fc.string({ unit: 'binary', maxLength: 40 }), tie('value'), { maxKeys: 8 }),
  value: fc.oneof({ maxDepth: 4 }, scalar, tie('map')),
}));

test('a map is read as another implementation reads it, with up to 16 members in all', () => {
  fc.assert(
    fc.property(map, (value) => {
      const message = encode(value);
      expect(read(message)).toEqual(expected(message));
    }),
  );
});

const isText = (head: number) => (head >= 0xa0 && head < 0xc0) || (head >= 0xd9 && head <= 0xdb);
/** The first byte of a value that is no text, with some bytes that may be its length. */
const piece = fc
  .tuple(
    fc.integer({ min: 0x80, max: 0xff }).filter((head) => !isText(head)),
    fc.uint8Array({ max: 3, maxLength: 4 }),
  )
  .map(([head, rest]) => [head, ...rest]);
/** Texts are whole: the implementations read what is not UTF-8 in different ways. */
const TEXTS = [[0xa0], [0xa1, 0x61], [0xd9, 1, 0x62], [0xda, 0, 1, 0x63], [0xdb, 0, 0, 0, 1, 0x64]];
const pieces = fc.array(fc.oneof(piece, fc.constantFrom(...TEXTS, [0x01])), { maxLength: 12 });

test('any bytes are read as another implementation reads them, or are refused as it does', () => {
  let maps = 0;
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 3 }), pieces, (length, parts) => {
      const message = Uint8Array.from([0x80 + length, ...parts.flat()]);
      const value = expected(message);
      if (value) maps += 1;
      expect(read(message)).toEqual(value);
    }),
    { numRuns: 20_000 },
  );
  expect(maps).toBeGreaterThan(100);
});
