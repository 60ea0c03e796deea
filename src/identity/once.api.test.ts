import { describe, expect, test } from 'vitest';
import { LABELS } from '../api/names.ts';
import { CORE_RESOURCES } from '../api/resources.ts';
import { silentLog } from '../lib/log.ts';
import { atOnce, BY, PASSWORD, startIdentities } from './_replicas.ts';
import { createLockout } from './lockout.ts';

/** What counts once, 20 times at the same time over two replicas and a real API server. */
const TIMES = 20;
const never = new AbortController().signal;
const freely = { charge: () => ({ refund() {} }), interaction() {}, failed() {} };

async function withUser(email = 'ann@example.com') {
  const replicas = await startIdentities(2);
  const [first] = replicas;
  if (!first) throw new Error('no replica');
  const { users, passwords } = first.identity;
  const hash = await passwords.hash(PASSWORD, never);
  const user = await users.create({ email, groups: [], hash, mustChangePassword: false }, never);
  return { replicas, first, user };
}

describe('of 20 at once', () => {
  test('one user gets an e-mail', async () => {
    const replicas = await startIdentities(2);
    const { done, failed } = await atOnce(TIMES, replicas, ({ identity: { users } }) =>
      users.create({ email: 'ann@example.com', groups: [], hash: 'x', mustChangePassword: false }, never),
    );
    expect(done).toHaveLength(1);
    expect(failed.map(({ status }) => status)).toEqual(Array.from({ length: TIMES - 1 }, () => 409));
    const [replica] = replicas;
    const objects = await replica?.client.list(replica.stores.authUsers.resource, { namespace: replica.namespace });
    expect(objects?.items.filter(({ spec }) => (spec as { email: string }).email === 'ann@example.com')).toHaveLength(
      1,
    );
  });

  test('one refresh of a token wins, the others end nothing, and a later use ends the login', async () => {
    const { replicas, first, user } = await withUser();
    const { refreshToken } = await first.identity.tokens.login(user, BY, never);
    const arrivedAt = Date.now();
    const { done, failed } = await atOnce(TIMES, replicas, ({ identity: { tokens } }) =>
      tokens.refresh(refreshToken, { ...BY, arrivedAt }, never),
    );
    expect(done).toHaveLength(1);
    expect(new Set(failed.map(({ code }) => code))).toEqual(new Set(['INVALID_REFRESH_TOKEN']));

    const next = done[0]?.refreshToken ?? '';
    const again = await first.identity.tokens.refresh(next, { ...BY, arrivedAt: Date.now() }, never);
    expect(again.refreshToken).not.toBe(next);

    const late = { ...BY, arrivedAt: Date.now() + 1_000 };
    await expect(first.identity.tokens.refresh(next, late, never)).rejects.toMatchObject({ status: 401 });
    await expect(first.identity.tokens.refresh(again.refreshToken, late, never)).rejects.toMatchObject({ status: 401 });
    expect((await first.identity.users.byUuid(user.uuid, never))?.secrets.sessions).toEqual([]);
  });

  test('one use of a reset token sets a password', async () => {
    const { replicas, first, user } = await withUser();
    const { token } = await first.identity.passwordChange.resetToken(user.uuid, never);
    const { done, failed } = await atOnce(6, replicas, ({ identity: { passwordChange } }, i) =>
      passwordChange.changeByToken(token, `Another-Horse-${i}`, never),
    );
    expect(done).toHaveLength(1);
    expect(new Set(failed.map(({ status }) => status))).toEqual(new Set([401]));
  });

  test('five guesses are compared, and the account is locked at both replicas', async () => {
    const { replicas, user } = await withUser();
    let compared = 0;
    let dummies = 0;
    const { done } = await atOnce(TIMES, replicas, ({ identity: { users, policy, events } }) =>
      createLockout({ users, policy, events, strangers: freely, now: Date.now }).attempt(
        { email: 'ann@example.com' },
        BY,
        {
          door: 'login',
          check: async () => {
            compared++;
            return false;
          },
          dummy: async () => void dummies++,
        },
        never,
      ),
    );
    // A replica that lost eight writes in a row answers 503, and compares nothing.
    expect(done.length).toBeGreaterThanOrEqual(5);
    expect(compared).toBe(5);
    expect(dummies).toBe(done.length - 5);
    for (const { identity } of replicas)
      expect((await identity.users.byUuid(user.uuid, never))?.secrets.attempts.lockedUntil).toBeGreaterThan(Date.now());
  });

  test('every change of a user counts', async () => {
    const { replicas, user } = await withUser();
    const { done, failed } = await atOnce(8, replicas, ({ identity: { users } }) =>
      users.change(
        user.uuid,
        ({ secrets: { attempts } }) => ({
          next: { attempts: { ...attempts, failed: attempts.failed + 1 } },
          result: undefined,
        }),
        never,
      ),
    );
    const stored = await replicas[0]?.identity.users.byUuid(user.uuid, never);
    expect(stored?.secrets.attempts.failed).toBe(done.length);
    expect(new Set(failed.map(({ status }) => status))).toEqual(failed.length > 0 ? new Set([503]) : new Set());
  });
});

describe('a login', () => {
  test('changes nothing that agents wait for', async () => {
    const { first, user } = await withUser();
    const { secrets } = first.stores;
    const before = [secrets.version, secrets.latest, secrets.size];
    await first.identity.tokens.login(user, BY, never);
    // The watch of the other Secrets has passed the login.
    const mark = await first.client.create(CORE_RESOURCES.secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'mark', namespace: first.namespace, labels: { [LABELS.auditLog]: 'x' } },
    });
    expect(mark.metadata.resourceVersion).not.toBe(secrets.latest);
    expect([secrets.version, secrets.latest, secrets.size]).toEqual(before);
    expect(secrets.list().filter(({ metadata }) => metadata.labels?.[LABELS.identity])).toEqual([]);
  });

  test('is known at another replica without the content of the Secret', async () => {
    const { replicas, user } = await withUser();
    const [, second] = replicas;
    await second?.identity.passwordChange.reset(user.uuid, never);
    for (const { identity } of replicas)
      await expect.poll(() => identity.users.facts(user.uuid)?.mustChangePassword, { timeout: 10_000 }).toBe(true);
  });

  test('ends the oldest one beyond ten', async () => {
    const { first, user } = await withUser();
    const tokens: { refreshToken: string }[] = [];
    for (let i = 0; i < 11; i++) tokens.push(await first.identity.tokens.login(user, BY, never));
    const refresh = (i: number) =>
      first.identity.tokens.refresh(tokens[i]?.refreshToken ?? '', { ...BY, arrivedAt: Date.now() }, never);
    await expect(refresh(0)).rejects.toMatchObject({ code: 'INVALID_REFRESH_TOKEN' });
    await expect(refresh(1)).resolves.toBeDefined();
  });
});

test('two replicas have the same keys, and one first administrator', async () => {
  const replicas = await startIdentities(2);
  const kids = replicas.map(({ identity }) => identity.keys.publicJwks().keys.map(({ kid }) => kid));
  expect(kids[0]).toEqual(kids[1]);
  const [first] = replicas;
  await expect
    .poll(() => first?.stores.authUsers.list().map(({ spec }) => spec.email), { timeout: 20_000 })
    .toEqual(['admin']);
  await expect
    .poll(
      () =>
        first?.stores.authGroups
          .list()
          .map(({ metadata }) => metadata.name)
          .sort(),
      { timeout: 20_000 },
    )
    .toEqual(['admin', 'developer', 'sre', 'viewer']);
});

test('an installation of an earlier version gets groups and keys, and no account', async () => {
  const warned: string[] = [];
  const log = { ...silentLog, warn: (_: object, text: string) => void warned.push(text) };
  const [first] = await startIdentities(1, { isNew: false, log });
  await expect.poll(() => warned.some((text) => text.includes('no administrator')), { timeout: 20_000 }).toBe(true);
  expect(first?.stores.authGroups.size).toBe(4);
  expect(first?.stores.authUsers.size).toBe(0);
});

test('a rotated key is published everywhere, signs later, and interrupts no token', async () => {
  const { replicas, first, user } = await withUser();
  const [, second] = replicas;
  const { accessToken } = await first.identity.tokens.login(user, BY, never);
  const { kid } = await first.identity.keys.rotate(never);
  expect(first.identity.keys.signing?.kid).not.toBe(kid);
  expect(await second?.identity.keys.find(kid, never)).toMatchObject({ kid, alg: 'RS256', use: 'sig' });
  for (const { identity } of replicas)
    expect(await identity.verifier.verify(accessToken, never)).toMatchObject({ subject: user.uuid });
});

test('the end of a user ends its tokens, and gives its e-mail to nobody until the leader has freed it', async () => {
  const { replicas, first, user } = await withUser();
  const { accessToken, refreshToken } = await first.identity.tokens.login(user, BY, never);
  await first.identity.users.remove(user.uuid, never);
  const [, second] = replicas;
  await expect.poll(() => second?.identity.verifier.verify(accessToken, never), { timeout: 10_000 }).toBeUndefined();
  await expect(
    first.identity.tokens.refresh(refreshToken, { ...BY, arrivedAt: Date.now() }, never),
  ).rejects.toMatchObject({ status: 401 });
  const next = { email: user.email, groups: [], hash: 'x', mustChangePassword: false };
  await expect(second?.identity.users.create(next, never)).rejects.toMatchObject({ status: 409 });
});

test('the end of sessions by a restore ends every refresh token', async () => {
  const { first, user } = await withUser();
  const { refreshToken } = await first.identity.tokens.login(user, BY, never);
  await first.identity.restored(never);
  await expect(
    first.identity.tokens.refresh(refreshToken, { ...BY, arrivedAt: Date.now() }, never),
  ).rejects.toMatchObject({ code: 'INVALID_REFRESH_TOKEN' });
});
