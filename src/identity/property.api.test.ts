import { expect, test } from 'vitest';
import { draws } from '../../testing/draws.ts';
import { mustShowCode } from '../subjects/identity/rules/duties.ts';
import { fromBase32, totpCode } from '../subjects/identity/rules/totp.ts';
import { BY, type IdentityReplica, startIdentities } from './_replicas.ts';
import { createLockout } from './lockout.ts';

/**
 * Random operations of users at two replicas over a real API server, against a model of the rules: no refresh after its end, no
 * permission that nobody gave, exact lockout, no lost change. The clock is the test's. SKERRY_FUZZ_SEED repeats a run.
 */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
const SEED = Number(process.env.SKERRY_FUZZ_SEED ?? (isNightly ? Date.now() % 2 ** 31 : 1));
const OPERATIONS = isNightly ? 1_500 : 60;
const never = new AbortController().signal;
const freely = { charge: () => ({ refund() {} }), check() {}, interaction() {}, failed() {} };
const GROUPS = ['admin', 'sre', 'developer', 'viewer'] as const;
const [MOST_FAILED, LOCK_MS, REFRESH_MS, ACCESS_MS, FAMILY_MS, STEP_MS] = [
  5, 900_000, 3_600_000, 900_000, 43_200_000, 30_000,
];

interface Session {
  token: string;
  former: { token: string; endsAt: number }[];
  startedAt: number;
  expiresAt: number;
}
interface Access {
  token: string;
  groups: readonly string[];
  endsAt: number;
}
/** A user as the rules say. */
interface Model {
  uuid: string;
  email: string;
  password: string;
  groups: string[];
  failed: number;
  lockedUntil: number;
  mustChange: boolean;
  isDeleted: boolean;
  mfa?: { secret: string; enabled: boolean; lastStep: number };
  sessions: Session[];
  /** refresh tokens of logins that were ended */
  ended: string[];
  access: Access[];
}

test(`whatever users do at two replicas, each thing counts as the rules say (seed ${SEED})`, async () => {
  const { next, pick, some } = draws(SEED);
  let now = Date.now();
  const clock = () => now;
  const replicas = await startIdentities(2, { now: clock });
  const { namespace } = replicas[0] as IdentityReplica;
  const replica = () => pick(replicas);
  let passwords = 0;
  const newPassword = () => `Correct-Horse-${passwords++}-Battery`;

  const models: Model[] = [];
  for (const name of ['ann', 'bob', 'eve']) {
    const { users, passwords: hashing } = replica().identity;
    const [password, groups] = [newPassword(), some(GROUPS, 2)];
    const hash = await hashing.hash(password, never);
    const email = `${name}@plant.example`;
    const { uuid } = await users.create({ email, groups, hash, mustChangePassword: false }, never);
    models.push({
      ...{ uuid, email, password, groups, failed: 0, lockedUntil: 0, mustChange: false, isDeleted: false },
      ...{ sessions: [], ended: [], access: [] },
    });
  }

  /** A login as the route has it. `compared` counts passwords that were compared with a hash of the user. */
  async function login(of: IdentityReplica, user: Model, password: string, totp: string, compared = { count: 0 }) {
    const { users, policy, passwords: hashing, duties, secondFactor, tokens } = of.identity;
    const lockout = createLockout({ users, policy, strangers: freely, events: { record() {} }, now: clock });
    let isCodeMissing = false;
    const found = await lockout.attempt(
      { email: user.email },
      BY,
      {
        door: 'login',
        async check(candidate) {
          compared.count++;
          if (!(await hashing.verify(password, candidate.secrets.password?.hash, never))) return false;
          if (!mustShowCode(duties(candidate))) return true;
          isCodeMissing = totp === '';
          return isCodeMissing ? 'in part' : await secondFactor.use(candidate, totp, never);
        },
        dummy: async () => {},
      },
      never,
    );
    return found && !isCodeMissing ? tokens.login(found, BY, never) : undefined;
  }

  /** The model of an attempt; undefined: nothing is compared. */
  function reserve(user: Model): boolean {
    if (user.isDeleted || user.lockedUntil > now) return false;
    user.failed = (user.lockedUntil > 0 ? 0 : user.failed) + 1;
    user.lockedUntil = user.failed >= MOST_FAILED ? now + LOCK_MS : 0;
    return true;
  }
  const endAll = (user: Model) => {
    user.ended.push(...user.sessions.map(({ token }) => token));
    user.sessions = [];
  };
  const live = (session: Session) => session.expiresAt > now;
  const noteAccess = (user: Model, token: string) =>
    user.access.push({ token, groups: [...user.groups], endsAt: now + ACCESS_MS });
  const refresh = (of: IdentityReplica, token: string) =>
    of.identity.tokens.refresh(token, { ...BY, arrivedAt: now }, never).catch((error: { status?: number }) => {
      if (error.status !== 401) throw error;
      return undefined;
    });
  /** A code that was not used yet. */
  function freshCode(user: Model): string {
    const factor = user.mfa;
    if (!factor) return '';
    if (Math.floor(now / STEP_MS) <= factor.lastStep) now += STEP_MS;
    return totpCode(fromBase32(factor.secret), Math.floor(now / STEP_MS));
  }
  const codeUsed = (user: Model) => {
    if (user.mfa) user.mfa.lastStep = Math.floor(now / STEP_MS);
  };

  const OPERATE: Record<string, (user: Model) => Promise<string | undefined>> = {
    async login(user) {
      const code = user.mfa?.enabled ? freshCode(user) : '';
      const isOpen = reserve(user);
      const tokens = await login(replica(), user, user.password, code);
      if (!isOpen) return tokens && 'a login was let in';
      if (!tokens) return 'a login was refused';
      Object.assign(user, { failed: 0, lockedUntil: 0 });
      if (user.mfa?.enabled) codeUsed(user);
      user.sessions = user.sessions.filter(live);
      if (user.sessions.length >= 10) user.ended.push(user.sessions.shift()?.token ?? '');
      user.sessions.push({ token: tokens.refreshToken, former: [], startedAt: now, expiresAt: now + REFRESH_MS });
      noteAccess(user, tokens.accessToken);
      return undefined;
    },
    async 'a login without its code'(user) {
      if (!user.mfa?.enabled) return undefined;
      if (reserve(user)) Object.assign(user, { failed: user.failed - 1, lockedUntil: 0 });
      return (await login(replica(), user, user.password, '')) && 'a login without its code was let in';
    },
    async 'a used code'(user) {
      if (!user.mfa?.enabled) return undefined;
      reserve(user);
      const code = totpCode(fromBase32(user.mfa.secret), user.mfa.lastStep);
      return (await login(replica(), user, user.password, code)) && 'a used code was let in';
    },
    async 'wrong guesses at once'(user) {
      const compared = { count: 0 };
      const places = user.isDeleted || user.lockedUntil > now ? 0 : MOST_FAILED - (user.lockedUntil > 0 ? 0 : user.failed);
      const count = 1 + next(8);
      for (let i = 0; i < count; i++) reserve(user);
      const guesses = Array.from({ length: count }, (_, i) =>
        login(replicas[i % 2] as IdentityReplica, user, 'wrong', '', compared),
      );
      if ((await Promise.all(guesses)).some(Boolean)) return 'a wrong password was let in';
      const expected = Math.min(count, places);
      return compared.count === expected ? undefined : `${compared.count} guesses were compared instead of ${expected}`;
    },
    async 'refreshes at once'(user) {
      const session = user.sessions.length > 0 ? pick(user.sessions) : undefined;
      if (!session) return undefined;
      const uses = await Promise.all(replicas.flatMap((of) => [refresh(of, session.token), refresh(of, session.token)]));
      const won = uses.filter((one) => one !== undefined);
      const expected = live(session) && !user.isDeleted ? 1 : 0;
      if (won.length !== expected) return `${won.length} refreshes won instead of ${expected}`;
      const [tokens] = won;
      if (!tokens) return undefined;
      session.former.push({ token: session.token, endsAt: session.expiresAt });
      session.token = tokens.refreshToken;
      session.expiresAt = Math.min(now + REFRESH_MS, session.startedAt + FAMILY_MS);
      noteAccess(user, tokens.accessToken);
      return undefined;
    },
    async 'a refresh token that was used'(user) {
      const session = user.sessions.find(({ former }) => former.length > 0);
      const used = session && pick(session.former);
      if (!session || !used || Math.abs(used.endsAt + 60_000 - now) < 5_000) return undefined;
      if (await refresh(replica(), used.token)) return 'a used refresh token was let in';
      // Beyond its end, and that of its login, nobody knows what it was.
      if (used.endsAt + 60_000 < now || !live(session) || user.isDeleted) return undefined;
      user.ended.push(session.token);
      user.sessions = user.sessions.filter((one) => one !== session);
      return undefined;
    },
    async 'a refresh token of a login that ended'(user) {
      const token = user.ended.at(-1);
      return token && (await refresh(replica(), token)) ? 'a refresh token came back to life' : undefined;
    },
    async logout(user) {
      if (user.isDeleted) return undefined;
      await replica().identity.tokens.endAll(user.uuid, 'logout', never);
      endAll(user);
      return undefined;
    },
    async 'another password'(user) {
      if (user.isDeleted) return undefined;
      const { users, passwordChange } = replica().identity;
      const present = await users.byUuid(user.uuid, never);
      if (!present) return 'the user is gone';
      user.password = newPassword();
      await passwordChange.change(present, user.password, never);
      Object.assign(user, { failed: 0, lockedUntil: 0, mustChange: false });
      endAll(user);
      return undefined;
    },
    async 'a temporary password'(user) {
      if (user.isDeleted) return undefined;
      user.password = await replica().identity.passwordChange.reset(user.uuid, never);
      Object.assign(user, { failed: 0, lockedUntil: 0, mustChange: true });
      endAll(user);
      return undefined;
    },
    async 'a second factor'(user) {
      if (user.isDeleted) return undefined;
      const { secondFactor } = replica().identity;
      if (user.mfa?.enabled) {
        await secondFactor.disable(user.uuid, never);
        delete user.mfa;
        return undefined;
      }
      const { secret } = await secondFactor.begin(user.uuid, never);
      user.mfa = { secret, enabled: false, lastStep: 0 };
      await replica().identity.secondFactor.confirm(user.uuid, freshCode(user), never);
      user.mfa.enabled = true;
      codeUsed(user);
      return undefined;
    },
    async 'other groups'(user) {
      if (user.isDeleted) return undefined;
      const { client, stores } = replica();
      user.groups = next(4) === 0 ? [] : some(GROUPS, 3);
      const body = { spec: { groups: user.groups } };
      await client.patch(stores.authUsers.resource, { namespace, name: user.uuid }, { type: 'merge', body });
      return undefined;
    },
    /** Each of four changes at the same time counts. */
    async 'changes at once'(user) {
      const [one, two] = user.sessions.filter(live);
      if (!one || !two || user.isDeleted || user.lockedUntil > 0 || user.failed > 2) return undefined;
      const groups = some(GROUPS, 3);
      const [first, second] = replicas as [IdentityReplica, IdentityReplica];
      const patch = { type: 'merge', body: { spec: { groups } } } as const;
      const [a, b] = await Promise.all([
        refresh(first, one.token),
        refresh(second, two.token),
        login(second, user, 'wrong', ''),
        first.client.patch(first.stores.authUsers.resource, { namespace, name: user.uuid }, patch),
      ]);
      reserve(user);
      user.groups = groups;
      if (!a || !b) return 'a refresh was lost beside others';
      for (const [session, tokens] of [[one, a], [two, b]] as const) {
        session.former.push({ token: session.token, endsAt: session.expiresAt });
        session.token = tokens.refreshToken;
        session.expiresAt = Math.min(now + REFRESH_MS, session.startedAt + FAMILY_MS);
      }
      return undefined;
    },
    async 'another key'() {
      await replica().identity.keys.rotate(never);
      return undefined;
    },
    async 'a restart'() {
      if (next(6) > 0) return undefined;
      const [started] = await startIdentities(1, { now: clock, namespace, isNew: false });
      replicas[next(2)] = started as IdentityReplica;
      return undefined;
    },
    async 'its end'(user) {
      if (next(8) > 0 || user.isDeleted) return undefined;
      await replica().identity.users.remove(user.uuid, never);
      user.isDeleted = true;
      endAll(user);
      return undefined;
    },
    async time() {
      now += pick([20_000, 61_000, 600_000, 920_000, 3_700_000]);
      return undefined;
    },
  };

  /** What is stored, and what each replica says of tokens. */
  async function check(user: Model): Promise<string[]> {
    const stored = await replica().identity.users.byUuid(user.uuid, never);
    if (user.isDeleted) return stored ? ['a deleted user is there'] : [];
    if (!stored) return ['a user is lost'];
    const { secrets } = stored;
    const said = {
      ...{ ...secrets.attempts, mfa: secrets.mfa?.enabled ?? false, mustChange: stored.mustChangePassword },
      sessions: secrets.sessions.filter(({ expiresAt }) => expiresAt > now).length,
    };
    const { failed, lockedUntil, mustChange } = user;
    const expected = {
      ...{ failed, lockedUntil, mfa: user.mfa?.enabled ?? false, mustChange },
      sessions: user.sessions.filter(live).length,
    };
    return JSON.stringify(said) === JSON.stringify(expected)
      ? []
      : [`stored is ${JSON.stringify(said)} instead of ${JSON.stringify(expected)}`];
  }
  async function checkAccess(user: Model): Promise<void> {
    const valid = user.access.filter(({ endsAt }) => endsAt > now).slice(-3);
    for (const { identity } of replicas)
      for (const { token, groups } of valid) {
        const own = user.groups.filter((one) => groups.includes(one)).map((one) => `skerry:${one}`);
        const wanted = user.isDeleted ? undefined : [...own, 'system:authenticated'].sort();
        const said = async () => (await identity.verifier.verify(token, never))?.user.groups.toSorted();
        await expect.poll(said, { timeout: 5_000, interval: 20 }).toEqual(wanted);
      }
  }

  const counts = new Map<string, number>();
  for (let i = 0; i < OPERATIONS; i++) {
    now += 1_000;
    const [what, user] = [pick([...Object.keys(OPERATE), 'login', 'login', 'refreshes at once']), pick(models)];
    const fault = await (OPERATE[what] as (of: Model) => Promise<string | undefined>)(user);
    const faults = [...(fault ? [fault] : []), ...(await check(user))];
    expect(faults.map((one) => `operation ${i}, ${what} of ${user.email}: ${one}`)).toEqual([]);
    if (i % 5 === 0) for (const one of models) await checkAccess(one);
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
  expect(counts.size).toBeGreaterThan(10);
}, isNightly ? 1_200_000 : 90_000);
