import { randomBytes } from 'node:crypto';
import { HttpError } from '../http/http-error.ts';
import {
  otpauthUrl,
  recoveryHash,
  type StoredFactor,
  toBase32,
  withCodeUsed,
  withRecoveryUsed,
} from '../subjects/identity/rules/totp.ts';
import type { SecondFactor, UserStore } from './contract/users.ts';

export interface SecondFactorOptions {
  users: Pick<UserStore, 'change'>;
  /** Unix ms */
  now: () => number;
}

/** RFC 4226 recommends 160 bits. */
const SECRET_BYTES = 20;
const RECOVERY_CODES = 10;
const RECOVERY_BYTES = 5;

/** The second factor in the Secret of its user: one write accepts a code and marks it as used. */
export function createSecondFactor({ users, now }: SecondFactorOptions): SecondFactor {
  return {
    async begin(uuid, signal) {
      const secret = toBase32(randomBytes(SECRET_BYTES));
      const { user } = await users.change(
        uuid,
        ({ secrets: { mfa } }) => {
          if (mfa?.enabled) throw alreadyEnabled();
          return { next: { mfa: { secret, enabled: false, lastStep: 0, recovery: [] } }, result: undefined };
        },
        signal,
      );
      return { secret, otpauthUrl: otpauthUrl(secret, user.email) };
    },

    async confirm(uuid, code, signal) {
      const recoveryCodes = Array.from({ length: RECOVERY_CODES }, () => randomBytes(RECOVERY_BYTES).toString('hex'));
      await users.change(
        uuid,
        ({ secrets: { mfa } }) => {
          if (mfa?.enabled) throw alreadyEnabled();
          if (!mfa) throw new HttpError(400, 'MFA_NOT_ENABLED', 'no second factor was begun');
          const used = withCodeUsed(mfa, code, now());
          if (!used) throw wrongCode();
          const recovery = recoveryCodes.map((recoveryCode) => recoveryHash(uuid, recoveryCode));
          return { next: { mfa: { ...used, enabled: true, recovery } }, result: undefined };
        },
        signal,
      );
      return { recoveryCodes };
    },

    async use({ uuid }, code, signal) {
      const { result } = await users.change(
        uuid,
        ({ secrets: { mfa } }) => {
          const used = mfa?.enabled ? withEitherUsed(mfa, uuid, code, now()) : undefined;
          return used ? { next: { mfa: used }, result: true } : { result: false };
        },
        signal,
      );
      return result;
    },

    async disable(uuid, signal) {
      await users.change(uuid, () => ({ next: { mfa: undefined }, result: undefined }), signal);
    },
  };
}

const withEitherUsed = <T extends StoredFactor>(factor: T, uuid: string, code: string, now: number) =>
  withCodeUsed(factor, code, now) ?? withRecoveryUsed(factor, uuid, code);

const alreadyEnabled = () => new HttpError(400, 'MFA_ALREADY_ENABLED', 'the second factor is already enabled');

/** The same words for a wrong, a used and an old code. */
export const wrongCode = () => new HttpError(401, 'INVALID_CREDENTIALS', 'the code is not valid');
