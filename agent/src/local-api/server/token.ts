import { AGENT_GROUP, NODE_TOKEN_ISSUER } from '../../../../src/api/names.ts';
import type { Clock } from '../../../../src/lib/clock.ts';
import { LOCAL_API, WORKLOAD_TOKEN } from '../../domain/names.ts';
import { writeDurably } from '../../machine/disk.ts';
import { type Identity, publicKeyObject } from '../../state/identity.ts';
import { type Claims, signingKey, signToken, verifyToken } from '../../state/token.ts';

/**
 * The admin token lives in a file that only its owner can read, next to the socket that only its owner can open. Twelve
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

/** The claims of a token that this agent signed and that is valid now, from the value of an Authorization header. */
export function tokenClaims(authorization: string | undefined, identity: Identity, clock: Clock): Claims | undefined {
  const [, token] = /^Bearer (\S+)$/.exec(authorization ?? '') ?? [];
  if (!token) return undefined;
  const claims = verifyToken(token, publicKeyObject(identity.localKey), Math.floor(clock.now() / 1000));
  return claims?.iss === NODE_TOKEN_ISSUER && Array.isArray(claims.aud) ? claims : undefined;
}

export function isAdmin({ tokenUse, aud, sub }: Claims): boolean {
  return tokenUse === LOCAL_API.use && aud.includes(LOCAL_API.audience) && sub.startsWith(LOCAL_API.adminPrefix);
}

/**
 * The uuid of the microservice that a token is for (docs/spec/agent-local-api.md#tokens), or undefined for other
 * tokens.
 */
export function workloadOf(claims: Claims): string | undefined {
  const { tokenUse, aud } = claims;
  if (tokenUse !== WORKLOAD_TOKEN.use || !aud.includes(WORKLOAD_TOKEN.audience)) return undefined;
  const own = (claims as { [AGENT_GROUP]?: { microservice?: { uuid?: unknown } } })[AGENT_GROUP];
  const uuid = own?.microservice?.uuid;
  return typeof uuid === 'string' && uuid !== '' ? uuid : undefined;
}
