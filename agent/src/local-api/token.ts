import { NODE_TOKEN_ISSUER } from '../../../src/api/names.ts';
import type { Clock } from '../clock.ts';
import { writeDurably } from '../disk.ts';
import { LOCAL_API } from '../names.ts';
import { type Identity, publicKeyObject } from '../state/identity.ts';
import { type Claims, signingKey, signToken, verifyToken } from '../token.ts';

/**
 * The admin token lives in a file that only its owner can read, beside the socket that only its owner can open. Twelve
 * hours, so that an idle agent does not write to the disk every few minutes; it is renewed in good time.
 */
export const ADMIN_TOKEN_SECONDS = 12 * 3600;

/** Writes a new admin token, signed with the key that never leaves the machine. */
export function writeAdminToken(path: string, identity: Identity, clock: Clock): void {
  const subject = `${LOCAL_API.adminPrefix}${identity.node?.uuid ?? 'bootstrap'}`;
  const claims = { sub: subject, iss: NODE_TOKEN_ISSUER, aud: [LOCAL_API.audience], tokenUse: LOCAL_API.use };
  const now = Math.floor(clock.now() / 1000);
  const token = signToken(signingKey(identity.localKey), claims, now, ADMIN_TOKEN_SECONDS);
  writeDurably(path, `${token}\n`, 0o600);
}

/** The claims of an admin token of this agent, from the value of an Authorization header. */
export function adminClaims(authorization: string | undefined, identity: Identity, clock: Clock): Claims | undefined {
  const [, token] = /^Bearer (\S+)$/.exec(authorization ?? '') ?? [];
  if (!token) return undefined;
  const claims = verifyToken(token, publicKeyObject(identity.localKey), Math.floor(clock.now() / 1000));
  const admin =
    claims?.tokenUse === LOCAL_API.use &&
    claims.iss === NODE_TOKEN_ISSUER &&
    claims.aud.includes(LOCAL_API.audience) &&
    claims.sub.startsWith(LOCAL_API.adminPrefix);
  return admin ? claims : undefined;
}
