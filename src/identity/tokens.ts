import { randomUUID } from 'node:crypto';
import { HttpError } from '../http/http-error.ts';
import type { LoginPolicy } from '../subjects/identity/rules/policy.ts';
import { type LoginSession, type RefreshVerdict, refreshed, withSession } from '../subjects/identity/rules/session.ts';
import type { SigningKeys } from './contract/keys.ts';
import type { LoginContext } from './contract/login-context.ts';
import type { LoginMetrics } from './contract/metrics.ts';
import type { LoginEvents } from './contract/strangers.ts';
import type { BegunLogin, TokenIssuer, TokenPair } from './contract/tokens.ts';
import type { StoredUser, UserStore } from './contract/users.ts';
import { kidOf, signed, unverified, verifiedClaims } from './jwt.ts';
import { sha256 } from './secrets.ts';

export interface TokensOptions {
  issuer: string;
  audience: string;
  keys: SigningKeys;
  users: UserStore;
  policy(): LoginPolicy;
  /** why the user may have no tokens now: a second factor is due */
  duty(user: StoredUser): HttpError | undefined;
  events: LoginEvents;
  metrics?: Pick<LoginMetrics, 'refresh'>;
  /** provider sessions and grants of a user end too */
  endBrowserSessions?(userUuid: string, signal: AbortSignal): Promise<void>;
  /** Unix ms */
  now(): number;
}

/** One text for every refusal: it says nothing about which logins exist. */
const invalidRefresh = () =>
  new HttpError(401, 'INVALID_REFRESH_TOKEN', 'the refresh token is not valid: log in again');

/** Tokens of the API. A refresh token counts by its session in the Secret of its user, which each use changes by one conditional write. */
export function createTokens(options: TokensOptions): TokenIssuer {
  const { issuer, audience, keys, users, policy, duty, events, metrics, now } = options;

  const signing = () => {
    if (keys.signing) return keys.signing;
    throw new HttpError(503, 'CONTROLLER_NOT_READY', 'the controller is still reading its keys, try again');
  };

  /** Claims of a token that is valid for so many seconds. */
  const head = (user: Pick<StoredUser, 'uuid'>, at: number, seconds: number) => {
    const iat = Math.floor(at / 1000);
    return { iss: issuer, aud: audience, sub: user.uuid, iat, exp: iat + seconds };
  };

  function accessToken(user: StoredUser, at: number): Promise<string> {
    const claims = {
      ...head(user, at, policy().accessTokenTtlSeconds),
      token_use: 'access',
      preferred_username: user.name,
      groups: user.groups,
      ...(user.email.includes('@') && { email: user.email }),
      ...(user.mustChangePassword && { password_change_required: true }),
    };
    return signed(claims, signing());
  }

  const refreshToken = (
    user: StoredUser,
    { family, expiresAt }: LoginSession,
    jti: string,
    at: number,
  ): Promise<string> =>
    signed(
      {
        ...head(user, at, Math.max(1, Math.floor((expiresAt - at) / 1000))),
        jti,
        token_use: 'refresh',
        family_id: family,
      },
      signing(),
    );

  function begin(): BegunLogin {
    signing();
    const family = randomUUID();
    const jti = randomUUID();
    const at = now();
    return {
      sessions: ({ secrets: { sessions } }) =>
        withSession(sessions, { family, current: sha256(jti), now: at, notBefore: keys.sessionsNotBefore }, policy()),
      async tokens(user) {
        const session = user.secrets.sessions.find((one) => one.family === family);
        if (!session) throw new Error('the session of a login was not written');
        const [access, refresh] = await Promise.all([accessToken(user, at), refreshToken(user, session, jti, at)]);
        return { accessToken: access, refreshToken: refresh };
      },
    };
  }

  async function claimsOf(token: string, signal: AbortSignal): Promise<{ sub: string; jti: string; family: string }> {
    const read = unverified(token);
    const kid = read && kidOf(read);
    const key = kid === undefined ? undefined : await keys.find(kid, signal);
    const claims = key && (await verifiedClaims(token, key, { issuer, audience, now: now() }));
    const { sub, jti, family_id: family, token_use: use } = claims ?? {};
    if (use !== 'refresh' || typeof sub !== 'string' || typeof jti !== 'string' || typeof family !== 'string')
      throw invalidRefresh();
    return { sub, jti, family };
  }

  return {
    issuer,
    audience,

    begin,

    async login(user, _by, signal) {
      const begun = begin();
      const { user: written } = await users.change(
        user,
        (present) => ({ next: { sessions: begun.sessions(present) }, result: undefined }),
        signal,
      );
      return begun.tokens(written);
    },

    async refresh(token, by, signal): Promise<Required<TokenPair>> {
      const { sub, jti, family } = await claimsOf(token, signal);
      const next = randomUUID();
      const used = { family, jti: sha256(jti), next: sha256(next) };
      const before = await users.byUuid(sub, signal);
      if (!before) throw invalidRefresh();
      const due = duty(before);
      if (due) throw due;
      let at = now();
      const { user, result: verdict } = await users.change<RefreshVerdict>(
        before,
        (present) => {
          at = now();
          const times = { now: at, arrivedAt: by.arrivedAt, notBefore: keys.sessionsNotBefore };
          const result = refreshed(present.secrets.sessions, used, times, policy());
          return result.is === 'rotated' || result.is === 'reuse'
            ? { next: { sessions: result.sessions }, result }
            : { result };
        },
        signal,
      );
      metrics?.refresh({ outcome: verdict.is });
      if (verdict.is === 'reuse') record(user, by, 'refresh-reuse', false);
      if (verdict.is !== 'rotated' && verdict.is !== 'same') throw invalidRefresh();
      const { session } = verdict;
      const [access, refresh] = await Promise.all([
        accessToken(user, at),
        verdict.is === 'same' ? token : refreshToken(user, session, next, at),
      ]);
      return { accessToken: access, refreshToken: refresh };
    },

    async endAll(userUuid, _why, signal) {
      await users.change(
        userUuid,
        ({ secrets: { sessions } }) => (sessions.length > 0 ? { next: { sessions: [] }, result: 0 } : { result: 0 }),
        signal,
      );
      await options.endBrowserSessions?.(userUuid, signal);
    },
  };

  function record(user: StoredUser, by: LoginContext, what: 'refresh-reuse', ok: boolean): void {
    events.record({ what, human: user.email, ok, address: by.address, requestId: by.requestId });
  }
}
