import { createHash, createHmac, timingSafeEqual } from 'node:crypto';

/** The second factor of a user as it is stored. */
export interface StoredFactor {
  /** base32 */
  readonly secret: string;
  /** false: begun, and not confirmed by a code yet */
  readonly enabled: boolean;
  /** the last step whose code was used; codes of it and of steps before it are refused */
  readonly lastStep: number;
  /** hashes of the recovery codes that are left */
  readonly recovery: readonly string[];
}

const DIGITS = 6;
const STEP_MS = 30_000;
/** Clocks of phones are late, and people type slowly. */
const STEPS_BACK = 1;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** The code of a step (RFC 6238 with HMAC-SHA-1). */
export function totpCode(secret: Uint8Array, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', secret).update(counter).digest();
  const offset = (mac[mac.length - 1] ?? 0) & 15;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 10 ** DIGITS).padStart(DIGITS, '0');
}

/** The factor once `code` has been used; undefined when the code is wrong or was used before. `now`: Unix ms. */
export function withCodeUsed<T extends StoredFactor>(factor: T, code: string, now: number): T | undefined {
  const secret = fromBase32(factor.secret);
  const current = Math.floor(now / STEP_MS);
  let used: number | undefined;
  for (let step = current - STEPS_BACK; step <= current; step++) {
    if (isSame(totpCode(secret, step), code.trim()) && step > factor.lastStep) used = step;
  }
  return used === undefined ? undefined : { ...factor, lastStep: used };
}

/** The factor without the recovery code `code`; undefined when it has no such code. */
export function withRecoveryUsed<T extends StoredFactor>(factor: T, uuid: string, code: string): T | undefined {
  const hash = recoveryHash(uuid, code);
  const left = factor.recovery.filter((other) => !isSame(other, hash));
  return left.length === factor.recovery.length ? undefined : { ...factor, recovery: left };
}

/**
 * The hash under which a recovery code of a user is stored. One round of SHA-256 is enough: a code has 40 random bits, and an
 * account has five attempts.
 */
export const recoveryHash = (uuid: string, code: string): string =>
  createHash('sha256').update(`${uuid}\0${code.trim().toLowerCase()}`).digest('hex');

/** What an app reads from a QR code. */
export function otpauthUrl(secret: string, account: string): string {
  const label = encodeURIComponent(`${ISSUER}:${account}`);
  return `otpauth://totp/${label}?secret=${secret}&issuer=${ISSUER}&algorithm=SHA1&digits=${DIGITS}&period=${STEP_MS / 1_000}`;
}
const ISSUER = 'Controller';

/** Without padding, as apps expect it. */
export function toBase32(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    for (bits += 8; bits >= 5; bits -= 5) text += ALPHABET[(value >> (bits - 5)) & 31];
  }
  return bits > 0 ? text + ALPHABET[(value << (5 - bits)) & 31] : text;
}

export function fromBase32(text: string): Uint8Array {
  const bytes: number[] = [];
  let bits = 0;
  let value = 0;
  for (const character of text) {
    value = ((value << 5) | ALPHABET.indexOf(character)) & 0xfff;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((value >> bits) & 255);
    }
  }
  return Uint8Array.from(bytes);
}

const isSame = (one: string, other: string): boolean =>
  timingSafeEqual(createHash('sha256').update(one).digest(), createHash('sha256').update(other).digest());
