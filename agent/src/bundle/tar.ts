const BLOCK = 512;

/** A ustar archive of files that only their owner can read. Paths are short ASCII. */
export function tar(files: ReadonlyMap<string, string>, seconds: number): Buffer {
  const pieces: Buffer[] = [];
  for (const [path, text] of files) {
    const content = Buffer.from(text);
    pieces.push(header(path, content.length, seconds), content, Buffer.alloc(-content.length & (BLOCK - 1)));
  }
  return Buffer.concat([...pieces, Buffer.alloc(2 * BLOCK)]);
}

function header(path: string, size: number, seconds: number): Buffer {
  if (Buffer.byteLength(path) > 100) throw new RangeError(`${path}: longer than an archive takes`);
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, offset: number, length: number) =>
    block.write(value.toString(8).padStart(length - 1, '0'), offset);
  block.write(path, 0);
  octal(0o600, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(seconds, 136, 12);
  block.write('0', 156);
  block.write('ustar\x0000', 257);
  // The checksum is computed with eight blanks in its place.
  block.fill(' ', 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  octal(sum, 148, 7);
  return block;
}
