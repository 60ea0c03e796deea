import type { KeyObject } from 'node:crypto';
import type { Clock } from '../../../src/lib/clock.ts';
import { LOCAL_API } from '../domain/names.ts';
import { type PrivateKey, publicKeyObject } from './identity.ts';
import { type Revocation, type RevocationsDependencies, TokenRevocations } from './revocations.ts';
import { type Claims, claimsNow, signClaims, signingKey, type TokenClaims, verifyToken } from './token.ts';

export interface LocalTokensDependencies extends RevocationsDependencies {
  clock: Pick<Clock, 'now' | 'wall'>;
}

/** A token that is known here, or that was revoked and of which no more is known than its id. */
export interface KnownToken {
  claims: Pick<Claims, 'jti'> & Partial<Claims>;
  /** the token that it took the place of */
  rotatedFrom?: string;
  /** Unix ms */
  revokedAt?: number;
}

/** Called with what counts no more, after that was saved. */
type RevokedListener = (isRevoked: (claims: Claims) => boolean) => void;

interface Issued {
  claims: Claims;
  rotatedFrom?: string;
  /** of a revocation of all tokens of the subject; Unix ms */
  revokedAt?: number;
}

/** The tokens of the local API: signed by the key that never leaves the machine, verified, listed and revoked. */
export class LocalTokens {
  readonly #clock: Pick<Clock, 'now' | 'wall'>;
  readonly #revocations: TokenRevocations;
  /** by `jti`, those whose time is not over */
  readonly #issued = new Map<string, Issued>();
  /** `jti` of the latest token, by holder */
  readonly #latest = new Map<string, string>();
  readonly #listeners = new Set<RevokedListener>();
  #keys: { key: PrivateKey; signing: KeyObject; verifying: KeyObject } | undefined;

  constructor({ clock, ...deps }: LocalTokensDependencies) {
    this.#clock = clock;
    this.#revocations = new TokenRevocations(deps);
  }

  /** The key whose public half verifies the tokens. */
  get key(): PrivateKey {
    return this.#revocations.key;
  }

  /** A new token for what `holder` names, in place of its former one; seconds. */
  issue(
    holder: string,
    claims: Omit<TokenClaims, 'generation' | 'iss'>,
    lifetime: number,
  ): { token: string; jti: string } {
    const now = this.#seconds;
    this.#forgetEnded(now);
    const generation = this.#revocations.generation(claims.sub);
    const given = { ...claims, iss: LOCAL_API.issuer, ...(generation > 0 && { generation }) };
    const full = claimsNow(given, now, lifetime);
    const rotatedFrom = this.#latest.get(holder);
    this.#latest.set(holder, full.jti);
    this.#issued.set(full.jti, { claims: full, ...(rotatedFrom !== undefined && { rotatedFrom }) });
    return { token: signClaims(this.#keyObjects.signing, full), jti: full.jti };
  }

  /** Takes note of the token that an earlier process left with a holder. */
  note(holder: string, token: string): void {
    const claims = this.verify(token);
    if (!claims) return;
    this.#latest.set(holder, claims.jti);
    this.#issued.set(claims.jti, { claims });
  }

  /** Forgets a holder that gets no further tokens. */
  forget(holder: string): void {
    this.#latest.delete(holder);
  }

  /** The claims of a token that this agent signed, that is valid now, and that was not revoked. */
  verify(token: string): Claims | undefined {
    const claims = verifyToken(token, this.#keyObjects.verifying, this.#seconds);
    if (!claims || claims.iss !== LOCAL_API.issuer || !Array.isArray(claims.aud)) return undefined;
    return this.#revocations.has(claims) ? undefined : claims;
  }

  /** Whether a token of this subject, made now, would say what one with this id says. */
  isCurrent(jti: string): boolean {
    const issued = this.#issued.get(jti);
    return issued !== undefined && !this.#revocations.has(issued.claims);
  }

  /** Tokens whose time is not over, and revoked ones, the latest first. */
  list(): KnownToken[] {
    this.#forgetEnded(this.#seconds);
    const issued = [...this.#issued.values()].map(({ claims, rotatedFrom, revokedAt }) => ({
      ...{ claims, rotatedFrom, revokedAt: this.#revocations.revokedAt(claims.jti) ?? revokedAt },
    }));
    const others = this.#revocations.ids.filter((jti) => !this.#issued.has(jti));
    return [
      ...issued.sort((a, b) => b.claims.iat - a.claims.iat),
      ...others.map((jti) => ({ claims: { jti }, revokedAt: this.#revocations.revokedAt(jti) })),
    ];
  }

  /**
   * Ends tokens before their time, and with them open connections. Throws, and changes nothing, when that cannot be saved.
   * Returns whether the key was replaced, which ends all tokens.
   */
  revoke(revocations: readonly Revocation[]): boolean {
    const wall = this.#clock.wall();
    const before = new Set([...this.#issued.values()].filter(({ claims }) => !this.#revocations.has(claims)));
    const isNewKey = this.#revocations.add(revocations, wall);
    if (isNewKey) {
      this.#issued.clear();
      this.#latest.clear();
    }
    for (const each of before) if (this.#revocations.has(each.claims)) each.revokedAt = wall;
    for (const listener of this.#listeners) listener((claims) => isNewKey || this.#revocations.has(claims));
    return isNewKey;
  }

  /** Returns a function that stops listening. */
  onRevoked(listener: RevokedListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get #seconds(): number {
    return Math.floor(this.#clock.now() / 1000);
  }

  get #keyObjects() {
    const { key } = this.#revocations;
    if (this.#keys?.key.x !== key.x) this.#keys = { key, signing: signingKey(key), verifying: publicKeyObject(key) };
    return this.#keys;
  }

  #forgetEnded(now: number): void {
    for (const [jti, { claims }] of this.#issued) if (claims.exp <= now) this.#issued.delete(jti);
  }
}
