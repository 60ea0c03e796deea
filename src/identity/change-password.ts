import { randomBytes } from 'node:crypto';
import { HttpError } from '../http/http-error.ts';
import type { PasswordChange, Passwords, StoredUser, UserChange, UserFlags, UserStore } from './contract/users.ts';
import { sha256 } from './secrets.ts';

/** Hashes that the history may have: the policy can ask for fewer. */
const LONGEST_HISTORY = 24;

export interface PasswordChangeOptions {
  users: UserStore;
  passwords: Passwords;
  /** ends logins in the browser as well */
  endAll(userUuid: string, signal: AbortSignal): Promise<void>;
  /** Unix ms */
  now(): number;
}

const resetTokenInvalid = () =>
  new HttpError(401, 'INVALID_CREDENTIALS', 'the reset token is not valid: ask for a new one');

/** Whether a token is the live reset token of a user. */
const isResetToken = ({ secrets: { reset } }: StoredUser, token: string, now: number): boolean =>
  reset !== undefined && reset.expiresAt > now && reset.hash === sha256(token);

const RESET_SECONDS = 3600;

/** The uuid in the first part of a token. */
function userOfResetToken(token: string): string | undefined {
  const hex = Buffer.from(token.slice(0, 22), 'base64url').toString('hex');
  if (token.length !== 66 || token[22] !== '.' || hex.length !== 32) return undefined;
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

export function createPasswordChange({ users, passwords, endAll, now }: PasswordChangeOptions): PasswordChange {
  const withHash = (
    { secrets: { password } }: StoredUser,
    hash: string,
    flags: Partial<UserFlags>,
  ): UserChange<undefined> => ({
    next: {
      password: {
        hash,
        history: [...(password ? [password.hash, ...password.history] : [])].slice(0, LONGEST_HISTORY),
        changedAt: now(),
      },
      attempts: { failed: 0, lockedUntil: 0 },
      devices: [],
      reset: undefined,
      sessions: [],
    },
    flags,
    result: undefined,
  });

  return {
    async change(user, password, signal, resetToken) {
      const problem = await passwords.problem(password, user, signal);
      if (problem !== undefined) throw new HttpError(400, 'PASSWORD_NOT_ALLOWED', problem);
      const hash = await passwords.hash(password, signal);
      const { user: changed } = await users.change(
        user.uuid,
        (present) => {
          if (resetToken !== undefined && !isResetToken(present, resetToken, now())) throw resetTokenInvalid();
          return withHash(present, hash, { mustChangePassword: false });
        },
        signal,
      );
      await endAll(user.uuid, signal);
      return changed;
    },
    async changeByToken(token, password, signal) {
      const uuid = userOfResetToken(token);
      const user = uuid === undefined ? undefined : await users.byUuid(uuid, signal);
      // Before any hash: a stranger's guess costs none.
      if (!user || !isResetToken(user, token, now())) throw resetTokenInvalid();
      return this.change(user, password, signal, token);
    },
    async resetToken(uuid, signal) {
      const token = `${Buffer.from(uuid.replaceAll('-', ''), 'hex').toString('base64url')}.${randomBytes(32).toString('base64url')}`;
      const expiresAt = now() + RESET_SECONDS * 1000;
      await users.change(
        uuid,
        () => ({ next: { reset: { hash: sha256(token), expiresAt } }, result: undefined }),
        signal,
      );
      return { token, expiresIn: RESET_SECONDS };
    },
    async reset(uuid, signal) {
      const password = passwords.temporary();
      const hash = await passwords.hash(password, signal);
      await users.change(uuid, (present) => withHash(present, hash, { mustChangePassword: true }), signal);
      await endAll(uuid, signal);
      return password;
    },
  };
}
