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
  /** issued to an agent for a requested version; absent when a person asked for it */
  issuedFor?: typeof FOR_VERSION;
}

const FOR_VERSION = 'version';

export const provisioningKeyData = ({ nodeUuid, expiresAt, publicKey, issuedFor }: ProvisioningKey) =>
  encodeData({ nodeUuid, expiresAt: String(expiresAt), publicKey, issuedFor });

/** Undefined for a Secret that is not a valid key. */
export function readProvisioningKey({ data }: Pick<Secret, 'data'>): ProvisioningKey | undefined {
  const { nodeUuid, expiresAt, publicKey, issuedFor } = decodeData(data);
  if (!nodeUuid || !Number.isFinite(Number(expiresAt))) return undefined;
  return {
    nodeUuid,
    expiresAt: Number(expiresAt),
    ...(publicKey !== undefined && { publicKey }),
    ...(issuedFor === FOR_VERSION && { issuedFor }),
  };
}

/** uuid of the node that a provisioning key is for; empty for any other Secret. */
export function provisioningKeyOf({ metadata }: Secret): readonly string[] {
  const uuid = metadata.labels?.[LABELS.provisioningKey];
  return uuid === undefined ? [] : [uuid];
}

const isUsed = ({ data }: Secret) => data?.publicKey !== undefined;
const isForVersion = ({ data }: Secret) => decodeData({ issuedFor: data?.issuedFor ?? '' }).issuedFor === FOR_VERSION;

/** Whether a key that a person asked for waits for its agent: no key is issued for a version then. */
export const isAwaited = (key: Secret) => !isUsed(key) && !isForVersion(key);

/**
 * Of the provisioning keys of one node, the latest is valid. A used key stays until it expires, so that the
 * same agent can repeat its request. An agent can order keys for its version at any time while one is requested, so these never
 * replace a key that a person asked for, whichever was issued first.
 */
export function isReplacedBy(key: Secret, other: Secret): boolean {
  if (isUsed(key)) return false;
  if (isForVersion(key) && isAwaited(other)) return true;
  if (isAwaited(key) && isForVersion(other)) return false;
  return (compareResourceVersions(key.metadata.resourceVersion, other.metadata.resourceVersion) ?? 0) < 0;
}
