import { createHash } from 'node:crypto';
import { ANNOTATIONS, FIELD_MANAGERS, GROUP, LABELS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';

/** How Secrets of logins look: what is stored for minutes, and found by hashed names. */

export const LOGIN_CALL = { fieldManager: FIELD_MANAGERS.rest, timeoutMs: 10_000 } as const;

/** A credential as part of a name or label: 128 bits of its SHA-256. Only the owner of the credential finds the Secret. */
export const hashed = (...parts: readonly string[]): string =>
  createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, 32);

interface LoginSecret {
  namespace: string;
  name: string;
  of: 'artefact' | 'once';
  labels?: Readonly<Record<string, string>>;
  /** Unix ms */
  expiresAt: number;
  data?: Readonly<Record<string, string>>;
  resourceVersion?: string;
}

export function loginSecret({ namespace, name, of, labels, expiresAt, data, resourceVersion }: LoginSecret): Secret {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      namespace,
      name,
      labels: { [LABELS.identity]: of, ...labels },
      annotations: { [ANNOTATIONS.expires]: new Date(expiresAt).toISOString() },
      ...(resourceVersion !== undefined && { resourceVersion }),
    },
    type: `${GROUP}/identity`,
    ...(data && { data: { ...data } }),
  };
}

/** Unix ms from which a Secret of a login is void; a Secret that does not say it is void at once. */
export const expiryOf = ({ metadata }: Pick<Secret, 'metadata'>): number =>
  Date.parse(metadata.annotations?.[ANNOTATIONS.expires] ?? '') || 0;
