import type { JsonWebKey } from 'node:crypto';
import { importJWK, type JWK, jwtVerify, SignJWT } from 'jose';

/** Tokens as three parts of text. Nothing here verifies them. */
export interface UnverifiedJwt {
  header: Readonly<Record<string, unknown>>;
  claims: Readonly<Record<string, unknown>>;
}

const PART = /^[A-Za-z0-9_-]+$/;
const LONGEST = 16 * 1024;

/** Undefined for text that is no JWS of JSON objects. */
export function unverified(token: string): UnverifiedJwt | undefined {
  if (token.length > LONGEST) return undefined;
  const parts = token.split('.');
  const [header = '', payload = ''] = parts;
  if (parts.length !== 3 || !PART.test(header) || !PART.test(payload)) return undefined;
  const [head, claims] = [objectIn(header), objectIn(payload)];
  return head && claims && { header: head, claims };
}

function objectIn(part: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString());
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** The kid of a header that has exactly the members of ours: a key never comes from a token. */
export function kidOf({ header }: UnverifiedJwt): string | undefined {
  const { alg, kid, typ, ...others } = header;
  const isOurs =
    alg === 'RS256' &&
    typeof kid === 'string' &&
    kid.length <= 128 &&
    (typ === undefined || typ === 'JWT') &&
    Object.keys(others).length === 0;
  return isOurs ? kid : undefined;
}

type ImportedKey = ReturnType<typeof importJWK>;
/** An import costs as much as a verification. */
const importedKeys = new WeakMap<JsonWebKey, ImportedKey>();

function imported(key: JsonWebKey): ImportedKey {
  const known = importedKeys.get(key);
  if (known) return known;
  const importing = importJWK(key as JWK, 'RS256');
  importedKeys.set(key, importing);
  return importing;
}

/** Seconds by which clocks may differ. */
const CLOCKS_APART = 60;

/** The claims of a token that this key signed for this audience, and that is valid now; else undefined. */
export async function verifiedClaims(
  token: string,
  key: JsonWebKey,
  { issuer, audience, now }: { issuer: string; audience: string; now: number },
): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    const { payload } = await jwtVerify(token, await imported(key), {
      issuer,
      audience,
      algorithms: ['RS256'],
      clockTolerance: CLOCKS_APART,
      requiredClaims: ['exp', 'iat', 'sub'],
      currentDate: new Date(now),
    });
    return payload;
  } catch {
    return undefined;
  }
}

/** Signs claims, whose times are seconds. */
export async function signed(
  claims: Readonly<Record<string, unknown>>,
  { kid, privateJwk }: { kid: string; privateJwk: JsonWebKey },
): Promise<string> {
  return new SignJWT({ ...claims })
    .setProtectedHeader({ alg: 'RS256', kid, typ: 'JWT' })
    .sign(await imported(privateJwk));
}
