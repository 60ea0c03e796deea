import { createGunzip, createZstdDecompress } from 'node:zlib';
import { drained } from './drained.ts';

const DECOMPRESSORS = { gzip: createGunzip, zstd: createZstdDecompress } as const;
export type Compression = keyof typeof DECOMPRESSORS;

/** What compressed pieces unpack to, piece by piece: the reader bounds how much of it there is. Throws errors of zlib. */
export async function* decompressed(packed: AsyncIterable<Buffer>, form: Compression): AsyncGenerator<Buffer> {
  const stream = DECOMPRESSORS[form]();
  const feeding = (async () => {
    for await (const piece of packed) {
      if (stream.destroyed) return;
      // A piece may be a part of a buffer that is used again.
      if (!stream.write(Buffer.from(piece))) await drained(stream);
    }
    stream.end();
  })();
  feeding.catch((error: Error) => stream.destroy(error));
  try {
    yield* stream as AsyncIterable<Buffer>;
  } finally {
    stream.destroy();
  }
}

/** Whether an error says that bytes are not what they should be. */
export function isDamage(error: unknown): boolean {
  return /^Z_|^ZSTD_/.test((error as NodeJS.ErrnoException).code ?? '');
}
