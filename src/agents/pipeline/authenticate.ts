import type { AgentErrorCode } from '../../api/error-codes.ts';
import type { RateLimit } from '../../http/rate-limit.ts';
import { isTransient } from '../../kube/mod.ts';
import type { Clock } from '../../lib/clock.ts';
import type { NodeIdentity } from '../channel/dependencies.ts';
import { AgentFailure } from '../channel/failure.ts';
import type { NodeDirectory } from '../channel/node-directory.ts';
import {
  checkClaims,
  checkSignature,
  nodeTokenOf,
  parseToken,
  type UnverifiedToken,
  type VerifiedToken,
} from './token.ts';
import type { UsedTokens } from './used-tokens.ts';

/**
 * Authenticates a request by its token, which cannot be used again. Returns a promise only when the stores may be late, for
 * example when another replica has just provisioned the node. Failures are AgentFailure, thrown or rejected.
 */
export type Authenticate = (
  authorization: string | undefined,
  /** address of the client: whose refused tokens are limited */
  addressOf: () => string,
) => NodeIdentity | Promise<NodeIdentity>;

export interface AuthenticateOptions {
  directory: NodeDirectory;
  used: UsedTokens;
  /** of one node */
  requests: Pick<RateLimit, 'take' | 'check'>;
  /** refused tokens, by client address */
  refusals: Pick<RateLimit, 'take' | 'check'>;
  clock: Clock;
  /** Unix ms; tokens issued before may have been used at the previous process */
  startedAt: number;
  audience?: string;
}

/** Failures that a late store can cause. */
const MAY_BE_LATE: ReadonlySet<AgentErrorCode> = new Set([
  'AGENT_NODE_NOT_FOUND',
  'AGENT_PUBLIC_KEY_NOT_FOUND',
  'AGENT_JWT_SIGNATURE_INVALID',
]);

export function createAuthenticate(options: AuthenticateOptions): Authenticate {
  const { directory, used, requests, refusals, clock, startedAt, audience } = options;

  function verify(token: UnverifiedToken): NodeIdentity {
    const node = directory.node(token.sub);
    if (!node) throw new AgentFailure('AGENT_NODE_NOT_FOUND', 'there is no node with this uuid');
    const key = directory.keyOf(node, token.sub);
    if (!key) {
      throw new AgentFailure('AGENT_PUBLIC_KEY_NOT_FOUND', 'no agent has the identity of this node: provision it');
    }
    checkSignature(token, key);
    // Before anything else that whoever has the key can cause.
    requests.check(token.sub);
    const now = clock.wall();
    const verified = claimsOf(token, now);
    if (verified.iat * 1000 < startedAt) {
      throw new AgentFailure(
        'CONTROLLER_AUTH_VERIFICATION_FAILED',
        'the token is older than this process, which cannot know whether it was used: sign another',
        { retryAfterSeconds: 1 },
      );
    }
    if (used.has(verified)) {
      throw new AgentFailure('AGENT_JWT_ALREADY_USED', 'the token was used before: sign one for each request');
    }
    requests.take(token.sub);
    if (!used.use(verified, now)) {
      throw new AgentFailure('CONTROLLER_AUTH_VERIFICATION_FAILED', 'no more used tokens can be recorded at present');
    }
    return { uuid: token.sub, node };
  }

  /**
   * Wrong claims count against the limit of the node: only its key can sign them. An expired or used token does not, since whoever
   * intercepted it can send it again for ever; it counts against its address, as all refused tokens do.
   */
  function claimsOf(token: UnverifiedToken, now: number): VerifiedToken {
    try {
      return checkClaims(token, { now, audience });
    } catch (error) {
      if (!(error instanceof AgentFailure) || error.code !== 'AGENT_JWT_EXPIRED') requests.take(token.sub);
      throw error;
    }
  }

  async function verifyAfterRefresh(token: UnverifiedToken, address: string): Promise<NodeIdentity> {
    refusals.check(address);
    const outcome = await directory.refresh(token.sub).catch((cause: unknown) => {
      const code = isTransient(cause) ? 'CONTROLLER_DB_UNAVAILABLE' : 'CONTROLLER_AUTH_VERIFICATION_FAILED';
      throw new AgentFailure(code, 'the key of the node could not be looked up', { cause });
    });
    if (outcome === 'busy')
      throw new AgentFailure('CONTROLLER_AUTH_VERIFICATION_FAILED', 'too many unknown credentials at present');
    try {
      return verify(token);
    } catch (error) {
      throw refused(error, address);
    }
  }

  /** Counts a refused token against its address, which gets 429 instead of 401 beyond the limit. */
  function refused(error: unknown, address: string): unknown {
    if (error instanceof AgentFailure && error.status === 401) refusals.take(address);
    return error;
  }

  return (authorization, addressOf) => {
    let token: UnverifiedToken | undefined;
    try {
      token = parseToken(nodeTokenOf(authorization));
      return verify(token);
    } catch (error) {
      if (token && error instanceof AgentFailure && MAY_BE_LATE.has(error.code))
        return verifyAfterRefresh(token, addressOf());
      throw refused(error, addressOf());
    }
  };
}
