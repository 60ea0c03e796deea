import type { Clock } from '../lib/clock.ts';
import { createTokenBuckets } from '../lib/token-bucket.ts';
import type { AuditEvent } from '../rules/audit.ts';
import type { LoginEvents } from './contract/strangers.ts';

/** Failures of one account: one event in ten minutes, so that guesses do not push out what people did. */
const FAILURES = { perSecond: 1 / 600, burst: 1 } as const;

const PATHS = {
  login: '/user/login',
  'refresh-reuse': '/user/refresh',
  logout: '/user/logout',
  lockout: '/user/login',
  reset: '/user/change-password',
  password: '/user/change-password',
  mfa: '/user/mfa',
} as const;

export interface LoginEventsOptions {
  /** of the audit log */
  record(event: Omit<AuditEvent, 'id' | 'timestamp'>): void;
  recordsAddresses: boolean;
  clock: Pick<Clock, 'now'>;
}

/** Logins in the audit log: their requests have no token, and count there only. */
export function createLoginEvents({ record, recordsAddresses, clock }: LoginEventsOptions): LoginEvents {
  const failures = createTokenBuckets({ clock, ...FAILURES });
  return {
    record({ what, human, ok, address, requestId }) {
      if (!ok && !failures.take(`${what} ${human}`)) return;
      record({
        eventType: 'HTTP',
        endpointType: 'user',
        actorId: human,
        method: 'POST',
        resourceType: 'user',
        resourceId: human,
        endpointPath: PATHS[what],
        ipAddress: recordsAddresses ? address : '',
        status: ok ? 'SUCCESS' : 'FAILED',
        statusCode: ok ? 200 : 401,
        statusMessage: what,
        requestId,
      });
    },
  };
}
