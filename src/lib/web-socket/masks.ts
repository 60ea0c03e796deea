import http from 'node:http';

/**
 * `ws` masks what a client sends, and unmasks what a server receives, byte by byte (RFC 6455, section 5.3), which was a third
 * of the CPU time of an agent that sends output of a program. Newer versions of Node have native functions for both in
 * `node:http`, which `ws` takes when it is loaded. Where they are missing, these take eight bytes at a time in their place.
 */
export interface Masks {
  websocketMask(source: Uint8Array, mask: Uint8Array, output: Uint8Array, offset: number, length: number): void;
  websocketUnmask(buffer: Uint8Array, mask: Uint8Array): void;
}

const WORD = 8;

export const masks: Masks = {
  websocketMask(source, mask, output, offset, length) {
    const target = output.subarray(offset, offset + length);
    if (target.buffer !== source.buffer || target.byteOffset !== source.byteOffset)
      target.set(source.length === length ? source : source.subarray(0, length));
    toggle(target, mask);
  },
  websocketUnmask: toggle,
};

/** Masking twice is unmasking. Words begin where the memory of the buffer allows it, and end with its last whole one. */
function toggle(buffer: Uint8Array, mask: Uint8Array): void {
  const { length, byteOffset } = buffer;
  if (length < 2 * WORD) {
    toggleBytes(buffer, mask, 0, length);
    return;
  }
  const first = (WORD - (byteOffset % WORD)) % WORD;
  const words = new BigUint64Array(buffer.buffer, byteOffset + first, Math.floor((length - first) / WORD));
  const key = keyOf(mask, first);
  for (let i = 0; i < words.length; i++) words[i] = (words[i] as bigint) ^ key;
  toggleBytes(buffer, mask, 0, first);
  toggleBytes(buffer, mask, first + words.byteLength, length);
}

/** The mask as it falls on a word that begins `first` bytes behind the start. */
function keyOf(mask: Uint8Array, first: number): bigint {
  const key = new Uint8Array(WORD);
  for (let i = 0; i < WORD; i++) key[i] = mask[(first + i) % 4] as number;
  return new BigUint64Array(key.buffer)[0] as bigint;
}

function toggleBytes(buffer: Uint8Array, mask: Uint8Array, from: number, to: number): void {
  for (let i = from; i < to; i++) buffer[i] = (buffer[i] as number) ^ (mask[i % 4] as number);
}

const given = http as Partial<Masks>;
given.websocketMask ??= masks.websocketMask;
given.websocketUnmask ??= masks.websocketUnmask;
