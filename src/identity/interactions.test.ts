import { describe, expect, it } from 'vitest';
import { HttpError } from '../http/http-error.ts';
import { memoryArtefacts } from '../issuer/_issuer.ts';
import type { Duties } from '../subjects/identity/rules/duties.ts';
import { totpCode } from '../subjects/identity/rules/totp.ts';
import type { InteractionAction } from './contract/interactions.ts';
import type { StoredUser, UserStore } from './contract/users.ts';
import { createInteractions } from './interactions.ts';
import { createSecondFactor } from './second-factor.ts';
import { STEP_COOKIE, stepCookie } from './step-cookie.ts';

const KEY = 'a cookie key of the test';
const PASSWORD = 'Correct-Horse-1';
const by = { address: '192.0.2.1', requestId: 'r' };
const signal = AbortSignal.timeout(60_000);

const userOf = (uuid: string, email: string): StoredUser => ({
  ...{ uuid, email, name: email, groups: [], isBootstrap: false, mustChangePassword: false, mfaEnabled: false },
  ...{ createdAt: '', updatedAt: '', version: '1' },
  secrets: { attempts: { failed: 0, lockedUntil: 0 }, devices: [], sessions: [] },
});

/** The service over users in memory; passwords are compared as they are. */
function start(duties: Partial<Duties> = {}) {
  const users = new Map(
    [userOf('ann', 'ann@x.example'), userOf('bob', 'bob@x.example')].map((user) => [user.uuid, user]),
  );
  const store: Pick<UserStore, 'byEmail' | 'byUuid' | 'change'> = {
    byEmail: async (email) => [...users.values()].find((user) => user.email === email),
    byUuid: async (uuid) => users.get(uuid),
    async change(given, decide) {
      const uuid = typeof given === 'string' ? given : given.uuid;
      const user = users.get(uuid) as StoredUser;
      const { next = {}, flags = {}, result } = decide(user);
      const secrets = Object.fromEntries(
        Object.entries({ ...user.secrets, ...next }).filter(([, value]) => value !== undefined),
      ) as unknown as StoredUser['secrets'];
      const changed = { ...user, ...flags, secrets, mfaEnabled: secrets.mfa?.enabled ?? false };
      users.set(uuid, changed);
      return { user: changed, result, lost: 0 };
    },
  };
  let now = 1_800_000_000_000;
  const artefacts = memoryArtefacts();
  const completed: [uid: string, account: string][] = [];
  const interactions = createInteractions({
    artefacts,
    users: store,
    lockout: {
      async attempt(who, _by, { check, dummy }) {
        const user = [...users.values()].find((one) =>
          'uuid' in who ? one.uuid === who.uuid : one.email === who.email,
        );
        if (user && (await check(user))) return users.get(user.uuid);
        await dummy();
        return undefined;
      },
    },
    passwords: { verify: async (password, hash) => hash !== undefined && password === PASSWORD },
    secondFactor: createSecondFactor({ users: store, now: () => now }),
    issuer: {
      async complete(uid, accountId) {
        completed.push([uid, accountId]);
        return { redirectTo: `https://plant.example/oidc/auth/${uid}` };
      },
    },
    strangers: { charge: () => ({ refund: () => {} }) },
    events: { record: () => {} },
    duties: ({ mfaEnabled, mustChangePassword }) => ({
      ...{ isExempt: false, mfaRequired: false, ...duties },
      ...{ mfaEnabled, mustChangePassword },
    }),
    passwordChange: {
      async change({ uuid }) {
        const password = { hash: 'y', history: [], changedAt: ++now };
        const change = { next: { password }, flags: { mustChangePassword: false }, result: undefined };
        return (await store.change(uuid, () => change, signal)).user;
      },
    },
    cookieKeys: () => [KEY],
    now: () => now,
  });
  for (const user of users.values())
    users.set(user.uuid, { ...user, secrets: { ...user.secrets, password: { hash: 'x', history: [], changedAt: 0 } } });

  let begun = 0;
  return {
    ...{ interactions, artefacts, completed, users },
    pass: (ms: number) => {
      now += ms;
    },
    now: () => now,
    /** Begins in a browser; resolves with the uid and that browser's header. */
    async begin() {
      const uid = `uid-${++begun}`;
      await artefacts.write('Interaction', uid, { exp: now / 1_000 + 600 }, 600, 'new');
      return { uid, cookie: `other=1; ${STEP_COOKIE}=${stepCookie(KEY, uid)}` };
    },
    act: (uid: string, browser: string | undefined, action: InteractionAction) =>
      interactions.act(uid, browser, action, by, signal),
  };
}

const login = (email = 'ann@x.example', password = PASSWORD) => ({ to: 'login', email, password }) as const;
const complete = { to: 'complete' } as const;
const refusal = async (asked: Promise<unknown>) => {
  const error = await asked.then(
    () => undefined,
    (error) => error,
  );
  expect(error).toBeInstanceOf(HttpError);
  return [error.status, error.code];
};

describe('an interaction', () => {
  it('leads from the login to the end', async () => {
    const { begin, act, interactions, completed } = start();
    const { uid, cookie } = await begin();
    expect(await interactions.status(uid, signal)).toEqual({ step: 'login' });
    expect(await act(uid, cookie, login())).toEqual({ step: 'complete' });
    expect(await act(uid, cookie, complete)).toMatchObject({
      step: 'complete',
      redirectTo: expect.stringContaining(uid),
    });
    expect(completed).toEqual([[uid, 'ann']]);
  });

  it('leads through enrolment and a new password, in this order', async () => {
    const { begin, act, users, now, completed } = start({ mfaRequired: true });
    users.set('ann', { ...(users.get('ann') as StoredUser), mustChangePassword: true });
    const { uid, cookie } = await begin();
    expect(await act(uid, cookie, login())).toEqual({ step: 'enroll' });
    expect(
      await refusal(act(uid, cookie, { to: 'change-password', currentPassword: PASSWORD, newPassword: 'x' })),
    ).toEqual([400, 'WRONG_STEP']);
    const first = await act(uid, cookie, { to: 'enroll' });
    const second = await act(uid, cookie, { to: 'enroll' });
    expect(second).toMatchObject({
      step: 'confirm-enroll',
      otpauthUrl: expect.stringContaining(String(second.secret)),
    });
    expect(second.secret).not.toBe(first.secret);
    expect(await refusal(act(uid, cookie, complete))).toEqual([400, 'WRONG_STEP']);
    expect(await refusal(act(uid, cookie, { to: 'confirm-enroll', code: '000000' }))).toEqual([
      401,
      'INVALID_CREDENTIALS',
    ]);
    const code = codeFor(String(second.secret), now());
    const { recoveryCodes, step } = await act(uid, cookie, { to: 'confirm-enroll', code });
    expect([step, recoveryCodes?.length]).toEqual(['change-password', 10]);
    expect(await refusal(act(uid, cookie, { to: 'change-password', newPassword: 'x' }))).toEqual([
      400,
      'VALIDATION_ERROR',
    ]);
    expect(await act(uid, cookie, { to: 'change-password', currentPassword: PASSWORD, newPassword: 'x' })).toEqual({
      step: 'complete',
    });
    await act(uid, cookie, complete);
    expect(completed).toEqual([[uid, 'ann']]);
  });

  it('asks an enrolled user for a code, and accepts each code once', async () => {
    const { begin, act, users, now, pass } = start();
    const enrolment = await begin();
    await act(enrolment.uid, enrolment.cookie, login());
    const { secret } = await act(enrolment.uid, enrolment.cookie, { to: 'enroll' });
    const { recoveryCodes = [] } = await act(enrolment.uid, enrolment.cookie, {
      to: 'confirm-enroll',
      code: codeFor(String(secret), now()),
    });
    expect(users.get('ann')?.mfaEnabled).toBe(true);
    expect(await refusal(act(enrolment.uid, enrolment.cookie, { to: 'enroll' }))).toEqual([400, 'MFA_ALREADY_ENABLED']);

    const { uid, cookie } = await begin();
    expect(await act(uid, cookie, login())).toEqual({ step: 'mfa' });
    expect(await refusal(act(uid, cookie, complete))).toEqual([400, 'WRONG_STEP']);
    const used = codeFor(String(secret), now());
    expect(await refusal(act(uid, cookie, { to: 'mfa', code: used }))).toEqual([401, 'INVALID_CREDENTIALS']);
    pass(30_000);
    expect(await act(uid, cookie, { to: 'mfa', code: codeFor(String(secret), now()) })).toEqual({ step: 'complete' });
    await act(uid, cookie, login());
    expect(await act(uid, cookie, { to: 'mfa', code: String(recoveryCodes[0]) })).toEqual({ step: 'complete' });
    await act(uid, cookie, login());
    expect(await refusal(act(uid, cookie, { to: 'mfa', code: String(recoveryCodes[0]) }))).toEqual([
      401,
      'INVALID_CREDENTIALS',
    ]);
  });

  it('begins anew with each login, and forgets what another user has shown', async () => {
    const { begin, act, artefacts } = start();
    const { uid, cookie } = await begin();
    await act(uid, cookie, login());
    await act(uid, cookie, login('bob@x.example'));
    expect((await artefacts.read('Interaction', uid))?.payload.steps).toEqual({ userUuid: 'bob', passwordAt: 0 });
  });

  it('is over once the password was changed elsewhere', async () => {
    const { begin, act, users } = start();
    const { uid, cookie } = await begin();
    await act(uid, cookie, login(' ANN@X.example '));
    const ann = users.get('ann') as StoredUser;
    users.set('ann', { ...ann, secrets: { ...ann.secrets, password: { hash: 'z', history: [], changedAt: 1 } } });
    expect(await refusal(act(uid, cookie, complete))).toEqual([401, 'INTERACTION_EXPIRED']);
    expect(await refusal(act(uid, cookie, login()))).toEqual([401, 'INTERACTION_EXPIRED']);
  });

  it.each(['', ' ', 'x'.repeat(128)])('with the uid %j is unknown on every route', async (uid) => {
    const { act, interactions } = start();
    const actions: InteractionAction[] = [
      login(),
      { to: 'mfa', code: '1' },
      { to: 'enroll' },
      { to: 'confirm-enroll', code: '1' },
      { to: 'change-password', newPassword: 'x' },
      complete,
    ];
    for (const action of actions)
      expect(await refusal(act(uid, undefined, action))).toEqual([401, 'INTERACTION_EXPIRED']);
    expect(await refusal(interactions.status(uid, signal))).toEqual([401, 'INTERACTION_EXPIRED']);
  });

  it('is over once its user is deleted, and once it is completed', async () => {
    const { begin, act, users, interactions } = start();
    const one = await begin();
    await act(one.uid, one.cookie, login());
    await act(one.uid, one.cookie, complete);
    for (const action of [login(), complete])
      expect(await refusal(act(one.uid, one.cookie, action))).toEqual([401, 'INTERACTION_EXPIRED']);
    const other = await begin();
    await act(other.uid, other.cookie, login());
    users.delete('ann');
    expect(await refusal(interactions.status(other.uid, signal))).toEqual([401, 'INTERACTION_EXPIRED']);
    expect(await refusal(act(other.uid, other.cookie, login('bob@x.example')))).toEqual([401, 'INTERACTION_EXPIRED']);
  });
});

/** A code of the secret at a time. */
function codeFor(base32: string, now: number): string {
  const bits = [...base32]
    .map((one) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(one).toString(2).padStart(5, '0'))
    .join('');
  const bytes = bits.match(/.{8}/g) ?? [];
  return totpCode(
    Uint8Array.from(bytes, (byte) => Number.parseInt(byte, 2)),
    Math.floor(now / 30_000),
  );
}

describe('an attacker who sends the link of a login to somebody', () => {
  type Who = 'attacker' | 'victim' | 'nobody';
  /** Every order of the two steps of a login by three clients, up to the length. */
  const orders = (length: number): [Who, 'login' | 'complete'][][] =>
    length === 0
      ? [[]]
      : orders(length - 1).flatMap((order) =>
          (['attacker', 'victim', 'nobody'] as const).flatMap((who) =>
            (['login', 'complete'] as const).map((step): [Who, 'login' | 'complete'][] => [...order, [who, step]]),
          ),
        );

  it.each([1, 2, 3, 4])('gets no tokens of the victim in any order of %i steps', async (length) => {
    for (const order of orders(length)) {
      const { begin, act, completed } = start();
      // The attacker began; the victim has the cookie of another interaction.
      const { uid, cookie } = await begin();
      const cookies: Record<Who, string | undefined> = {
        attacker: cookie,
        victim: (await begin()).cookie,
        nobody: undefined,
      };
      let isDead = false;
      for (const [who, step] of order) {
        // Only the attacker logs in as bob: nobody else has the attacker's password, and the attacker has none of the victim's.
        const action = step === 'complete' ? complete : login(who === 'attacker' ? 'bob@x.example' : 'ann@x.example');
        const outcome = await act(uid, cookies[who], action).then(
          () => true,
          () => false,
        );
        if (isDead) expect([order, outcome]).toEqual([order, false]);
        if (step === 'complete' && who !== 'attacker') isDead = true;
      }
      expect([order, completed.filter(([, account]) => account === 'ann')]).toEqual([order, []]);
    }
  });

  it('gets none when the steps of both meet in the same moment', async () => {
    for (let round = 0; round < 50; round++) {
      const { begin, act, completed } = start();
      const { uid, cookie } = await begin();
      const steps = [
        () => act(uid, cookie, login('bob@x.example')),
        () => act(uid, undefined, login()),
        () => act(uid, cookie, complete),
        () => act(uid, undefined, complete),
      ];
      const shuffled = steps.map((step) => ({ step, at: Math.random() })).sort((a, b) => a.at - b.at);
      await Promise.allSettled(shuffled.map(({ step }) => step()));
      await Promise.allSettled([act(uid, cookie, complete)]);
      expect(completed.filter(([, account]) => account === 'ann')).toEqual([]);
    }
  });

  it('finds the interaction dead after the first try to complete it', async () => {
    const { begin, act, artefacts } = start();
    const { uid, cookie } = await begin();
    expect(await act(uid, undefined, login())).toEqual({ step: 'complete' });
    expect(await refusal(act(uid, cookie, complete))).toEqual([401, 'INTERACTION_EXPIRED']);
    expect(artefacts.stored.size).toBe(0);
  });

  it('has no use of a look at the state', async () => {
    const { begin, act, interactions, completed } = start();
    const { uid, cookie } = await begin();
    await interactions.status(uid, signal);
    await act(uid, cookie, login());
    await act(uid, cookie, complete);
    expect(completed).toEqual([[uid, 'ann']]);
  });
});
