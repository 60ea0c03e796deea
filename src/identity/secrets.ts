import { hash } from 'node:crypto';
import { ANNOTATIONS, IDENTITY_SECRETS, LABELS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import type { AuthUser } from '../api/v3/auth-user.ts';
import { decodeData, encodeData } from '../datastore/keyed-text.ts';
import { ownerReference } from '../kube/object.ts';
import { nameOfUser } from '../subjects/identity/rules/names-of-user.ts';
import type { StoredUser, UserFlags, UserSecrets } from './contract/users.ts';

/** The names and the content of the Secrets of users. Nothing else reads or writes them. */

export const SECRET_TYPE = 'skerry.dev/identity';

export const sha256 = (text: string): string => hash('sha256', text, 'hex');

export const secretNameOfUser = (uuid: string) => `${IDENTITY_SECRETS.user}${uuid}`;
/** The name says no e-mail address to who may list Secrets. */
export const emailSecretName = (email: string) => `${IDENTITY_SECRETS.email}${sha256(email).slice(0, 32)}`;

/** What replicas know of a user without the content of its Secret: an annotation, which is written with the content. */
export interface SecretFacts {
  mustChange: boolean;
  mfa: boolean;
  bootstrap: boolean;
  lockedUntil: number;
  passwordAt: number;
  /** logins, those included that have expired */
  sessions?: number;
}

export const NO_SECRETS: UserSecrets = { attempts: { failed: 0, lockedUntil: 0 }, devices: [], sessions: [] };
const NO_FLAGS: UserFlags = { mustChangePassword: false, isBootstrap: false };

/** The content of the Secret of a user; a Secret that somebody has spoiled counts as one without a password. */
export function readUserSecret(secret: Secret | undefined): { secrets: UserSecrets; flags: UserFlags } {
  const texts = decodeData(secret?.data);
  const read = <T>(key: string): T | undefined => {
    const text = texts[key];
    if (text === undefined) return undefined;
    try {
      return JSON.parse(text) as T;
    } catch {
      return undefined;
    }
  };
  const { password, mfa, reset } = {
    password: read<UserSecrets['password']>('password'),
    mfa: read<UserSecrets['mfa']>('mfa'),
    reset: read<UserSecrets['reset']>('reset'),
  };
  return {
    secrets: {
      ...(password && { password }),
      ...(mfa && { mfa }),
      ...(reset && { reset }),
      attempts: read<UserSecrets['attempts']>('attempts') ?? NO_SECRETS.attempts,
      devices: read<UserSecrets['devices']>('devices') ?? [],
      sessions: read<UserSecrets['sessions']>('sessions') ?? [],
    },
    flags: read<UserFlags>('flags') ?? NO_FLAGS,
  };
}

/** The Secret of a user, with the metadata of the present one. */
export function userSecret(
  user: AuthUser,
  uuid: string,
  present: Secret | undefined,
  { secrets, flags }: { secrets: UserSecrets; flags: UserFlags },
): Secret {
  const facts: SecretFacts = {
    mustChange: flags.mustChangePassword,
    mfa: secrets.mfa?.enabled ?? false,
    bootstrap: flags.isBootstrap,
    lockedUntil: secrets.attempts.lockedUntil,
    passwordAt: secrets.password?.changedAt ?? 0,
    sessions: secrets.sessions.length,
  };
  const json = (value: unknown) => (value === undefined ? undefined : JSON.stringify(value));
  const { password, mfa, attempts, devices, reset, sessions } = secrets;
  const texts = { password, mfa, attempts, devices, reset, sessions, flags };
  const { managedFields: _, ...metadata } = present?.metadata ?? {
    name: secretNameOfUser(uuid),
    namespace: user.metadata.namespace,
  };
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: present?.type ?? SECRET_TYPE,
    metadata: {
      ...metadata,
      labels: { ...metadata.labels, [LABELS.identity]: 'user', [LABELS.uuid]: uuid },
      annotations: { ...metadata.annotations, [ANNOTATIONS.identityFacts]: JSON.stringify(facts) },
      ownerReferences: [ownerReference(user, { controller: false })],
    },
    data: encodeData(Object.fromEntries(Object.entries(texts).map(([key, value]) => [key, json(value)]))),
  };
}

export function factsOf({ metadata }: Pick<Secret, 'metadata'>): SecretFacts | undefined {
  const text = metadata.annotations?.[ANNOTATIONS.identityFacts];
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as SecretFacts;
  } catch {
    return undefined;
  }
}

/** The user as its object and its Secret say. `groups`: their present names. */
export function storedUser(
  user: AuthUser,
  uuid: string,
  secret: Secret | undefined,
  groups: readonly string[],
): StoredUser {
  const { secrets, flags } = readUserSecret(secret);
  const createdAt = user.metadata.creationTimestamp ?? '';
  return {
    uuid,
    email: user.spec.email,
    name: nameOfUser(user),
    groups,
    isBootstrap: flags.isBootstrap,
    mustChangePassword: flags.mustChangePassword,
    mfaEnabled: secrets.mfa?.enabled ?? false,
    createdAt,
    updatedAt: user.metadata.annotations?.[ANNOTATIONS.updatedAt] ?? createdAt,
    version: secret?.metadata.resourceVersion ?? '',
    secrets,
  };
}
