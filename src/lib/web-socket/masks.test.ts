import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { masks } from './masks.ts';

const ROOT = join(import.meta.dirname, '../../..');

const MASK = Uint8Array.of(0x12, 0xff, 0x00, 0x81);
const masked = (source: Uint8Array) => source.map((byte, i) => byte ^ (MASK[i % 4] as number));
const isUntouched = (byte: number) => byte === UNTOUCHED;
const UNTOUCHED = 7;
const LENGTHS = [0, 1, 7, 15, 16, 17, 23, 24, 31, 64, 125, 1_000, 65_537];

/** A view of so many bytes, which begins at `offset` of its memory and has three bytes behind it. */
function view(offset: number, length: number) {
  const memory = new Uint8Array(offset + length + 3).fill(UNTOUCHED);
  const inside = memory.subarray(offset, offset + length);
  return { inside, outside: () => [...memory.subarray(0, offset), ...memory.subarray(offset + length)] };
}

/** No two neighbours are the same. */
function filled(offset: number, length: number): Uint8Array {
  const { inside } = view(offset, length);
  for (let i = 0; i < length; i++) inside[i] = i * 37 + 11;
  return inside;
}

describe.each([0, 1, 2, 3, 4, 5, 6, 7, 8])('the masks of WebSockets, %i bytes into the memory', (offset) => {
  it.each(LENGTHS)('mask %i bytes as RFC 6455 says, and nothing beside them', (length) => {
    for (const from of [0, 1, offset]) {
      const source = filled(from, length);
      const { inside, outside } = view(offset, length);
      masks.websocketMask(source, MASK, new Uint8Array(inside.buffer), offset, length);
      expect(Buffer.compare(inside, masked(source))).toBe(0);
      expect(outside().every(isUntouched)).toBe(true);
    }
  });

  it.each(LENGTHS)('unmask %i bytes in their place, and nothing beside them', (length) => {
    const plain = filled(0, length);
    const { inside, outside } = view(offset, length);
    inside.set(masked(plain));
    masks.websocketUnmask(inside, MASK);
    expect(Buffer.compare(inside, plain)).toBe(0);
    masks.websocketMask(inside, MASK, inside, 0, length);
    expect(Buffer.compare(inside, masked(plain))).toBe(0);
    expect(outside().every(isUntouched)).toBe(true);
  });
});

/** Says on stderr of each look for a mask whether there was one: ours is the first one, then come those of the library. */
const WATCH = `
  import http from 'node:http';
  let value;
  Object.defineProperty(http, 'websocketMask', {
    get() { process.stderr.write(value ? 'found;' : 'missing;'); return value; },
    set(given) { value = given; },
  });`;

// The agent loads it with its first session, by handshake.ts.
it.each(['src/lib/web-socket/handshake.ts', 'src/main.ts', 'cli/src/main.ts'])(
  'the WebSockets of %s have these masks, which are there before their library looks for them',
  (file) => {
    const watch = `data:text/javascript,${encodeURIComponent(WATCH)}`;
    const args = ['--import', watch, join(ROOT, file), '--help'];
    const { stderr, status } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect({ stderr, status }).toEqual({ stderr: expect.stringMatching(/^missing;(found;)+$/), status: 0 });
  },
);
