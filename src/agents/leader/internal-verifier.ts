import { hash } from 'node:crypto';
import { createRateLimit } from '../../http/rate-limit.ts';
import type { Clock } from '../../kube/mod.ts';
import type { InternalCredentials } from '../dependencies.ts';
import { AgentFailure } from '../failure.ts';
import { bearerOf } from '../pipeline/token.ts';

const ALLOWED_MS = 60_000;
const DENIED_MS = 5_000;
const VERIFY_MS = 5_000;
const CAPACITY = 1_000;

/** Verifies the tokens of other replicas and caches the result for a while. Rejects with AgentFailure. */
export function createVerifier(credentials: Pick<InternalCredentials, 'verify'>, clock: Clock) {
  const verdicts = new Map<string, { until: number; allowed: boolean }>();
  // There are few replicas with long-lived tokens: more reviews than this come from guessed tokens.
  const reviews = createRateLimit({
    clock,
    perSecond: 5,
    burst: 50,
    refuse: () => new AgentFailure('TOO_MANY_REQUESTS', 'too many unknown tokens at present'),
  });
  const running = new Map<string, Promise<boolean>>();

  async function ask(token: string, key: string): Promise<boolean> {
    const allowed = await credentials.verify(token, AbortSignal.timeout(VERIFY_MS));
    if (verdicts.size >= CAPACITY) verdicts.clear();
    verdicts.set(key, { until: clock.now() + (allowed ? ALLOWED_MS : DENIED_MS), allowed });
    return allowed;
  }

  function isAllowed(token: string): boolean | Promise<boolean> {
    const key = hash('sha256', token, 'base64');
    const verdict = verdicts.get(key);
    if (verdict && verdict.until > clock.now()) return verdict.allowed;
    const asked = running.get(key);
    if (asked) return asked;
    reviews.take('');
    const asking = ask(token, key).finally(() => running.delete(key));
    running.set(key, asking);
    return asking;
  }

  return async (authorization: string | undefined): Promise<void> => {
    if (!(await isAllowed(bearerOf(authorization)))) {
      throw new AgentFailure('AGENT_AUTH_HEADER_INVALID', 'the token is not one of a replica of this controller');
    }
  };
}
