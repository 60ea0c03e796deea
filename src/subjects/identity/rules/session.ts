import type { LoginPolicy } from './policy.ts';

/** One login of a user, as its Secret has it. `current`, `previous`: SHA-256 of `jti`; times are Unix ms. */
export interface LoginSession {
  family: string;
  current: string;
  previous?: string;
  rotatedAt: number;
  startedAt: number;
  expiresAt: number;
}

type SessionPolicy = Pick<
  LoginPolicy,
  'refreshTokenTtlSeconds' | 'refreshRotation' | 'familyMaxAgeHours' | 'maxConcurrentSessions'
>;

/** How long the token before counts as a loser of a simultaneous use: it gets 401, and ends nothing. */
const SIMULTANEOUS_MS = 500;

/** When a login ends: with its token, and with its age. */
const endOf = (startedAt: number, now: number, policy: SessionPolicy) =>
  Math.min(now + policy.refreshTokenTtlSeconds * 1000, startedAt + policy.familyMaxAgeHours * 3_600_000);

/** Whether a session counts: it is not over, and began after the last restore. */
const isLive = ({ expiresAt, startedAt, rotatedAt }: LoginSession, now: number, notBefore: number): boolean =>
  expiresAt > now && startedAt >= notBefore && rotatedAt >= notBefore;

/** The sessions with a new one. Those that are over are dropped, then the oldest. */
export function withSession(
  sessions: readonly LoginSession[],
  { family, current, now, notBefore }: { family: string; current: string; now: number; notBefore: number },
  policy: SessionPolicy,
): LoginSession[] {
  const live = sessions.filter((session) => isLive(session, now, notBefore)).sort((a, b) => a.startedAt - b.startedAt);
  const room = live.slice(Math.max(0, live.length - policy.maxConcurrentSessions + 1));
  return [...room, { family, current, rotatedAt: now, startedAt: now, expiresAt: endOf(now, now, policy) }];
}

/**
 * What follows from a refresh token. `same`: it is returned as it is. `late`: another use of it won at the same moment.
 * `reuse`: it was used before, so that somebody has a copy: the login ends.
 */
export type RefreshVerdict =
  | { is: 'rotated' | 'same'; sessions: LoginSession[]; session: LoginSession }
  | { is: 'late' | 'unknown' }
  | { is: 'reuse'; sessions: LoginSession[] };

export function refreshed(
  sessions: readonly LoginSession[],
  token: { family: string; jti: string; next: string },
  times: { now: number; arrivedAt: number; notBefore: number },
  policy: SessionPolicy,
): RefreshVerdict {
  const session = sessions.find(({ family }) => family === token.family);
  if (!session || !isLive(session, times.now, times.notBefore)) return { is: 'unknown' };
  const others = sessions.filter((one) => one !== session);
  if (session.current !== token.jti) {
    const isSimultaneous = session.previous === token.jti && times.arrivedAt <= session.rotatedAt + SIMULTANEOUS_MS;
    return isSimultaneous ? { is: 'late' } : { is: 'reuse', sessions: others };
  }
  if (!policy.refreshRotation) return { is: 'same', sessions: [...sessions], session };
  const { startedAt, family } = session;
  const rotated: LoginSession = {
    family,
    current: token.next,
    previous: session.current,
    rotatedAt: times.now,
    startedAt,
    expiresAt: endOf(startedAt, times.now, policy),
  };
  return { is: 'rotated', sessions: [...others, rotated], session: rotated };
}
