import { createPublicKey, type KeyObject } from 'node:crypto';
import { LABELS } from '../../api/names.ts';
import type { Secret } from '../../api/resources.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { decodeData, encodeData, isOwnedBy } from '../../datastore/keyed-text.ts';
import { apiVersionOf, ownerReference } from '../../kube/mod.ts';
import { nodeUuid } from '../../rules/identity.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import { type PublicKey, publicKeySchema } from '../../wire/agent.ts';

/**
 * The public key of a provisioned agent: a Secret per node, owned by the EdgeNode and found by the uuid of the node. It is
 * the durable record of a provisioning; the reconciler copies archId, engine and time from it into the status.
 */
export interface NodeKey {
  nodeUuid: string;
  publicKey: PublicKey;
  /** architecture that the agent named, 0 when it named none */
  archId: number;
  containerEngine?: string;
  /** Unix ms */
  provisionedAt: number;
  /** the provisioning key that was used: when it expires and was issued (Unix ms), and whether for a requested version */
  keyExpiresAt: number;
  keyIssuedAt: number;
  keyIssuedFor?: 'version';
}

/** What of a provisioning decides which of two keys gives the identity. */
type Provisioning = Pick<NodeKey, 'provisionedAt' | 'keyExpiresAt' | 'keyIssuedAt' | 'keyIssuedFor'>;

/**
 * Whether a provisioning with `key` may replace the present one, `before`: that of a later key stays when an earlier one is
 * sent again. Keys for a version go to whoever has the key of the node, so one that was issued before a person's key was used
 * gives nothing any more, and a person's key that is used for the first time replaces what any of them gave.
 * The API server dates keys in whole seconds.
 */
export function mayReplace(before: Provisioning, key: Omit<Provisioning, 'provisionedAt'> & { isFirstUse: boolean }) {
  if (key.keyIssuedFor && !before.keyIssuedFor) return key.keyIssuedAt > before.provisionedAt;
  if (before.keyIssuedFor && !key.keyIssuedFor && key.isFirstUse) return true;
  // An identity of a former version does not say when its key was issued.
  if (before.keyIssuedAt > 0 && before.keyIssuedAt !== key.keyIssuedAt) return before.keyIssuedAt < key.keyIssuedAt;
  return before.keyExpiresAt <= key.keyExpiresAt;
}

export const nodeKeyName = (uuid: string) => `node-key-${uuid}`;

/** The value of labels that only mark a type of objects. */
const LABELLED = 'true';

export function nodeKeySecret(node: EdgeNode, key: NodeKey): Secret {
  return {
    apiVersion: apiVersionOf(RESOURCES.secrets),
    kind: RESOURCES.secrets.kind,
    metadata: {
      name: nodeKeyName(nodeUuid(node)),
      namespace: node.metadata.namespace,
      labels: { [LABELS.nodeKey]: LABELLED },
      ownerReferences: [ownerReference(node)],
    },
    type: 'Opaque',
    data: encodeData({
      nodeUuid: key.nodeUuid,
      publicKey: JSON.stringify(key.publicKey),
      archId: String(key.archId),
      containerEngine: key.containerEngine,
      provisionedAt: String(key.provisionedAt),
      keyExpiresAt: String(key.keyExpiresAt),
      keyIssuedAt: String(key.keyIssuedAt),
      keyIssuedFor: key.keyIssuedFor,
    }),
  };
}

/** What was read of Secrets: lists read all, and a changed Secret is another object. */
const nodeKeys = new WeakMap<Secret, { nodeKey: NodeKey | undefined }>();

/** Undefined for a Secret that is no node key, whatever its name. */
export function readNodeKey(secret: Secret): NodeKey | undefined {
  const read = nodeKeys.get(secret) ?? { nodeKey: nodeKeyIn(secret) };
  nodeKeys.set(secret, read);
  return read.nodeKey;
}

function nodeKeyIn(secret: Secret): NodeKey | undefined {
  if (secret.metadata.labels?.[LABELS.nodeKey] === undefined) return undefined;
  const data = decodeData(secret.data);
  const publicKey = parsePublicKey(data.publicKey);
  if (!publicKey || !data.nodeUuid) return undefined;
  return {
    nodeUuid: data.nodeUuid,
    publicKey,
    archId: Number(data.archId) || 0,
    ...(data.containerEngine && { containerEngine: data.containerEngine }),
    provisionedAt: Number(data.provisionedAt) || 0,
    keyExpiresAt: Number(data.keyExpiresAt) || 0,
    keyIssuedAt: Number(data.keyIssuedAt) || 0,
    ...(data.keyIssuedFor === 'version' && { keyIssuedFor: data.keyIssuedFor }),
  };
}

export function parsePublicKey(text: string | undefined): PublicKey | undefined {
  if (!text) return undefined;
  try {
    return publicKeySchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The key for the verification of signatures; undefined when the Secret does not belong to exactly this node or has none. */
export function createKeyReader(): (secret: Secret, node: EdgeNode) => KeyObject | undefined {
  // The cache key is the object, since a changed Secret is another object.
  const known = new WeakMap<Secret, KeyOfNode>();
  return (secret, node) => {
    let entry = known.get(secret);
    if (!entry) {
      entry = keyIn(secret);
      known.set(secret, entry);
    }
    return entry.nodeUuid === nodeUuid(node) && isOwnedBy(secret, node) ? entry.key : undefined;
  };
}

interface KeyOfNode {
  nodeUuid?: string;
  key?: KeyObject;
}

function keyIn(secret: Secret): KeyOfNode {
  const record = readNodeKey(secret);
  if (!record) return {};
  return { nodeUuid: record.nodeUuid, key: createPublicKey({ key: { ...record.publicKey }, format: 'jwk' }) };
}
