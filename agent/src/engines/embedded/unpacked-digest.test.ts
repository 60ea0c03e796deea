import { createHash, randomBytes } from 'node:crypto';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { packingOf, unpackedDigest } from './unpacked-digest.ts';

const CONTENT = Buffer.concat([randomBytes(100_000), Buffer.alloc(400_000, 'layer')]);
const digestOf = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** Passes bytes in pieces whose memory is used again, as the reader of an archive does. */
async function passed(bytes: Buffer) {
  const source = async function* () {
    const memory = Buffer.alloc(5_000);
    for (let at = 0; at < bytes.length; at += memory.length)
      yield memory.subarray(0, bytes.copy(memory, 0, at, at + memory.length));
  };
  const unpacked = unpackedDigest(source());
  const through: Buffer[] = [];
  for await (const piece of unpacked.pieces()) through.push(Buffer.from(piece));
  expect(Buffer.concat(through).equals(bytes)).toBe(true);
  return unpacked.digest();
}

describe('the digest of what a layer is packed from', () => {
  test.each([
    ['', CONTENT],
    ['+gzip', gzipSync(CONTENT)],
    ['+zstd', zstdCompressSync(CONTENT)],
  ])('is known with the packing "%s"', async (packing, bytes) => {
    expect(packingOf(bytes)).toBe(packing);
    expect(await passed(bytes)).toBe(digestOf(CONTENT));
  });

  test('is not known of a layer that is damaged or cut off', async () => {
    const damaged = gzipSync(CONTENT);
    damaged[50_000] = (damaged[50_000] ?? 0) ^ 0xff;
    const cut = gzipSync(CONTENT).subarray(0, 60_000);
    for (const bytes of [damaged, cut, zstdCompressSync(CONTENT).subarray(0, 60_000)])
      expect(await passed(bytes)).not.toBe(digestOf(CONTENT));
  });
});
