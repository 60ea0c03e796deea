import { describe, expect, test } from 'vitest';
import { fromBase32, totpCode } from '../subjects/identity/rules/totp.ts';
import { atOnce, startIdentities } from './_replicas.ts';

/** Codes over two replicas and a real API server. */

const TIMES = 20;
const never = new AbortController().signal;

const step = () => Math.floor(Date.now() / 30_000);

async function enrolled() {
  const replicas = await startIdentities(2);
  const [first] = replicas;
  if (!first) throw new Error('no replica');
  const { users, secondFactor } = first.identity;
  const user = await users.create({ email: 'ann@x.example', groups: [], hash: 'x', mustChangePassword: false }, never);
  const { secret } = await secondFactor.begin(user.uuid, never);
  const { recoveryCodes } = await secondFactor.confirm(user.uuid, totpCode(fromBase32(secret), step() - 1), never);
  return { replicas, user, secret: fromBase32(secret), recoveryCodes, secondFactor, users };
}

describe('of 20 at once', () => {
  test('one uses a code of the app, and one a recovery code', async () => {
    const { replicas, user, secret, recoveryCodes, users } = await enrolled();
    for (const code of [totpCode(secret, step()), String(recoveryCodes[3])]) {
      const { done, failed } = await atOnce(TIMES, replicas, ({ identity }) =>
        identity.secondFactor.use(user, code, never),
      );
      // A replica that loses every write answers 503, and has used nothing.
      for (const { status } of failed) expect(status).toBe(503);
      expect(done.filter(Boolean)).toHaveLength(1);
    }
    const { mfa } = (await users.byUuid(user.uuid, never))?.secrets ?? {};
    expect(mfa?.recovery).toHaveLength(9);
  });
});

test('a second factor is of no use until it is confirmed, and after it is disabled', async () => {
  const { user, secret, secondFactor, users } = await enrolled();
  await expect(secondFactor.begin(user.uuid, never)).rejects.toMatchObject({ code: 'MFA_ALREADY_ENABLED' });
  await secondFactor.disable(user.uuid, never);
  expect(await secondFactor.use(user, totpCode(secret, step()), never)).toBe(false);
  const again = await secondFactor.begin(user.uuid, never);
  expect(await secondFactor.use(user, totpCode(fromBase32(again.secret), step()), never)).toBe(false);
  expect((await users.byUuid(user.uuid, never))?.mfaEnabled).toBe(false);
  await expect(secondFactor.confirm(user.uuid, '000000', never)).rejects.toMatchObject({ status: 401 });
});
