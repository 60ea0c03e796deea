import { createHash, type Hash } from 'node:crypto';
import type { Transform } from 'node:stream';
import { finished } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { drained } from '../../machine/drained.ts';

/** How layers may be packed: by the first bytes, and what unpacks them. */
const PACKINGS = {
  '+gzip': { magic: Buffer.from([0x1f, 0x8b]), unpack: createGunzip },
  '+zstd': { magic: Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), unpack: createZstdDecompress },
} as const;
type Packing = keyof typeof PACKINGS;

/** How a layer is packed, from its first bytes; empty: not at all. */
export const packingOf = (head: Buffer): Packing | '' =>
  (Object.keys(PACKINGS) as Packing[]).find((name) => head.indexOf(PACKINGS[name].magic) === 0) ?? '';

/** Bytes that are passed on, and the digest of what they are packed from. */
export interface UnpackedDigest {
  pieces(): AsyncGenerator<Buffer>;
  /** Once all pieces were passed; undefined where they cannot be unpacked. */
  digest(): string | undefined;
}

/** The configuration of an image names its layers by the digests of their unpacked bytes. containerd compares them only for a container. */
export function unpackedDigest(bytes: AsyncIterable<Buffer>): UnpackedDigest {
  const hash = createHash('sha256');
  let isWhole = true;
  return {
    async *pieces() {
      let unpacking: ReturnType<typeof unpackInto> | undefined;
      let isFirst = true;
      for await (const piece of bytes) {
        if (isFirst) unpacking = unpackInto(hash, packingOf(piece));
        isFirst = false;
        await unpacking?.take(piece);
        yield piece;
      }
      isWhole = (await unpacking?.end()) ?? true;
    },
    digest: () => (isWhole ? `sha256:${hash.digest('hex')}` : undefined),
  };
}

/** Gives a hash what bytes are packed from; `end` says whether they were whole. */
function unpackInto(hash: Hash, packing: Packing | '') {
  if (packing === '') return { take: async (piece: Buffer) => void hash.update(piece), end: async () => true };
  const stream: Transform = PACKINGS[packing].unpack();
  stream.on('data', (piece: Buffer) => hash.update(piece));
  const isWhole = finished(stream).then(
    () => true,
    () => false,
  );
  return {
    async take(piece: Buffer) {
      // The bytes are read later, when the reader of the archive may have others in their place.
      if (!stream.destroyed && !stream.write(Buffer.from(piece))) await drained(stream);
    },
    end: () => {
      if (!stream.destroyed) stream.end();
      return isWhole;
    },
  };
}
