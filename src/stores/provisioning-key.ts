import { createHash } from 'node:crypto';
import { LABELS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import { compareResourceVersions } from '../kube/mod.ts';
import { decodeData, encodeData } from './keyed-text.ts';

/** The names and the data of the Secrets of provisioning keys. */

/** Name of the Secret: the SHA-256 of the key, so that a list of names reveals no key. */
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

/** Undefined for a Secret that is not a valid key. */
export function readProvisioningKey({ data }: Pick<Secret, 'data'>): ProvisioningKey | undefined {
  const { nodeUuid, expiresAt, publicKey } = decodeData(data);
  if (!nodeUuid || !Number.isFinite(Number(expiresAt))) return undefined;
  return { nodeUuid, expiresAt: Number(expiresAt), ...(publicKey !== undefined && { publicKey }) };
}

/** uuid of the node that a provisioning key is for; empty for any other Secret. */
export function provisioningKeyOf({ metadata }: Secret): readonly string[] {
  const uuid = metadata.labels?.[LABELS.provisioningKey];
  return uuid === undefined ? [] : [uuid];
}

/**
 * Of the provisioning keys of one node, the latest is valid. A used key stays until it expires, so that the
 * same agent can repeat its request.
 */
export const isReplacedBy = (key: Secret, other: Secret) =>
  key.data?.publicKey === undefined &&
  (compareResourceVersions(key.metadata.resourceVersion, other.metadata.resourceVersion) ?? 0) < 0;
