import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

export const cases: AgreementCase[] = [
  accepts('nothing', {}),
  accepts('every field', {
    uuid: '0b2f3f5e-3f0a-4a7e-9c39-6f6f3f0a4a7e',
    minPasswordLength: 16,
    passwordHistoryCount: 10,
    maxFailedAttempts: 3,
    lockoutDurationMinutes: 30,
    accessTokenTtlSeconds: 300,
    refreshTokenTtlSeconds: 7200,
    refreshRotation: false,
    familyMaxAgeHours: 8,
    maxConcurrentSessions: 2,
    bootstrapExemptFromMfa: false,
  }),
  refuses('short passwords', { minPasswordLength: 7 }),
  refuses('too long a history', { passwordHistoryCount: 25 }),
  refuses('no attempts', { maxFailedAttempts: 0 }),
  refuses('tokens of a day', { accessTokenTtlSeconds: 86_400 }),
  refuses('11 sessions', { maxConcurrentSessions: 11 }),
  refuses('a text for refreshRotation', { refreshRotation: 'no' }),
  refuses('half a minute', { lockoutDurationMinutes: 0.5 }),
  refuses('an unknown field', { passwordMaxAgeDays: 90 }),
];
