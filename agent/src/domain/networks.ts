/** Networks of IPv4 as numbers: pure, and without a word about whose they are. */

export interface Cidr {
  /** the first address */
  base: number;
  /** of the prefix */
  bits: number;
}

/** A private network of IPv4 that has room for containers; undefined for any other text. */
export function cidrOf(text: string): Cidr | undefined {
  const network = networkOf(text);
  if (!network || network.bits > SMALLEST) return undefined;
  // The first address names the network: an address inside it is a mistake.
  if (network.base !== addressNumber(text.split('/')[0] ?? '')) return undefined;
  return PRIVATE.some((each) => includes(each, network)) ? network : undefined;
}

/** The network of an address with a prefix, such as an interface has it: `192.168.1.7/24`. */
export function networkOf(text: string): Cidr | undefined {
  const [address = '', prefix = '', more] = text.split('/');
  const number = addressNumber(address);
  const bits = /^\d{1,2}$/.test(prefix) ? Number(prefix) : Number.NaN;
  if (number === undefined || more !== undefined || !(bits >= 0 && bits <= 32)) return undefined;
  return { base: number - (number % size(bits)), bits };
}

/** Whether two networks have an address in common. */
export const overlap = (a: Cidr, b: Cidr): boolean => includes(a, b) || includes(b, a);

/** An address of IPv4 in its usual form. */
export const addressText = (address: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.');

const size = (bits: number) => 2 ** (32 - bits);
const SMALLEST = 28;
const PRIVATE = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10'].flatMap(
  (text) => networkOf(text) ?? [],
);

const includes = (outer: Cidr, inner: Cidr) =>
  inner.bits >= outer.bits && inner.base >= outer.base && inner.base < outer.base + size(outer.bits);

function addressNumber(text: string): number | undefined {
  const parts = text.split('.');
  if (parts.length !== 4 || !parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256))
    return undefined;
  return parts.reduce((sum, part) => sum * 256 + Number(part), 0);
}
