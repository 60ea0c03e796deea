import type { JsonWebKey } from 'node:crypto';

/** The keys of the installation, the same at all replicas. */
export interface SigningKeys {
  /** undefined until the Secret has been read */
  readonly signing: { kid: string; privateJwk: JsonWebKey } | undefined;
  publicJwks(): { keys: JsonWebKey[] };
  /** The public key. Reads the Secret live for an unknown kid; at most one read a second for all. */
  find(kid: string, signal: AbortSignal): Promise<JsonWebKey | undefined>;
  rotate(signal: AbortSignal): Promise<{ kid: string; rotatedAt: string }>;
  /** of the provider's client */
  readonly clientSecret: string | undefined;
  readonly cookieKeys: readonly string[];
  /** Encrypts a value for its purpose; it opens at any replica until `ttlMs` is over. */
  seal(purpose: string, value: object, ttlMs: number): string;
  open<T>(purpose: string, sealed: string): T | undefined;
  /** Unix ms: sessions that began or rotated before are over. */
  readonly sessionsNotBefore: number;
  subscribe(listener: () => void): Disposable;
}
