import { HttpError } from '../http/http-error.ts';
import { givenBack, reserved } from '../subjects/identity/rules/attempts.ts';
import { reservedByDevice, rightByDevice } from '../subjects/identity/rules/devices.ts';
import type { LoginPolicy } from '../subjects/identity/rules/policy.ts';
import { answerTime } from './answer-time.ts';
import type { LoginMetrics } from './contract/metrics.ts';
import type { LoginEvents, Strangers } from './contract/strangers.ts';
import type { AccountLockout, AttemptDoor, StoredUser, UserStore } from './contract/users.ts';

/**
 * Doors that ask for the password and the code at once. Another door proves a part: if it reset, who knows the password could
 * guess codes without an end.
 */
const RESETTING: ReadonlySet<AttemptDoor> = new Set(['login', 'mfa-disable']);
const NONE = { failed: 0, lockedUntil: 0 };

const changedAt = ({ secrets: { password } }: StoredUser) => password?.changedAt;

export interface LockoutOptions {
  users: UserStore;
  policy(): LoginPolicy;
  strangers: Strangers;
  events: LoginEvents;
  metrics?: Pick<LoginMetrics, 'loginAttempt' | 'lockout'>;
  /** Unix ms */
  now(): number;
}

/**
 * Attempts of an account: each is taken by a conditional write before the password or code is compared, so that no number of
 * guesses at the same time, at any replica, is compared more often than the policy allows.
 */
export function createLockout({ users, policy, strangers, events, metrics, now }: LockoutOptions): AccountLockout {
  /** The user with one attempt less; undefined when the account is locked, unless the browser of its last login asks. */
  async function reserve(found: StoredUser, device: string | undefined, signal: AbortSignal) {
    const { user, result } = await users.change<{ locks: boolean; ofDevice: boolean } | undefined>(
      found,
      ({ secrets }) => {
        const attempts = reserved(secrets.attempts, now(), policy());
        if (attempts) return { next: { attempts }, result: { locks: attempts.lockedUntil > 0, ofDevice: false } };
        const devices = reservedByDevice(secrets.devices, device, policy());
        return devices ? { next: { devices }, result: { locks: false, ofDevice: true } } : { result: undefined };
      },
      signal,
    );
    return result && { user, ...result };
  }

  return {
    async attempt(...given) {
      const [, , { door }, signal] = given;
      const began = performance.now();
      try {
        const user = await attempt(...given);
        if (!user) await answerTime(began, signal);
        return user;
      } catch (error) {
        if (error instanceof HttpError && error.status === 429) metrics?.loginAttempt({ door, outcome: 'refused' });
        throw error;
      }
    },
  };

  async function attempt(
    ...[who, by, { check, dummy, door, commit }, signal]: Parameters<AccountLockout['attempt']>
  ): Promise<StoredUser | undefined> {
    const charged = strangers.charge(by.address, by.device);
    const found = await ('uuid' in who ? users.byUuid(who.uuid, signal) : users.byEmail(who.email, signal));
    const taken = found && (await reserve(found, by.device, signal));
    if (!taken) {
      metrics?.loginAttempt({ door, outcome: 'none' });
      await dummy();
      strangers.failed(by.address);
      return undefined;
    }
    const event = { human: taken.user.email, address: by.address, requestId: by.requestId };
    const passed = await check(taken.user);
    if (passed) {
      charged.refund();
      const { user, result: counts } = await users.change(
        taken.user,
        (present) => {
          // The password was changed or reset while the former one was compared: it opens nothing any more.
          if (changedAt(present) !== changedAt(taken.user)) return { result: false };
          const { attempts, devices } = present.secrets;
          const resets = passed === true && RESETTING.has(door);
          // The account stays locked for others.
          const left = taken.ofDevice
            ? { devices: rightByDevice(devices, by.device, resets) }
            : { attempts: resets ? NONE : givenBack(attempts) };
          return { next: { ...(passed === true && commit?.(present)), ...left }, result: true };
        },
        signal,
      );
      metrics?.loginAttempt({ door, outcome: counts ? (passed === true ? 'passed' : 'part') : 'wrong' });
      return counts ? user : undefined;
    }
    metrics?.loginAttempt({ door, outcome: 'wrong' });
    strangers.failed(by.address);
    if (taken.locks) {
      metrics?.lockout();
      events.record({ ...event, what: 'lockout', ok: false });
    }
    return undefined;
  }
}
