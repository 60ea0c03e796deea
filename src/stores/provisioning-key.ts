import { createHash } from 'node:crypto';
import { LABELS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import { compareResourceVersions } from '../kube/mod.ts';
import { decodeData, encodeData } from './keyed-text.ts';

/** Provisioning keys as their Secrets hold them: one place for their names and their data. */

/** Name of the Secret: the SHA-256 of the key, so that a list of names tells no key. */
export const provisioningKeyName = (key: string) =>
  `provisioning-key-${createHash('sha256').update(key).digest('hex')}`;

export interface ProvisioningKey {
  nodeUuid: string;
  /** Unix ms */
  expiresAt: number;
  /** JSON of the public key of the agent that used it */
  publicKey?: string;
}

export const provisioningKeyData = ({ nodeUuid, expiresAt, publicKey }: ProvisioningKey) =>
  encodeData({ nodeUuid, expiresAt: String(expiresAt), publicKey });

/** Undefined for what is no readable key. */
export function readProvisioningKey({ data }: Pick<Secret, 'data'>): ProvisioningKey | undefined {
  const { nodeUuid, expiresAt, publicKey } = decodeData(data);
  if (!nodeUuid || !Number.isFinite(Number(expiresAt))) return undefined;
  return { nodeUuid, expiresAt: Number(expiresAt), ...(publicKey !== undefined && { publicKey }) };
}

/** uuid of the node that a provisioning key is for; nothing for any other Secret. */
export function provisioningKeyOf({ metadata }: Secret): readonly string[] {
  const uuid = metadata.labels?.[LABELS.provisioningKey];
  return uuid === undefined ? [] : [uuid];
}

/**
 * Of the provisioning keys of one node the latest works. One that an agent used stays until it expires: it answers the
 * same agent again.
 */
export const isReplacedBy = (key: Secret, other: Secret) =>
  key.data?.publicKey === undefined &&
  (compareResourceVersions(key.metadata.resourceVersion, other.metadata.resourceVersion) ?? 0) < 0;
