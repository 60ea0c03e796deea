import type { AttemptDoor } from './users.ts';

/** Counters of logins. No label has a name, an address or a text of a request. */
export interface LoginMetrics {
  /**
   * `passed`; `part`: the password was right and the code was not sent; `wrong`; `none`: an unknown, locked or deleted account;
   * `refused`: 429, and nothing was compared.
   */
  loginAttempt(labels: { door: AttemptDoor; outcome: 'passed' | 'part' | 'wrong' | 'none' | 'refused' }): void;
  lockout(): void;
  /** `real`: a hash of a user; `dummy`: the same work where there is none */
  passwordCheck(labels: { kind: 'real' | 'dummy' }): void;
  passwordsWaiting(count: number): void;
  passwordWaited(seconds: number): void;
  refresh(labels: { outcome: 'rotated' | 'same' | 'late' | 'reuse' | 'unknown' }): void;
}

/** Gauges of logins, read when somebody asks for the metrics. */
export interface LoginFigures {
  /** logins in the browser that are under way */
  interactions: number;
  /** refresh tokens that users have, those included that have expired since their user logged in last */
  sessions: number;
  /** age of the key that signs; absent until it is known */
  signingKeySeconds?: number;
  /** the first administrator has still the generated password */
  hasFirstPassword: boolean;
}
