import { expect, test } from 'vitest';
import { BY, PASSWORD, startIdentities } from './_replicas.ts';
import type { StoredUser } from './contract/users.ts';
import { createLockout } from './lockout.ts';

/** By night, on a machine that does nothing else: elsewhere an attempt may take longer than it is padded to. */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
const ATTEMPTS = 40;
const MOST_DIFFERENCE = 0.1;
const median = (times: readonly number[]) =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? Number.NaN;
const never = new AbortController().signal;
const freely = { charge: () => ({ refund() {} }), check() {}, interaction() {}, failed() {} };

test.runIf(isNightly)('unknown, locked and known users are answered in the same time', async () => {
  const [replica] = await startIdentities(1);
  if (!replica) throw new Error('no replica');
  const { users, passwords, policy } = replica.identity;
  const hash = await passwords.hash(PASSWORD, never);
  for (const email of ['known@example.com', 'locked@example.com'])
    await users.create({ email, groups: [], hash, mustChangePassword: false }, never);
  const attempts = (maxFailedAttempts: number) => {
    const lockout = createLockout({
      ...{ users, strangers: freely, events: { record() {} }, now: Date.now },
      policy: () => ({ ...policy(), maxFailedAttempts }),
    });
    const attempt = {
      door: 'login',
      check: ({ secrets: { password } }: StoredUser) => passwords.verify('wrong', password?.hash, never),
      dummy: async () => void (await passwords.verify('wrong', undefined, never)),
    } as const;
    return async (email: string) => {
      const began = performance.now();
      expect(await lockout.attempt({ email }, BY, attempt, never)).toBeUndefined();
      return performance.now() - began;
    };
  };
  const [freelyTried, lockedAtOnce] = [attempts(ATTEMPTS * 2), attempts(1)];
  await lockedAtOnce('locked@example.com');
  const times: Record<string, number[]> = { unknown: [], locked: [], known: [] };
  for (let i = 0; i < ATTEMPTS; i++) {
    times.unknown?.push(await freelyTried('nobody@example.com'));
    times.locked?.push(await lockedAtOnce('locked@example.com'));
    times.known?.push(await freelyTried('known@example.com'));
  }
  const medians = Object.values(times).map(median);
  expect(Math.max(...medians) / Math.min(...medians)).toBeLessThan(1 + MOST_DIFFERENCE);
});
