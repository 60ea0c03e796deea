import { givenBack, reserved } from '../subjects/identity/rules/attempts.ts';
import type { LoginPolicy } from '../subjects/identity/rules/policy.ts';
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
  /** Unix ms */
  now(): number;
}

/**
 * Attempts of an account: each is taken by a conditional write before the password or code is compared, so that no number of
 * guesses at the same time, at any replica, is compared more often than the policy allows.
 */
export function createLockout({ users, policy, strangers, events, now }: LockoutOptions): AccountLockout {
  /** The user with one attempt less; undefined when the account is locked or there is none. */
  async function reserve(
    found: StoredUser,
    signal: AbortSignal,
  ): Promise<{ user: StoredUser; locks: boolean } | undefined> {
    const { user, result } = await users.change(
      found,
      (present) => {
        const attempts = reserved(present.secrets.attempts, now(), policy());
        return attempts ? { next: { attempts }, result: attempts } : { result: undefined };
      },
      signal,
    );
    return result && { user, locks: result.lockedUntil > 0 };
  }

  return {
    async attempt(who, by, { check, dummy, door, commit }, signal) {
      const charged = strangers.charge(by.address, by.device);
      const found = await ('uuid' in who ? users.byUuid(who.uuid, signal) : users.byEmail(who.email, signal));
      const taken = found && (await reserve(found, signal));
      if (!taken) {
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
            const { attempts } = present.secrets;
            const left = passed === true && RESETTING.has(door) ? NONE : givenBack(attempts);
            return { next: { ...(passed === true && commit?.(present)), attempts: left }, result: true };
          },
          signal,
        );
        return counts ? user : undefined;
      }
      strangers.failed(by.address);
      if (taken.locks) events.record({ ...event, what: 'lockout', ok: false });
      return undefined;
    },
  };
}
