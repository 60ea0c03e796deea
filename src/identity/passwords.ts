import { randomBytes, randomInt } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { isTooLong, passwordProblems, temporaryPassword } from '../subjects/identity/rules/password.ts';
import type { LoginPolicy } from '../subjects/identity/rules/policy.ts';
import type { LoginMetrics } from './contract/metrics.ts';
import type { Passwords } from './contract/users.ts';
import { createHashQueue } from './hash-queue.ts';
import { hashPassword, isHashOf, parsedHash, SALT_BYTES } from './password-hash.ts';

/** At most two at once, and one processor stays for everything else. */
const PARALLEL = Math.max(1, Math.min(2, availableParallelism() - 1));
const WAITING = 64;

export interface PasswordsOptions {
  policy(): LoginPolicy;
  metrics?: Pick<LoginMetrics, 'passwordCheck' | 'passwordsWaiting' | 'passwordWaited'>;
}

export function createPasswords({ policy, metrics }: PasswordsOptions): Passwords {
  const queue = createHashQueue({
    ...{ parallel: PARALLEL, waiting: WAITING },
    ...(metrics && { depth: metrics.passwordsWaiting, waited: metrics.passwordWaited }),
  });
  /** of a password that nobody has; made at the first need */
  let dummy: Promise<string> | undefined;
  const dummyHash = () => {
    dummy ??= hashPassword(randomBytes(18).toString('base64'), randomBytes(SALT_BYTES));
    return dummy;
  };

  const verify: Passwords['verify'] = async (password, hash, signal) => {
    // A mebibyte of text is never hashed: it cannot be a password, and the dummy costs the same.
    const parsed = hash === undefined || isTooLong(password) ? undefined : parsedHash(hash);
    const compared = parsed ?? parsedHash(await dummyHash());
    if (!compared) return false;
    const isOwn = await queue.run(() => isHashOf(parsed ? password : 'nobody', compared), signal);
    metrics?.passwordCheck({ kind: parsed ? 'real' : 'dummy' });
    return parsed !== undefined && isOwn;
  };

  return {
    hash: (password, signal) => queue.run(() => hashPassword(password, randomBytes(SALT_BYTES)), signal),
    verify,
    async problem(password, user, signal) {
      const problems = passwordProblems(password, policy());
      const { hash, history = [] } = user?.secrets.password ?? {};
      const count = policy().passwordHistoryCount;
      const former = [...(hash === undefined ? [] : [hash]), ...history.slice(0, count)];
      if (!isTooLong(password))
        for (const one of former)
          if (await verify(password, one, signal)) {
            problems.push(`the password must not be the present one or one of the last ${count}`);
            break;
          }
      return problems.length > 0 ? problems.join('; ') : undefined;
    },
    temporary: () => temporaryPassword(policy(), (below) => randomInt(below)),
  };
}
