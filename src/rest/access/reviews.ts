import { createHash } from 'node:crypto';
import { GROUP, TOKEN_AUDIENCE } from '../../api/names.ts';
import { HttpError } from '../../http/http-error.ts';
import type { Attributes, Authenticator, Authorizer, Guesses, UserInfo } from '../contract/access.ts';
import { unavailable } from '../contract/errors.ts';
import { unverifiedClaims } from './claims.ts';
import { createRecent } from './recent.ts';
import { createReviewCache, type ReviewCache } from './review-cache.ts';

/** Posts a review to the API server and returns its response. */
export interface Reviewer {
  post<T>(path: string, body: object, signal: AbortSignal): Promise<T>;
}

interface ReviewMetrics {
  access?(labels: { review: 'token' | 'access'; outcome: 'allowed' | 'denied' | 'failed'; cached: boolean }): void;
}

interface Timing {
  allowedMs?: number;
  deniedMs?: number;
  capacity?: number;
  /** Monotonic milliseconds. */
  now?: () => number;
}

/** The timeout of a review. */
const REVIEW_MS = 5_000;
const MAX_TOKEN = 16 * 1024;
/** How long an accepted token counts as known, although it is reviewed again. */
const KNOWN_MS = 60 * 60_000;
/** How long the subject of an accepted token counts as proven: its next tokens are not known, and may need a review. */
const PROVEN_MS = 24 * 60 * 60_000;
const TOKEN_SHAPE = /^[A-Za-z0-9._~+/-]+=*$/;

export interface TokenReviewOptions extends Timing {
  reviewer: Reviewer;
  metrics?: ReviewMetrics;
  /** the audience that tokens must have */
  audience?: string;
  /** Whether to accept tokens for the API server itself too, as `kubectl create token` issues them without an audience. */
  acceptApiServerTokens?: boolean;
}

interface TokenReview {
  status?: {
    authenticated?: boolean;
    audiences?: string[];
    user?: { username?: string; uid?: string; groups?: string[]; extra?: Record<string, string[]> };
  };
}

/** Accepts any bearer token that the cluster accepts. Tokens are cached by their hash only. */
export function createTokenReviewAuthenticator(options: TokenReviewOptions): Authenticator {
  const { reviewer, metrics = {}, audience = TOKEN_AUDIENCE, acceptApiServerTokens = false } = options;
  const { allowedMs = 60_000, deniedMs = 5_000 } = options;
  type Answer = { identity?: UserInfo; expiresAt?: number };
  const reviews: ReviewCache<Answer> = createReviewCache({
    capacity: options.capacity ?? 10_000,
    allows: (answer) => answer.identity !== undefined,
    lifetimeMs: ({ identity, expiresAt }) =>
      identity ? Math.min(allowedMs, (expiresAt ?? Number.POSITIVE_INFINITY) - Date.now()) : deniedMs,
    ...(options.now && { now: options.now }),
  });

  async function review(token: string, audiences?: string[]): Promise<UserInfo | undefined> {
    const body = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, ...(audiences && { audiences }) },
    };
    const { status } = await reviewer.post<TokenReview>(
      '/apis/authentication.k8s.io/v1/tokenreviews',
      body,
      AbortSignal.timeout(REVIEW_MS),
    );
    const name = status?.user?.username;
    if (!status?.authenticated || !name) return undefined;
    // An API server that does not support audiences returns none; the token is one for the API server then.
    if (audiences && !status.audiences?.some((audience) => audiences.includes(audience))) return undefined;
    const { uid, groups = [], extra } = status.user ?? {};
    return { name, groups, ...(uid && { uid }), ...(extra && { extra }) };
  }

  const { capacity = 10_000, now = () => performance.now() } = options;
  /** hashes of accepted tokens, and of what these say of their subject */
  const known = createRecent({ lifetimeMs: KNOWN_MS, capacity, now });
  const proven = createRecent({ lifetimeMs: PROVEN_MS, capacity, now });

  async function judge(token: string, key: string, guesses?: Guesses): Promise<Answer> {
    const { subject, expiresAt } = unverifiedClaims(token);
    // A known token is exempt, since other clients at this address may have reached the limit for unknown tokens.
    if (!known.has(key)) guesses?.unknown(subject !== undefined && proven.has(subject) ? subject : undefined);
    const identity = (await review(token, [audience])) ?? (acceptApiServerTokens ? await review(token) : undefined);
    if (identity) {
      known.add(key);
      if (subject !== undefined) proven.add(subject);
    } else {
      // Its subject stays proven: anybody can write it into a wrong token.
      known.delete(key);
      guesses?.wrong();
    }
    return { ...(identity && { identity }), ...(expiresAt !== undefined && { expiresAt }) };
  }

  return {
    async authenticate(token, signal, guesses) {
      if (token.length > MAX_TOKEN || !TOKEN_SHAPE.test(token)) return undefined;
      const key = createHash('sha256').update(token).digest('base64');
      const { identity } = await counted(
        'token',
        metrics,
        () => reviews.ask(key, () => judge(token, key, guesses), signal),
        {
          signal,
          allows: (answer) => answer.identity !== undefined,
        },
      );
      return identity;
    },
  };
}

export interface AccessReviewOptions extends Timing {
  reviewer: Reviewer;
  metrics?: ReviewMetrics;
  /** The namespace of the role bindings: that of the controller. */
  namespace: string;
}

/** Authorizes by the cluster (RBAC, webhooks) for our API group, so that one set of roles applies to REST and kubectl. */
export function createAccessReviewAuthorizer(options: AccessReviewOptions): Authorizer {
  const { reviewer, metrics = {}, namespace, allowedMs = 30_000, deniedMs = 5_000 } = options;
  const reviews = createReviewCache<boolean>({
    capacity: options.capacity ?? 10_000,
    allows: (allowed) => allowed,
    lifetimeMs: (allowed) => (allowed ? allowedMs : deniedMs),
    ...(options.now && { now: options.now }),
  });

  async function review(identity: UserInfo, { group = GROUP, resource, verb, name }: Attributes): Promise<boolean> {
    const [plural = '', ...parts] = resource.split('/');
    const subresource = parts.join('/');
    const body = {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: {
        user: identity.name,
        groups: identity.groups,
        ...(identity.uid && { uid: identity.uid }),
        ...(identity.extra && { extra: identity.extra }),
        resourceAttributes: {
          group,
          resource: plural,
          ...(subresource && { subresource }),
          verb,
          namespace,
          ...(name !== undefined && { name }),
        },
      },
    };
    const { status } = await reviewer.post<{ status?: { allowed?: boolean } }>(
      '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      body,
      AbortSignal.timeout(REVIEW_MS),
    );
    return status?.allowed === true;
  }

  return {
    flush: reviews.flush,
    async allowed(identity, attributes, signal) {
      const key = JSON.stringify([
        identity.name,
        identity.uid,
        identity.groups,
        identity.extra,
        attributes.group,
        attributes.resource,
        attributes.verb,
        attributes.name,
      ]);
      return counted('access', metrics, () => reviews.ask(key, () => review(identity, attributes), signal), {
        signal,
        allows: (allowed) => allowed,
      });
    },
  };
}

/** Counts a review. A failed review leads to 503, whatever the cause, since it is not a refusal. */
async function counted<V>(
  review: 'token' | 'access',
  metrics: ReviewMetrics,
  ask: () => Promise<{ value: V; cached: boolean }>,
  { signal, allows }: { signal: AbortSignal; allows: (value: V) => boolean },
): Promise<V> {
  try {
    const { value, cached } = await ask();
    metrics.access?.({ review, outcome: allows(value) ? 'allowed' : 'denied', cached });
    return value;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    metrics.access?.({ review, outcome: 'failed', cached: false });
    if (error instanceof HttpError) throw error;
    throw unavailable('access cannot be checked now, try again', error);
  }
}
