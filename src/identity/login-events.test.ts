import { describe, expect, test } from 'vitest';
import type { AuditEvent } from '../rules/audit.ts';
import type { LoginEvents } from './contract/strangers.ts';
import { createLoginEvents } from './login-events.ts';

/** Logins in the audit log. */
type Login = Parameters<LoginEvents['record']>[0];
const BY = { human: 'ann@plant.example', address: '192.0.2.7', requestId: 'r1' };

function recorder({ recordsAddresses = true } = {}) {
  const recorded: Omit<AuditEvent, 'id' | 'timestamp'>[] = [];
  const clock = { at: 0, now: () => clock.at };
  const events = createLoginEvents({ record: (event) => recorded.push(event), recordsAddresses, clock });
  const record = (what: Login['what'], ok: boolean, by: Partial<Login> = {}) =>
    events.record({ ...BY, ...by, what, ok });
  return { clock, recorded, record };
}

describe('a login in the audit log', () => {
  test('has the e-mail as its actor, and what it was', () => {
    const { recorded, record } = recorder();
    record('login', true);
    record('lockout', false);
    expect(recorded).toMatchObject([
      { actorId: BY.human, ipAddress: BY.address, requestId: 'r1', status: 'SUCCESS', statusCode: 200 },
      { actorId: BY.human, status: 'FAILED', statusCode: 401, statusMessage: 'lockout' },
    ]);
    expect(recorded[0]).toMatchObject({ endpointPath: '/user/login', statusMessage: 'login', endpointType: 'user' });
  });

  test('has no address where addresses are not recorded', () => {
    const { recorded, record } = recorder({ recordsAddresses: false });
    record('logout', true);
    expect(recorded[0]?.ipAddress).toBe('');
  });

  test('is one event of an account in ten minutes when it fails, for each kind, and one each time it succeeds', () => {
    const { clock, recorded, record } = recorder();
    for (let i = 0; i < 50; i++) {
      record('login', false);
      record('refresh-reuse', false);
      record('login', false, { human: 'bob@plant.example' });
    }
    expect(recorded).toHaveLength(3);
    for (let i = 0; i < 5; i++) record('login', true);
    expect(recorded).toHaveLength(8);
    clock.at += 600_000;
    record('login', false);
    expect(recorded).toHaveLength(9);
  });
});
