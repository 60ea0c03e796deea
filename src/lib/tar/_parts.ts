const BLOCK = 512;

/** An entry as it is written, whatever it may be. */
export interface TarPart {
  path: string;
  content?: string | Buffer;
  /** the letter of its type; absent: a file */
  type?: string;
  target?: string;
  /** what its header says; absent: the length of its content */
  size?: number;
}

/** A tar archive with exactly these entries. */
export function makeTar(...parts: TarPart[]): Buffer {
  const blocks = parts.flatMap(({ content = '', ...part }) => {
    const bytes = Buffer.from(content);
    return [header({ size: bytes.length, ...part }), bytes, Buffer.alloc(-bytes.length & (BLOCK - 1))];
  });
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]);
}

/** A pax record. */
export const pax = (key: string, value: string): string => {
  const rest = ` ${key}=${value}\n`;
  const digits = String(rest.length + 2).length;
  const length = rest.length + digits;
  return `${length}${rest}`;
};

function header({ path, type = '0', target = '', size = 0 }: TarPart): Buffer {
  const block = Buffer.alloc(BLOCK);
  block.write(path.slice(0, 100), 0);
  block.write('0000644\0', 100);
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  block.write(type, 156);
  block.write(target, 157);
  block.write('ustar\x0000', 257);
  block.fill(' ', 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}
