import { createPrivateKey, type JsonWebKey, type KeyObject, randomUUID, sign, verify } from 'node:crypto';
import type { PrivateKey } from './identity.ts';

/** The private half of a key pair, ready for signing. */
export function signingKey(key: PrivateKey): KeyObject {
  return createPrivateKey({ key: key as JsonWebKey, format: 'jwk' });
}

export interface Claims {
  sub: string;
  iss: string;
  aud: string[];
  iat: number;
  nbf: number;
  exp: number;
  jti: string;
  tokenUse: string;
  /** which of the tokens of its subject; absent: before anything of the subject was revoked */
  generation?: number;
}

const HEADER = encode({ alg: 'EdDSA', typ: 'JWT' });

/** What a token is made from. */
export type TokenClaims = Pick<Claims, 'sub' | 'iss' | 'aud' | 'tokenUse'> & Partial<Pick<Claims, 'generation'>>;

/** The claims of a new token with a `jti` of its own. Times are seconds. */
export const claimsNow = (claims: TokenClaims, now: number, lifetime: number): Claims => ({
  ...claims,
  ...{ iat: now, nbf: now, exp: now + lifetime, jti: randomUUID() },
});

/** A JWT with these claims, signed with Ed25519. */
export function signClaims(key: KeyObject, claims: Claims): string {
  const text = `${HEADER}.${encode(claims)}`;
  return `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`;
}

/** A new token, signed with Ed25519. Times are seconds. */
export const signToken = (key: KeyObject, claims: TokenClaims, now: number, lifetime: number): string =>
  signClaims(key, claimsNow(claims, now, lifetime));

/** The claims of a token that this key signed and that is valid now, or undefined. No algorithm but EdDSA is accepted. */
export function verifyToken(token: string, key: KeyObject, now: number): Claims | undefined {
  const [header, body, signature, more] = token.split('.');
  if (!header || !body || !signature || more !== undefined) return undefined;
  try {
    if ((decode(header) as { alg?: unknown }).alg !== 'EdDSA') return undefined;
    if (!verify(null, Buffer.from(`${header}.${body}`), key, Buffer.from(signature, 'base64url'))) return undefined;
    const claims = decode(body) as Claims;
    const timely = typeof claims.exp === 'number' && claims.exp > now && !(claims.nbf > now + 10);
    return timely ? claims : undefined;
  } catch {
    return undefined;
  }
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function decode(text: string): unknown {
  return JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
}
