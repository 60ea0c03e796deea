import { addressText } from '../../../domain/networks.ts';

/** The networks of IPv4 that a table of routes (/proc/net/route) leads to, without the default route. */
export function networksIn(table: string): string[] {
  return table
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const [, destination = '', , , , , , mask = ''] = line.split('\t');
      if (!WORD.test(destination) || !WORD.test(mask)) return [];
      const bits = ones(numberIn(mask));
      return bits === 0 ? [] : [`${addressText(numberIn(destination))}/${bits}`];
    });
}

const WORD = /^[0-9A-F]{8}$/;
/** The kernel writes the bytes of an address as a number of the machine, which is little endian. */
const numberIn = (hex: string) => Buffer.from(hex, 'hex').readUInt32LE();
const ones = (mask: number) => mask.toString(2).replaceAll('0', '').length;
