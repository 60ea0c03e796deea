import { BOUNDS } from '../../../api/bounds.ts';
import { ANNOTATIONS, FIELD_MANAGERS, FINALIZERS } from '../../../api/names.ts';
import type { AuthUser } from '../../../api/v3/auth-user.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { holderIn } from '../../../datastore/holder.ts';
import { HttpError } from '../../../http/http-error.ts';
import { createEmailClaims } from '../../../identity/email-claims.ts';
import { createLeftBindings } from '../../../identity/left-bindings.ts';
import { type Controller, keyOf, refOf, type Watch, watching } from '../../../kube/mod.ts';
import { type Finding, type Progress, stalled } from '../../../rules/conditions.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { namesShown } from '../../../rules/kind-status.ts';
import { authUserKind } from '../kinds/auth-user.ts';
import { mayLogIn } from '../rules/may-log-in.ts';
import { formerEmailsOf, leftEmails, namesOfUser } from '../rules/names-of-user.ts';
import { createNamedBindings } from './named-bindings.ts';

/** Changes of MayLogIn of one user within so many minutes: logins and failures of strangers cause no more writes. */
const CHANGES = 4;
const PACE_MS = CHANGES * 60_000;
/** What a cluster admin has to mend is looked at again after this time. */
const RETRY_MS = 60_000;

/** What the last run found of the names of a user. */
interface Settled {
  /** the name that counts */
  name: string | undefined;
  former: { email: string; until: string }[];
  obstacle?: Progress;
}

/**
 * Users: besides what every kind has, role bindings that name them. A new e-mail counts once every binding has it beside the former one,
 * which tokens may say for an hour. A former e-mail, and the e-mail of a deleted user, belongs to nobody else until no binding names it.
 * Each step leaves what the next leader needs: the claim of an e-mail comes before a binding has it, and ends after it.
 */
export function createAuthUserController(deps: ControllerDependencies): Controller {
  const { client, namespace, stores, clock, people } = deps;
  const claims = createEmailClaims({
    ...{ client, namespace, users: stores.authUsers, now: clock, fieldManager: FIELD_MANAGERS.controller },
    // Without logins nothing says what role bindings call a user: who has the e-mail next has to look.
    left: people ? createLeftBindings({ client, prefix: people.prefix }) : { naming: async () => undefined },
  });
  const bindings = people && createNamedBindings({ client, namespace, prefix: people.prefix });
  const settled = new Map<string, Settled>();
  const changedAt = new Map<string, number[]>();
  /** E-mails of users that are being deleted. */
  const owned = new Map<string, readonly string[]>();

  /** Of these names those that a claim gives to the user. Whoever writes the object says the others, and nothing follows from them. */
  async function ownNames(user: AuthUser, emails: readonly string[], signal: AbortSignal): Promise<string[]> {
    const own: string[] = [];
    for (const email of emails) {
      const { object } = await claims.holder(email, signal);
      if (object?.metadata.uid === user.metadata.uid) own.push(email);
    }
    return own;
  }

  function isRival(user: AuthUser): boolean {
    const { email } = user.spec;
    const holder = holderIn(authUserKind, stores.authUsers.byIndex('name', email), 'name', email);
    return holder !== undefined && holder.metadata.uid !== user.metadata.uid;
  }

  async function settle(user: AuthUser, signal: AbortSignal): Promise<AuthUser | undefined> {
    const { status, spec } = user;
    const now = clock();
    const stays = (obstacle?: Progress) =>
      void settled.set(keyOf(user), {
        name: status?.name,
        former: status?.formerEmails ?? [],
        ...(obstacle && { obstacle }),
      });
    if (!bindings || isRival(user)) return stays();
    let present = user;
    if (status?.name !== spec.email || formerEmailsOf(user, now).length > (status.formerEmails?.length ?? 0)) {
      const begun = await begin(user, signal);
      if ('is' in begun) return stays(begun);
      present = begun;
    }
    const former = formerEmailsOf(present, now);
    const ended = former.filter(({ until }) => Date.parse(until) <= now).map(({ email }) => email);
    const own = await ownNames(present, ended, signal);
    const refused = own.length > 0 ? await bindings.remove(own, signal) : [];
    if (refused.length > 0) return stays(bindingRefused(refused));
    for (const email of own) await claims.leave(email, uuidOf(present), signal);
    // Its own e-mail stays noted until the status says that it counts.
    const isOver = (email: string) => ended.includes(email) || (email === spec.email && email === status?.name);
    present = await note(present, (left) => left.filter((email) => !isOver(email)), signal);
    settled.set(keyOf(user), { name: spec.email, former: former.filter(({ email }) => !ended.includes(email)) });
    return present === user ? undefined : present;
  }

  /** Gives the user its new e-mail wherever a binding has a former one. */
  async function begin(user: AuthUser, signal: AbortSignal): Promise<AuthUser | Progress> {
    const { email } = user.spec;
    if (formerEmailsOf(user, clock()).length > BOUNDS.formerEmails)
      return stalled({ reason: 'EmailTaken', message: 'the user had too many e-mails within the last hour' });
    try {
      await claims.claim(email, { uuid: uuidOf(user), object: user.metadata.name }, signal);
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      return stalled({ reason: 'EmailTaken', message: error.message });
    }
    const others = namesOfUser(user).filter((one) => one !== email);
    if (others.length === 0) return user;
    const former = await ownNames(user, others, signal);
    // Whoever continues this work after another change knows by it that bindings may have the e-mail.
    const noted = await note(user, (left) => (left.includes(email) ? left : [...left, email]), signal);
    const refused = (await bindings?.add(email, former, signal)) ?? [];
    return refused.length > 0 ? bindingRefused(refused) : noted;
  }

  /** Changes the list of e-mails that the user has left, on condition of its version. */
  async function note(user: AuthUser, change: (left: string[]) => string[], signal: AbortSignal): Promise<AuthUser> {
    const before = leftEmails(user);
    const left = change(before);
    if (left.join(' ') === before.join(' ')) return user;
    const { resourceVersion } = user.metadata;
    const annotations = { [ANNOTATIONS.formerEmails]: left.length > 0 ? JSON.stringify(left) : null };
    const body = { metadata: { resourceVersion, annotations } };
    const options = { signal, fieldManager: FIELD_MANAGERS.controller };
    return client.patch(authUserKind.resource, refOf(user), { type: 'merge', body }, options);
  }

  async function release(user: AuthUser, signal: AbortSignal): Promise<void> {
    const own = await ownNames(user, namesOfUser(user), signal);
    owned.set(keyOf(user), own);
    const refused = await bindings?.remove(own, signal);
    if (!refused?.length) return;
    const { message = '' } = bindingRefused(refused);
    deps.events.record(user, { type: 'Warning', reason: 'RoleBindingRefused', action: 'Delete', note: message });
    throw new Error(message);
  }

  async function ended(user: AuthUser, signal: AbortSignal): Promise<void> {
    const key = keyOf(user);
    const own = owned.get(key) ?? [];
    for (const memory of [settled, changedAt, owned]) memory.delete(key);
    for (const email of own) await claims.leave(email, uuidOf(user), signal);
  }

  function groupObstacle({ spec: { groups = [] } }: AuthUser): Progress | undefined {
    const missing = groups.filter((name) => stores.authGroups.byIndex('called', name).length === 0);
    const message = `there are no groups of these names: ${namesShown(missing)}`;
    return missing.length > 0 ? stalled({ reason: 'GroupNotFound', message }) : undefined;
  }

  /** When an account is no longer locked; Unix ms */
  const lockedUntil = (user: AuthUser) => people?.logins?.facts(uuidOf(user))?.lockedUntil ?? 0;

  function loginFinding(user: AuthUser): Finding | undefined {
    const facts = people?.logins?.facts(uuidOf(user));
    if (!facts) return undefined;
    const now = clock();
    const finding = mayLogIn({
      duties: facts.duties,
      hasPassword: facts.passwordAt > 0,
      isLocked: facts.lockedUntil > now,
    });
    const before = user.status?.conditions?.find(({ type }) => type === 'MayLogIn');
    if (!before || before.reason === finding.reason) return finding;
    const key = keyOf(user);
    const changes = (changedAt.get(key) ?? []).filter((at) => at + PACE_MS > now);
    if (changes.length >= CHANGES) return before as Finding;
    changedAt.set(key, [...changes, now]);
    return finding;
  }

  /** Facts of a user, of which the store of users has nothing. */
  const watchFacts: Watch = {
    whenSynced: async (signal) => people?.logins?.whenSynced(signal),
    start: (enqueue) =>
      people?.logins?.subscribe((uuid) => {
        for (const user of stores.authUsers.byIndex('uuid', uuid)) enqueue(keyOf(user), false);
      }) ?? { [Symbol.dispose]: () => {} },
  };

  return createKindController(deps, authUserKind, {
    finalizer: FINALIZERS.roleBindings,
    prepare: settle,
    release,
    ended,
    obstacle: (user) => settled.get(keyOf(user))?.obstacle ?? groupObstacle(user),
    conditions(user) {
      const finding = loginFinding(user);
      return finding ? { MayLogIn: finding } : {};
    },
    status(user) {
      const { name, former = [] } = settled.get(keyOf(user)) ?? {};
      // Without a name that counts, it removes what every such kind records.
      return { name, ...(former.length > 0 && { formerEmails: former }) } as Partial<NonNullable<AuthUser['status']>>;
    },
    next(user, began) {
      const key = keyOf(user);
      const { former = [], obstacle } = settled.get(key) ?? {};
      const now = clock();
      const times = [
        ...former.map(({ until }) => Math.max(Date.parse(until), obstacle ? now + RETRY_MS : 0)),
        ...(obstacle ? [now + RETRY_MS] : []),
        lockedUntil(user),
        (changedAt.get(key)?.[0] ?? 0) + PACE_MS,
      ].filter((time) => time > began);
      return times.length > 0 ? Math.min(...times) : undefined;
    },
    watches: [
      watchFacts,
      watching(stores.authGroups, ({ object, previous, initial }) =>
        initial ? [] : membersOf([object, previous].flatMap((group) => (group ? [group] : []))),
      ),
    ],
  });

  function membersOf(groups: readonly { metadata: { name: string }; spec: { name?: string; aliases?: string[] } }[]) {
    const names = groups.flatMap(({ metadata, spec }) => [spec.name ?? metadata.name, ...(spec.aliases ?? [])]);
    return [...new Set(names)].flatMap((name) => stores.authUsers.byIndex('group', name).map(keyOf));
  }
}

const bindingRefused = (names: readonly string[]): Progress =>
  stalled({
    reason: 'RoleBindingRefused',
    message: `the controller may not change role bindings that name the user: a cluster admin removes it from ${namesShown(names)}`,
  });
