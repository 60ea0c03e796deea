/**
 * The text form of the keys of the message bus (nkeys): base32 of a prefix, the 32 bytes of an Ed25519 key and a checksum. The first
 * letters say what the key is: O, A or U for a public key of an operator, an account or a user, and SO, SA or SU for its seed.
 */

export type NkeyKind = 'operator' | 'account' | 'user';

const ROLES: Readonly<Record<NkeyKind, number>> = { operator: 14 << 3, account: 0, user: 20 << 3 };
const SEED = 18 << 3;
const KEY_BYTES = 32;
const CHECKSUM_BYTES = 2;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
/** Characters of a public key, and of a seed. */
const PUBLIC_LENGTH = 56;
const SEED_LENGTH = 58;

/** Text of the public key with these 32 bytes. */
export const publicKeyText = (kind: NkeyKind, key: Uint8Array): string =>
  withChecksum(Uint8Array.of(ROLES[kind], ...key));

/** Text of the seed with these 32 bytes. */
export function seedText(kind: NkeyKind, seed: Uint8Array): string {
  const role = ROLES[kind];
  return withChecksum(Uint8Array.of(SEED | (role >> 5), (role & 31) << 3, ...seed));
}

/** Kind and bytes of a seed; undefined for text that is none. */
export function readSeed(text: string): { kind: NkeyKind; seed: Uint8Array } | undefined {
  const raw = text.length === SEED_LENGTH ? withoutChecksum(text) : undefined;
  const [first = 0, second = 0] = raw ?? [];
  if (!raw || (first & 0xf8) !== SEED) return undefined;
  const kind = kindOf(((first & 7) << 5) | (second >> 3));
  return kind && { kind, seed: raw.subarray(2) };
}

/** The 32 bytes of a public key of that kind; undefined for text that is none. */
export function publicKeyBytes(text: string, kind: NkeyKind): Uint8Array | undefined {
  const raw = text.length === PUBLIC_LENGTH ? withoutChecksum(text) : undefined;
  return raw?.[0] === ROLES[kind] ? raw.subarray(1) : undefined;
}

/** Whether text is a public key of that kind, checksum included. */
export const isPublicKey = (text: string, kind: NkeyKind): boolean => publicKeyBytes(text, kind) !== undefined;

const kindOf = (role: number) => (Object.keys(ROLES) as NkeyKind[]).find((kind) => ROLES[kind] === role);

function withChecksum(raw: Uint8Array): string {
  const sum = checksum(raw);
  return base32(Uint8Array.of(...raw, sum & 0xff, sum >> 8));
}

function withoutChecksum(text: string): Uint8Array | undefined {
  const all = fromBase32(text);
  if (!all || all.length < KEY_BYTES + CHECKSUM_BYTES) return undefined;
  const raw = all.subarray(0, -CHECKSUM_BYTES);
  const [low = 0, high = 0] = all.subarray(-CHECKSUM_BYTES);
  return checksum(raw) === low + (high << 8) ? raw : undefined;
}

/** CRC-16/XMODEM. */
function checksum(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

function base32(bytes: Uint8Array): string {
  let text = '';
  let [value, bits] = [0, 0];
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xffff;
    for (bits += 8; bits >= 5; bits -= 5) text += ALPHABET[(value >> (bits - 5)) & 31];
  }
  return bits > 0 ? text + ALPHABET[(value << (5 - bits)) & 31] : text;
}

function fromBase32(text: string): Uint8Array | undefined {
  const bytes: number[] = [];
  let [value, bits] = [0, 0];
  for (const letter of text) {
    const digit = ALPHABET.indexOf(letter);
    if (digit < 0) return undefined;
    value = ((value << 5) | digit) & 0xffff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((value >> bits) & 0xff);
    }
  }
  return Uint8Array.from(bytes);
}
