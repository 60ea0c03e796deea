import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { ANNOTATIONS, API_VERSION, FIELD_MANAGERS, IDENTITY_SECRETS, LABELS } from '../api/names.ts';
import { CORE_RESOURCES, type Secret } from '../api/resources.ts';
import type { AuthGroup } from '../api/v3/auth-group.ts';
import { decodeData, encodeData } from '../datastore/keyed-text.ts';
import { REVISION_KEY_SECRET } from '../datastore/revision-key.ts';
import { isAlreadyExists, isConflict } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Store } from '../kube/store.ts';
import { retryOnConflict } from '../kube/update.ts';
import type { Log } from '../lib/log.ts';
import { normalEmail } from '../subjects/identity/rules/email.ts';
import { SYSTEM_GROUPS } from '../subjects/identity/rules/groups.ts';
import { passwordProblems } from '../subjects/identity/rules/password.ts';
import type { LoginPolicy } from '../subjects/identity/rules/policy.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import type { Passwords, StoredUser, UserStore } from './contract/users.ts';
import { SECRET_TYPE, sha256 } from './secrets.ts';

export interface BootstrapOptions {
  client: KubeClient;
  namespace: string;
  users: UserStore;
  groups: Store<AuthGroup>;
  passwords: Passwords;
  policy(): LoginPolicy;
  /** of the environment; a generated one when absent */
  given?: { username: string; password: string };
  /** the generated password may be logged, once */
  maySayPassword: boolean;
  log: Log;
}

const RETRY_MS = 5_000;
const GENERATED_NAME = 'admin';
const fieldManager = FIELD_MANAGERS.rest;

/**
 * Makes the groups and the first administrator when logins are on. Every replica runs it: the Secret `skerry-bootstrap-admin` is
 * created by exactly one. It never stops the start: a value that cannot be used is logged, and agents are served.
 */
export async function bootstrap(options: BootstrapOptions, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await ensureGroups(options, signal);
      return await ensureAdmin(options, signal);
    } catch (error) {
      if (signal.aborted) return;
      options.log.warn({ err: error }, 'The first administrator is not made yet; the controller tries again');
      await pause(RETRY_MS, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
    }
  }
}

async function ensureGroups({ client, namespace, groups }: BootstrapOptions, signal: AbortSignal): Promise<void> {
  await groups.whenSynced(signal);
  for (const name of SYSTEM_GROUPS) {
    if (groups.get(namespace, name)) continue;
    const { authGroups } = RESOURCES;
    const object = { apiVersion: API_VERSION, kind: authGroups.kind, metadata: { name, namespace }, spec: {} };
    try {
      groups.observe(await client.create(authGroups, object, { signal, fieldManager }));
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
  }
}

async function ensureAdmin(options: BootstrapOptions, signal: AbortSignal): Promise<void> {
  const { client, namespace, users, passwords, policy, given, maySayPassword, log } = options;
  const ref = { namespace, name: IDENTITY_SECRETS.bootstrap };
  const username = normalEmail(given?.username ?? GENERATED_NAME);
  const problems = given ? passwordProblems(given.password, policy()) : [];
  if (problems.length > 0) {
    log.error({ problems }, 'OIDC_BOOTSTRAP_ADMIN_PASSWORD breaks the policy of passwords: no administrator is made');
    return;
  }
  const present = await client.find(CORE_RESOURCES.secrets, ref, { signal });
  const before = present && decodeData(present.data);
  // Without values in the environment the administrator that exists stays.
  if (before?.uuid && !given) return;
  // An upgrade makes no account that nobody asked for.
  if (!before && !given && !(await isNewInstallation(options, signal))) {
    log.warn({}, 'There is no administrator: OIDC_BOOTSTRAP_ADMIN_USERNAME and OIDC_BOOTSTRAP_ADMIN_PASSWORD make one');
    return;
  }
  const state = given ? sha256(JSON.stringify([username, given.password])) : 'generated';
  if (before?.uuid && before.state === state) return;

  // Whoever has the turn in the Secret makes the user; a turn that was left is taken over.
  const turn = randomUUID();
  const password = given?.password ?? (before?.password || passwords.temporary());
  const write = async (data: Record<string, string | undefined>, from: Secret | undefined) => {
    const metadata = { ...(from?.metadata ?? ref), labels: { [LABELS.identity]: 'bootstrap' } };
    const body: Secret = { apiVersion: 'v1', kind: 'Secret', type: SECRET_TYPE, metadata, data: encodeData(data) };
    return from
      ? client.replace(CORE_RESOURCES.secrets, body, { signal, fieldManager })
      : client.create(CORE_RESOURCES.secrets, body, { signal, fieldManager });
  };
  const generated = given ? {} : { username, password };
  let taken: Secret;
  try {
    taken = await write({ turn, uuid: before?.uuid, ...generated }, present);
  } catch (error) {
    if (isAlreadyExists(error) || isConflict(error)) return settle(options, ref, signal);
    throw error;
  }
  const namesake = await users.byEmail(username, signal);
  if (namesake && !namesake.isBootstrap) {
    log.warn({ username }, 'The name of the first administrator belongs to a user: none is made');
    return;
  }
  if (before?.uuid && before.uuid !== namesake?.uuid) await users.remove(before.uuid, signal);
  const flags = { mustChangePassword: !given, isBootstrap: true };
  const make = async () =>
    users.create(
      { email: username, groups: ['admin'], hash: await passwords.hash(password, signal), ...flags },
      signal,
    );
  const withNewPassword = async ({ uuid }: StoredUser) => {
    const next = { password: { hash: await passwords.hash(password, signal), history: [], changedAt: Date.now() } };
    return (await users.change(uuid, () => ({ next: { ...next, sessions: [] }, flags, result: undefined }), signal))
      .user;
  };
  // Without a uuid, a replica that is slow or has ended made the namesake: its password, and logins with it, stay.
  const user = await (!namesake ? make() : before?.uuid ? withNewPassword(namesake) : namesake);
  await write({ uuid: user.uuid, state, ...generated }, taken);
  log.info({ username }, 'The first administrator is made');
  if (!given)
    log.info(
      { secret: ref.name, ...(maySayPassword && { password }) },
      'Its password is in the Secret, until it is changed',
    );
}

/** Whether a version with logins made this installation. */
async function isNewInstallation({ client, namespace }: BootstrapOptions, signal: AbortSignal): Promise<boolean> {
  const secret = await client.find(CORE_RESOURCES.secrets, { namespace, name: REVISION_KEY_SECRET }, { signal });
  return secret?.metadata.annotations?.[ANNOTATIONS.knowsLogins] === 'true';
}

/** Another replica makes it: waits, and takes over when it stopped on the way. */
async function settle(options: BootstrapOptions, ref: { namespace: string; name: string }, signal: AbortSignal) {
  await pause(RETRY_MS, undefined, { signal });
  const secret = await options.client.find(CORE_RESOURCES.secrets, ref, { signal });
  if (!decodeData(secret?.data).uuid || decodeData(secret?.data).turn) await ensureAdmin(options, signal);
}

/**
 * Removes the generated password of the first administrator, who has another one. Every replica calls it, also at its start: the Secret
 * stays, and says that nobody has to be made.
 */
export async function forgetGeneratedPassword(
  { client, namespace }: Pick<BootstrapOptions, 'client' | 'namespace'>,
  uuid: string,
  signal: AbortSignal,
): Promise<void> {
  const ref = { namespace, name: IDENTITY_SECRETS.bootstrap };
  await retryOnConflict(
    async () => {
      const secret = await client.find(CORE_RESOURCES.secrets, ref, { signal });
      const { password, ...rest } = decodeData(secret?.data);
      if (!secret || password === undefined || rest.uuid !== uuid) return;
      await client.replace(CORE_RESOURCES.secrets, { ...secret, data: encodeData(rest) }, { signal, fieldManager });
    },
    { signal },
  );
}
