import { hash } from 'node:crypto';
import { bearerOf } from '../http/bearer.ts';
import { HttpError, retryAfter } from '../http/http-error.ts';
import { createRateLimit } from '../http/rate-limit.ts';
import type { Clock } from '../lib/clock.ts';
import type { InternalCredentials } from './channel.ts';

const ALLOWED_MS = 60_000;
const DENIED_MS = 5_000;
/** How long an allowed token counts as known, although it is reviewed again. */
const KNOWN_MS = 60 * 60_000;
const VERIFY_MS = 5_000;
/** verdicts in memory */
const CAPACITY = 1_000;
/** characters of a token of a ServiceAccount, at most */
const TOKEN_LENGTH = 4_096;
/** Reviews of unknown tokens of one address: a replica has one token, which lives for an hour. */
const REVIEWS = { perSecond: 5, burst: 50 };

/** Verifies the token of another replica, whose connection comes from `address`. Rejects with HttpError. */
export type Verifier = (authorization: string | undefined, address: string) => Promise<void>;

interface Verdict {
  allowed: boolean;
  /** when it is reviewed again */
  until: number;
  /** when an allowed token is no longer known */
  knownUntil: number;
}

/**
 * Verifies the tokens of other replicas and caches the result for a while. Whoever reaches the port may guess tokens: an address
 * that does so takes the reviews of no other one, and neither the place nor the passage of a token that was allowed.
 */
export function createVerifier(credentials: Pick<InternalCredentials, 'verify'>, clock: Clock): Verifier {
  const verdicts = { allowed: new Map<string, Verdict>(), denied: new Map<string, Verdict>() };
  const reviews = createRateLimit({
    clock,
    ...REVIEWS,
    refuse: (seconds) =>
      new HttpError(429, 'TOO_MANY_REQUESTS', 'too many unknown tokens from this address at present', {
        headers: retryAfter(seconds),
      }),
  });
  const running = new Map<string, Promise<boolean>>();

  function remember(key: string, allowed: boolean) {
    for (const kept of Object.values(verdicts)) kept.delete(key);
    if (verdicts.allowed.size + verdicts.denied.size >= CAPACITY) {
      const crowded = verdicts.denied.size > 0 ? verdicts.denied : verdicts.allowed;
      for (const oldest of crowded.keys()) if (crowded.delete(oldest)) break;
    }
    const now = clock.now();
    const until = now + (allowed ? ALLOWED_MS : DENIED_MS);
    verdicts[allowed ? 'allowed' : 'denied'].set(key, { allowed, until, knownUntil: allowed ? now + KNOWN_MS : 0 });
  }

  async function ask(token: string, key: string): Promise<boolean> {
    const allowed = await credentials.verify(token, AbortSignal.timeout(VERIFY_MS));
    remember(key, allowed);
    return allowed;
  }

  function isAllowed(token: string, address: string): boolean | Promise<boolean> {
    const key = hash('sha256', token, 'base64');
    const verdict = verdicts.allowed.get(key) ?? verdicts.denied.get(key);
    const now = clock.now();
    if (verdict && verdict.until > now) return verdict.allowed;
    const asked = running.get(key);
    if (asked) return asked;
    if (!verdict || verdict.knownUntil <= now) reviews.take(address);
    const asking = ask(token, key).finally(() => running.delete(key));
    running.set(key, asking);
    return asking;
  }

  return async (authorization, address) => {
    const token = bearerOf(authorization, TOKEN_LENGTH);
    if (token === undefined || !(await isAllowed(token, address)))
      throw new HttpError(401, 'AUTH_HEADER_INVALID', 'the token is not one of a replica of this controller');
  };
}
