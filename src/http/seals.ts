import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** Values that clients carry for the controller: every replica with the same secret opens them, nobody else reads or changes them. */
export interface Seals {
  seal(purpose: string, value: object, ttlMs: number): string;
  /** Undefined for what another purpose, another secret or nobody has sealed, and once the time is over. */
  open<T>(purpose: string, sealed: string): T | undefined;
}

const [NONCE_BYTES, TAG_BYTES, KEY_BYTES] = [12, 16, 32];

/** `secret`: as it is now; undefined while nobody has read it. `now`: Unix ms. */
export function createSeals(secret: () => string | undefined, now: () => number = Date.now): Seals {
  const keyOf = (of: string) =>
    new Uint8Array(hkdfSync('sha256', of, 'skerry', 'values that clients carry', KEY_BYTES));
  return {
    seal(purpose, value, ttlMs) {
      const present = secret();
      if (present === undefined) throw new TypeError('the secret of seals has not been read');
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', keyOf(present), nonce).setAAD(Buffer.from(purpose));
      const text = JSON.stringify({ value, until: now() + ttlMs });
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([nonce, body, cipher.getAuthTag()]).toString('base64url');
    },
    open<T>(purpose: string, sealed: string) {
      const bytes = Buffer.from(sealed, 'base64url');
      const present = secret();
      if (present === undefined || bytes.length <= NONCE_BYTES + TAG_BYTES) return undefined;
      const cipher = createDecipheriv('aes-256-gcm', keyOf(present), bytes.subarray(0, NONCE_BYTES))
        .setAAD(Buffer.from(purpose))
        .setAuthTag(bytes.subarray(-TAG_BYTES));
      try {
        const body = bytes.subarray(NONCE_BYTES, -TAG_BYTES);
        const text = Buffer.concat([cipher.update(body), cipher.final()]).toString('utf8');
        const { value, until } = JSON.parse(text) as { value: T; until: number };
        return until > now() ? value : undefined;
      } catch {
        return undefined;
      }
    },
  };
}
