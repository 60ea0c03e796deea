import type { KeyObject } from 'node:crypto';
import { signToken } from '../agent/src/state/token.ts';
import { NODE_TOKEN_ISSUER } from '../src/api/names.ts';
import { NODE_TOKEN } from '../src/wire/node-token.ts';

/** Signs tokens of a node for later requests, one for each, so that signing is not measured. */
export function nodeTokens(uuid: string, key: KeyObject, count: number): string[] {
  const claims = { sub: uuid, iss: NODE_TOKEN_ISSUER, aud: ['controller'], tokenUse: NODE_TOKEN.use };
  const now = Math.floor(Date.now() / 1000);
  return Array.from({ length: count }, () => signToken(key, claims, now, NODE_TOKEN.lifetime));
}
