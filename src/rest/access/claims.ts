import { createHash } from 'node:crypto';

/** What a JWT says of itself. Nothing of it is verified: it decides about limits and caches, never about who somebody is. */
export interface UnverifiedClaims {
  /** a hash of the issuer, the subject and, for a service account, its uid; the same for all tokens of one subject */
  subject?: string;
  /** Unix milliseconds */
  expiresAt?: number;
}

/** Maximum of characters of the second part of a token, before it is decoded; a service account's token has about 1,000. */
const MAX_PAYLOAD = 8 * 1024;
/** Maximum of characters of each claim that names the subject. */
const MAX_CLAIM = 1024;

/** Returns no members for tokens that are no JWT, and no subject when a claim of it is absent, is no text or is too long. */
export function unverifiedClaims(token: string): UnverifiedClaims {
  const [, payload = '', signature] = token.split('.', 3);
  if (signature === undefined || payload.length > MAX_PAYLOAD) return {};
  const claims = objectOf(parsed(payload));
  const subject = subjectOf(claims);
  return { ...(subject && { subject }), ...(typeof claims.exp === 'number' && { expiresAt: claims.exp * 1000 }) };
}

/** The uid is random: without it, the name of a service account would be enough to know its subject. */
function subjectOf(claims: Record<string, unknown>): string | undefined {
  const { uid = '' } = objectOf(objectOf(claims['kubernetes.io']).serviceaccount);
  const parts = [claims.iss, claims.sub, uid];
  if (!parts.every((part) => typeof part === 'string' && part.length <= MAX_CLAIM)) return undefined;
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}

function parsed(payload: string): unknown {
  try {
    return JSON.parse(Buffer.from(payload, 'base64url').toString());
  } catch {
    return undefined;
  }
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
