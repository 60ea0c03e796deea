import { type KeyObject, verify } from 'node:crypto';
import { UUID_PATTERN } from '../../api/meta.ts';
import { BRIDGE_ZONE } from '../../api/names.ts';
import { bearerOf } from '../../http/bearer.ts';
import { NODE_TOKEN } from '../../wire/node-token.ts';
import { AgentFailure } from '../channel/failure.ts';

/** The parts of a token whose signature has not been verified. */
export interface UnverifiedToken {
  sub: string;
  claims: Record<string, unknown>;
  /** `header.payload`: what was signed */
  signed: string;
  signature: Buffer;
}

/** The claims of a verified token. Times are Unix seconds. */
export interface VerifiedToken {
  sub: string;
  jti: string;
  iat: number;
  exp: number;
}

const MAX_TOKEN = 4096;
/** characters of a claim that an error repeats */
const MAX_SHOWN = 100;
const ED25519_SIGNATURE = 64;
const UUID = new RegExp(UUID_PATTERN);
const JTI = /^[\x21-\x7e]{8,256}$/;
/** The header that every agent sends; other headers take the slower path. */
const USUAL_HEADER = Buffer.from(JSON.stringify({ alg: NODE_TOKEN.algorithm, typ: 'JWT' })).toString('base64url');

const malformed = (message: string) => new AgentFailure('AGENT_JWT_MALFORMED', message);

/** The bearer token of an Authorization header. */
export function nodeTokenOf(authorization: string | undefined): string {
  const token = bearerOf(authorization, MAX_TOKEN);
  if (token === undefined)
    throw new AgentFailure('AGENT_AUTH_HEADER_INVALID', 'send a node token as "Authorization: Bearer <token>"');
  return token;
}

/** Parses a token without verifying it. */
export function parseToken(token: string): UnverifiedToken {
  if (token.length > MAX_TOKEN) throw malformed('the token is too long');
  const dot = token.indexOf('.');
  const end = token.indexOf('.', dot + 1);
  if (dot < 0 || end < 0 || token.indexOf('.', end + 1) >= 0) throw malformed('the token is not a signed JWT');
  checkHeader(token.slice(0, dot));
  const claims = jsonObject(token.slice(dot + 1, end), 'payload');
  if (typeof claims.sub !== 'string' || !UUID.test(claims.sub)) {
    throw new AgentFailure('AGENT_JWT_MISSING_SUBJECT', 'the token names no node: "sub" must be its uuid');
  }
  const signature = Buffer.from(token.slice(end + 1), 'base64url');
  return { sub: claims.sub, claims, signed: token.slice(0, end), signature };
}

function checkHeader(encoded: string): void {
  if (encoded === USUAL_HEADER) return;
  const header = jsonObject(encoded, 'header');
  if (header.alg !== NODE_TOKEN.algorithm) throw malformed(`the token must be signed with ${NODE_TOKEN.algorithm}`);
  if ('crit' in header || 'b64' in header) throw malformed('the token needs extensions that are not supported');
}

function jsonObject(encoded: string, what: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8'));
    if (value !== null && typeof value === 'object' && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // thrown below
  }
  throw malformed(`the ${what} of the token is not a JSON object`);
}

/** Throws unless the token was signed with this key. */
export function checkSignature(token: UnverifiedToken, key: KeyObject): void {
  const right =
    token.signature.length === ED25519_SIGNATURE && verify(null, Buffer.from(token.signed), key, token.signature);
  if (!right) {
    throw new AgentFailure('AGENT_JWT_SIGNATURE_INVALID', "the token was not signed with the node's present key");
  }
}

export interface ClaimRules {
  /** Unix ms */
  now: number;
  /** URL of this controller; tokens that name audiences, and not this one, are refused when set */
  audience?: string;
}

/**
 * Throws unless the claims are those of a node token that is valid now. Call it after checkSignature. The issuer is not judged:
 * each make of agent has its own, and the key already says who signed (docs/spec/agent-channel.md#node-token).
 */
export function checkClaims({ claims, sub }: UnverifiedToken, { now, audience }: ClaimRules): VerifiedToken {
  const { iat, exp, nbf, jti } = claims;
  if (typeof iat !== 'number' || typeof exp !== 'number' || !Number.isFinite(iat) || !Number.isFinite(exp)) {
    throw malformed('the token needs "iat" and "exp" in Unix seconds');
  }
  if (typeof jti !== 'string' || !JTI.test(jti)) throw malformed('the token needs a "jti" of 8 to 256 characters');
  checkUse(claims, audience);
  if (exp - iat > NODE_TOKEN.maxLifetime) throw malformed(`a token lives ${NODE_TOKEN.maxLifetime} s at most`);
  const seconds = now / 1000;
  if (exp + NODE_TOKEN.tolerance <= seconds) throw new AgentFailure('AGENT_JWT_EXPIRED', 'the token has expired');
  const from = Math.max(iat, typeof nbf === 'number' ? nbf : iat);
  if (from - NODE_TOKEN.tolerance > seconds) {
    throw new AgentFailure(
      'AGENT_JWT_EXPIRED',
      `the token is valid only in ${Math.ceil(from - seconds)} s: the clock of the agent is ahead`,
    );
  }
  return { sub, jti, iat, exp };
}

/**
 * Throws for a token that the key of the node signed for another use: agents of some makes sign the tokens of their local API and of
 * their workloads with it too.
 */
function checkUse({ tokenUse, aud }: Record<string, unknown>, audience: string | undefined): void {
  if (tokenUse !== undefined && tokenUse !== NODE_TOKEN.use)
    throw malformed(`"tokenUse" is ${shown(tokenUse)}, it must be "${NODE_TOKEN.use}" or absent`);
  if (aud === undefined) return;
  const named = Array.isArray(aud) ? aud : [aud];
  if (tokenUse === undefined && !named.every(isOfController))
    throw malformed(`"aud" is ${shown(aud)}: without "tokenUse" it must be the URL of this controller, or be absent`);
  if (audience !== undefined && !named.some((one) => isBelow(one, audience)))
    throw malformed(`"aud" is ${shown(aud)}, it must name this controller, ${audience}, or be absent`);
}

/** Whether an audience may be a controller: the local APIs of agents have a scheme of their own or a name on the bridge network. */
function isOfController(aud: unknown): boolean {
  const url = typeof aud === 'string' ? URL.parse(aud) : null;
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:';
  return url !== null && isWeb && !url.hostname.replace(/\.$/, '').endsWith(`.${BRIDGE_ZONE}`);
}

/** Whether an audience is this URL or a path below it, such as that of the REST API. */
function isBelow(aud: unknown, url: string): boolean {
  return typeof aud === 'string' && `${withoutSlash(aud)}/`.startsWith(`${withoutSlash(url)}/`);
}

const withoutSlash = (url: string) => url.replace(/(?<!\/)\/+$/, '');

/** The start of a claim's value, for an error. Claims are no secrets: whoever has the token reads them. */
const shown = (value: unknown) => (JSON.stringify(value) ?? '').slice(0, MAX_SHOWN);
