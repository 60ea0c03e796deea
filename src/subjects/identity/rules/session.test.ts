import { describe, expect, test } from 'vitest';
import { type LoginSession, refreshed, withSession } from './session.ts';

const POLICY = { refreshTokenTtlSeconds: 3600, refreshRotation: true, familyMaxAgeHours: 12, maxConcurrentSessions: 3 };
const HOUR = 3_600_000;
const session = (changes: Partial<LoginSession> = {}): LoginSession => ({
  family: 'f',
  current: 'b',
  previous: 'a',
  rotatedAt: 1_000,
  startedAt: 0,
  expiresAt: HOUR,
  ...changes,
});
const use = (jti: string, times: Partial<Record<'now' | 'arrivedAt' | 'notBefore', number>> = {}, policy = POLICY) =>
  refreshed(
    [session(), session({ family: 'g' })],
    { family: 'f', jti, next: 'c' },
    { now: 2_000, arrivedAt: 2_000, notBefore: 0, ...times },
    policy,
  );

describe('a refresh token', () => {
  test('is replaced by its use', () => {
    expect(use('b')).toMatchObject({ is: 'rotated', session: { current: 'c', previous: 'b', rotatedAt: 2_000 } });
  });

  test.each([
    ['at the moment of the use', 1_000, 'late'],
    ['half a second after the use', 1_500, 'late'],
    ['later', 1_501, 'reuse'],
  ])('is refused when it was used before and arrived %s', (_, arrivedAt, is) => {
    expect(use('a', { arrivedAt })).toMatchObject({ is });
  });

  test('ends its login and no other when nobody issued it last', () => {
    expect(use('x')).toEqual({ is: 'reuse', sessions: [session({ family: 'g' })] });
  });

  test('is unknown when its login is over, or began before a restore', () => {
    expect(use('b', { now: HOUR })).toEqual({ is: 'unknown' });
    expect(use('b', { notBefore: 1 })).toEqual({ is: 'unknown' });
  });

  test('stays the same without rotation', () => {
    expect(use('b', {}, { ...POLICY, refreshRotation: false })).toMatchObject({ is: 'same' });
  });

  test('ends 12 hours after the login, whatever was rotated', () => {
    const old = session({ rotatedAt: 11.5 * HOUR, expiresAt: 13 * HOUR });
    const times = { now: 11.6 * HOUR, arrivedAt: 11.6 * HOUR, notBefore: 0 };
    const verdict = refreshed([old], { family: 'f', jti: 'b', next: 'c' }, times, POLICY);
    expect(verdict).toMatchObject({ is: 'rotated', session: { expiresAt: 12 * HOUR } });
  });
});

describe('a new login', () => {
  const begin = (sessions: readonly LoginSession[], policy = POLICY) =>
    withSession(sessions, { family: 'new', current: 'n', now: 10_000, notBefore: 0 }, policy).map(
      ({ family }) => family,
    );

  test('ends the oldest beyond the bound', () => {
    const sessions = ['c', 'a', 'b'].map((family, i) => session({ family, startedAt: [30, 10, 20][i] as number }));
    expect(begin(sessions)).toEqual(['b', 'c', 'new']);
    expect(begin(sessions, { ...POLICY, maxConcurrentSessions: 1 })).toEqual(['new']);
  });

  test('drops logins that are over', () => {
    expect(begin([session({ expiresAt: 9_999 })])).toEqual(['new']);
  });
});
