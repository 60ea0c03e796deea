import { ANNOTATIONS, FIELD_MANAGERS, IDENTITY_SECRETS, LABELS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import { encodeData } from '../datastore/keyed-text.ts';
import { SECRET_TYPE, sha256 } from './secrets.ts';

/** Secrets of logins: they live for minutes, and have hashed names. */

export const LOGIN_CALL = { fieldManager: FIELD_MANAGERS.rest, timeoutMs: 10_000 } as const;

/** A credential as part of a name or label: 128 bits of its SHA-256. Only the owner of the credential finds the Secret. */
export const hashed = (...parts: readonly string[]): string => sha256(parts.join('\0')).slice(0, 32);

interface LoginSecret {
  namespace: string;
  of: 'artefact' | 'once';
  /** the name behind the prefix of its kind */
  hash: string;
  labels?: Readonly<Record<string, string>>;
  /** Unix ms */
  expiresAt: number;
  data?: Readonly<Record<string, string>>;
  resourceVersion?: string;
}

export const loginSecretName = (of: LoginSecret['of'], hash: string): string => `${IDENTITY_SECRETS[of]}${hash}`;

export function loginSecret({ namespace, of, hash, labels, expiresAt, data, resourceVersion }: LoginSecret): Secret {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      namespace,
      name: loginSecretName(of, hash),
      labels: { [LABELS.identity]: of, ...labels },
      annotations: { [ANNOTATIONS.expires]: new Date(expiresAt).toISOString() },
      ...(resourceVersion !== undefined && { resourceVersion }),
    },
    type: SECRET_TYPE,
    ...(data && { data: encodeData(data) }),
  };
}

/** Unix ms from which a Secret of a login is void; a Secret that does not say it is void at once. */
export const expiryOf = ({ metadata }: Pick<Secret, 'metadata'>): number =>
  Date.parse(metadata.annotations?.[ANNOTATIONS.expires] ?? '') || 0;
