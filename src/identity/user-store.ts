import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { BOUNDS } from '../api/bounds.ts';
import { ANNOTATIONS, API_VERSION, FIELD_MANAGERS, FINALIZERS, LABELS } from '../api/names.ts';
import { CORE_RESOURCES, type Secret } from '../api/resources.ts';
import type { AuthGroup } from '../api/v3/auth-group.ts';
import type { AuthUser } from '../api/v3/auth-user.ts';
import { HttpError } from '../http/http-error.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Store } from '../kube/store.ts';
import { uuidOf } from '../rules/identity.ts';
import { v3Name } from '../rules/names.ts';
import { leftEmails, nameOfUser } from '../subjects/identity/rules/names-of-user.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import type { StoredUser, UserChange, UserFacts, UserSecrets, UserStore } from './contract/users.ts';
import { createEmailClaims, emailTaken } from './email-claims.ts';
import type { LeftBindings } from './left-bindings.ts';
import { factsOf, NO_SECRETS, readUserSecret, secretNameOfUser, storedUser, userSecret } from './secrets.ts';

/** Attempts of one change; each lost one means that another write of this user succeeded. */
const ATTEMPTS = 8;
const JITTER_MS = 40;
export interface UserStoreOptions {
  client: KubeClient;
  namespace: string;
  users: Store<AuthUser>;
  groups: Store<AuthGroup>;
  /** the Secrets of users, without their content */
  secrets: Store<Secret>;
  left: LeftBindings;
  /** Unix ms */
  now(): number;
  random?(): number;
}

const { authUsers } = RESOURCES;
const fieldManager = FIELD_MANAGERS.rest;

/** What the present object of a user and its Secret say. */
interface Read {
  object: AuthUser;
  secret: Secret | undefined;
}

/**
 * Users over the API server. What counts once is one PUT on condition of what was read; nothing that decides is read from memory.
 *
 * Longer than a hundred lines: every method is about the same two objects and the claim of the e-mail.
 */
export function createUserStore(
  options: UserStoreOptions,
): UserStore & { presentGroup(name: string): string | undefined } {
  const { client, namespace, users, groups, secrets, left: leftBindings, now, random = Math.random } = options;
  const claims = createEmailClaims({ client, namespace, users, left: leftBindings, now });

  /** A group that has the name now comes before one that had it. */
  function presentGroup(name: string): string | undefined {
    const [group] = [...groups.byIndex('name', name), ...groups.byIndex('called', name)];
    return group && v3Name(group);
  }

  /** Present names of the groups of a user; groups that do not exist are left out. */
  const groupsOf = ({ spec }: AuthUser): string[] => [
    ...new Set((spec.groups ?? []).flatMap((name) => presentGroup(name) ?? [])),
  ];

  /** From what each user was read, so that a request that has read a user can write on condition of just that. */
  const reads = new WeakMap<StoredUser, Read>();

  function stored(uuid: string, { object, secret }: Read): StoredUser {
    const user = storedUser(object, uuid, secret, groupsOf(object));
    reads.set(user, { object, secret });
    return user;
  }

  /** `live`: the object of the user, where this request has just read it. */
  async function read(uuid: string, signal: AbortSignal, live?: AuthUser): Promise<Read | undefined> {
    const [known] = users.byIndex('uuid', uuid);
    const name = known?.metadata.name ?? uuid;
    const [object, secret] = await Promise.all([
      live ?? client.find(authUsers, { namespace, name }, { signal }),
      client.find(CORE_RESOURCES.secrets, { namespace, name: secretNameOfUser(uuid) }, { signal }),
    ]);
    if (!object || object.metadata.deletionTimestamp || uuidOf(object) !== uuid) return undefined;
    users.observe(object);
    // The Secret of a former object of this uuid ends with it.
    const isOwn = secret?.metadata.ownerReferences?.some(({ uid }) => uid === object.metadata.uid);
    return { object, secret: isOwn ? secret : undefined };
  }

  const byUuid = async (uuid: string, signal: AbortSignal) => {
    const found = await read(uuid, signal);
    return found && stored(uuid, found);
  };

  /** The user of a claim, or of an object that kubectl made and the leader has not claimed for yet. */
  async function ownerOf(email: string, signal: AbortSignal): Promise<StoredUser | undefined> {
    const { object, isClaimed } = await claims.holder(email, signal);
    const [namesake, other] = object || isClaimed ? [object] : users.byIndex('name', email);
    // Of two objects with one e-mail the claim decides; without a claim, neither logs in.
    if (!namesake || other) return undefined;
    const uuid = uuidOf(namesake);
    const found = await read(uuid, signal, object);
    return found?.object.spec.email === email ? stored(uuid, found) : undefined;
  }

  /** Makes an e-mail belong to a user; 409 when it is another one's. */
  async function claim(email: string, user: { uuid: string; object: string }, signal: AbortSignal): Promise<void> {
    const owner = await ownerOf(email, signal);
    if (owner && owner.uuid !== user.uuid) throw emailTaken(email);
    await claims.claim(email, user, signal);
  }

  /** Writes the Secret on condition of its version; undefined when another writer was faster. */
  async function write(
    uuid: string,
    { object, secret }: Read,
    next: ReturnType<typeof readUserSecret>,
    signal: AbortSignal,
  ) {
    const wanted = userSecret(object, uuid, secret, next);
    try {
      return secret
        ? await client.replace(CORE_RESOURCES.secrets, wanted, { signal, fieldManager })
        : await client.create(CORE_RESOURCES.secrets, wanted, { signal, fieldManager });
    } catch (error) {
      if (isConflict(error) || isAlreadyExists(error)) return undefined;
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  return {
    get synced() {
      return users.synced && groups.synced && secrets.synced;
    },
    presentGroup,
    byEmail: ownerOf,
    byUuid,

    async change<R>(given: string | StoredUser, decide: (user: StoredUser) => UserChange<R>, signal: AbortSignal) {
      const uuid = typeof given === 'string' ? given : given.uuid;
      const known = typeof given === 'string' ? undefined : reads.get(given);
      for (let lost = 0; lost < ATTEMPTS; lost++) {
        if (lost > 0) await pause(random() * JITTER_MS * lost, undefined, { signal });
        const found = (lost === 0 && known) || (await read(uuid, signal));
        if (!found) throw userGone();
        const user = stored(uuid, found);
        const { next, flags, result } = decide(user);
        if (!next && !flags) return { user, result, lost };
        const present = readUserSecret(found.secret);
        const wanted = {
          secrets: withoutUndefined({ ...present.secrets, ...next }),
          flags: { ...present.flags, ...flags },
        };
        const written = await write(uuid, found, wanted, signal);
        if (written) return { user: stored(uuid, { ...found, secret: written }), result, lost };
      }
      throw new HttpError(503, 'SERVICE_UNAVAILABLE', 'too many requests change this user at the same time, try again');
    },

    async create({ email, groups: names, hash, mustChangePassword, isBootstrap = false }, signal) {
      const uuid = randomUUID();
      await claim(email, { uuid, object: uuid }, signal);
      const at = new Date(now()).toISOString();
      let object: AuthUser;
      try {
        object = await client.create(
          authUsers,
          {
            apiVersion: API_VERSION,
            kind: authUsers.kind,
            metadata: {
              name: uuid,
              namespace,
              labels: { [LABELS.uuid]: uuid },
              annotations: { [ANNOTATIONS.updatedAt]: at },
              finalizers: [FINALIZERS.roleBindings],
            },
            spec: { uuid, email, ...(names.length > 0 && { groups: [...names] }) },
          },
          { signal, fieldManager },
        );
      } catch (error) {
        await claims.free(email, uuid, AbortSignal.timeout(5_000)).catch(() => {});
        throw error;
      }
      users.observe(object);
      const content: UserSecrets = { ...NO_SECRETS, password: { hash, history: [], changedAt: now() } };
      const flags = { mustChangePassword, isBootstrap };
      const secret = userSecret(object, uuid, undefined, { secrets: content, flags });
      const written = await client.create(CORE_RESOURCES.secrets, secret, { signal, fieldManager });
      return stored(uuid, { object, secret: written });
    },

    async rename(uuid, email, signal) {
      const known = await read(uuid, signal);
      if (!known) throw userGone();
      await claim(email, { uuid, object: known.object.metadata.name }, signal);
      for (let lost = 0; lost < ATTEMPTS; lost++) {
        const found = lost === 0 ? known : await read(uuid, signal);
        if (!found) throw userGone();
        const { object } = found;
        const before = object.spec.email;
        if (before === email) return;
        const left = [...new Set([...leftEmails(object), before])];
        if (left.length > BOUNDS.formerEmails) throw tooManyEmails();
        const annotations = {
          ...object.metadata.annotations,
          [ANNOTATIONS.updatedAt]: new Date(now()).toISOString(),
          // The leader moves what role bindings give to it, and frees it.
          [ANNOTATIONS.formerEmails]: JSON.stringify(left),
        };
        const next = { ...object, metadata: { ...object.metadata, annotations }, spec: { ...object.spec, email } };
        try {
          users.observe(await client.replace(authUsers, next, { signal, fieldManager }));
          return;
        } catch (error) {
          if (!isConflict(error)) throw error;
        }
      }
      throw new HttpError(503, 'SERVICE_UNAVAILABLE', 'too many requests change this user at the same time, try again');
    },

    async remove(uuid, signal) {
      const found = await read(uuid, signal);
      if (!found) return;
      const { name, uid } = found.object.metadata;
      const options = { signal, ...(uid && { preconditions: { uid } }) };
      const { object: left } = await client.delete(authUsers, { namespace, name }, options);
      if (left) users.observe(left);
    },

    facts(uuid): UserFacts | undefined {
      const [object] = users.byIndex('uuid', uuid);
      if (!object || object.metadata.deletionTimestamp) return undefined;
      const secret = secrets.get(namespace, secretNameOfUser(uuid));
      const facts = secret && factsOf(secret);
      return {
        email: object.spec.email,
        name: nameOfUser(object),
        groups: groupsOf(object),
        mustChangePassword: facts?.mustChange ?? false,
        isBootstrap: facts?.bootstrap ?? false,
        mfaEnabled: facts?.mfa ?? false,
        lockedUntil: facts?.lockedUntil ?? 0,
        passwordAt: facts?.passwordAt ?? 0,
      };
    },
  };
}

const withoutUndefined = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T;

const tooManyEmails = () =>
  new HttpError(409, 'CONFLICT', 'this user had too many e-mails within the last hour, try again later');

const userGone = () => new HttpError(404, 'USER_NOT_FOUND', 'there is no such user');
