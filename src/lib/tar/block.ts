/** The blocks of which a tar archive consists. */
export const BLOCK = 512;

/** Bytes of `size` bytes of content with what fills up their last block. */
export const padded = (size: number): number => Math.ceil(size / BLOCK) * BLOCK;

/** The checksum of a header. Its own field counts as eight blanks. */
export const headerChecksum = (block: Uint8Array): number =>
  block.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 0x20 : byte), 0);
