import type { KeyObject } from 'node:crypto';
import { signToken } from '../agent/src/state/token.ts';
import { NODE_TOKEN_ISSUER } from '../src/api/names.ts';
import { NODE_TOKEN } from '../src/wire/node-token.ts';

/** The URL of the controller as its agents know it. Nothing listens there; a controller that is set to it accepts these tokens. */
export const PUBLIC_URL = 'http://127.0.0.1:51121';

/** Signs tokens of a node for later requests, one for each, so that signing is not measured. */
export function nodeTokens(uuid: string, key: KeyObject, count: number): string[] {
  const claims = { sub: uuid, iss: NODE_TOKEN_ISSUER, aud: [PUBLIC_URL], tokenUse: NODE_TOKEN.use };
  const now = Math.floor(Date.now() / 1000);
  return Array.from({ length: count }, () => signToken(key, claims, now, NODE_TOKEN.lifetime));
}
