import { FIELD_MANAGERS, LABELS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import type { EdgeNode } from '../api/v3/index.ts';
import type { KubeClient } from '../kube/client.ts';
import { ownerReference } from '../kube/object.ts';
import type { Store } from '../kube/store.ts';
import { nodeUuid } from '../rules/identity.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import {
  isAwaited,
  isReplacedBy,
  type ProvisioningKey,
  provisioningKeyData,
  provisioningKeyName,
} from './provisioning-key.ts';

const fieldManager = FIELD_MANAGERS.rest;

/** The provisioning keys that a person asks for. */
export interface ProvisioningKeys {
  /** Stores a key with which this node can be provisioned until `expiresAt`; the former key becomes invalid. */
  issue(node: EdgeNode, key: { key: string; expiresAt: number }, signal: AbortSignal): Promise<void>;
}

/** The provisioning keys that agents get for a requested version. */
export interface VersionKeys {
  /** Issues a key for a requested version, in place of the one before it; false, without a key, while a key that a person asked for waits for its agent. */
  issueForVersion(node: EdgeNode, key: { key: string; expiresAt: number }, signal: AbortSignal): Promise<boolean>;
}

export interface ProvisioningKeysOptions {
  client: KubeClient;
  namespace: string;
  secrets: Store<Secret>;
}

/** Keys in Secrets that their node owns, labelled with the node's uuid; `data`: nodeUuid and expiresAt (Unix ms). */
export function createProvisioningKeys({
  client,
  namespace,
  secrets,
}: ProvisioningKeysOptions): ProvisioningKeys & VersionKeys {
  async function keysOf(node: EdgeNode, signal: AbortSignal): Promise<readonly Secret[]> {
    const labelSelector = `${LABELS.provisioningKey}=${nodeUuid(node)}`;
    return (await client.list(RESOURCES.secrets, { namespace, labelSelector, signal })).items;
  }

  /** Creates the Secret of a key, and deletes the keys that are replaced, of those that are known once it exists. */
  async function create(
    node: EdgeNode,
    key: string,
    data: Omit<ProvisioningKey, 'nodeUuid'>,
    { known, signal }: { known: () => readonly Secret[]; signal: AbortSignal },
  ): Promise<void> {
    const uuid = nodeUuid(node);
    const issued = await client.create(
      RESOURCES.secrets,
      {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: {
          name: provisioningKeyName(key),
          namespace,
          labels: { [LABELS.provisioningKey]: uuid },
          ownerReferences: [ownerReference(node)],
        },
        type: 'Opaque',
        data: provisioningKeyData({ ...data, nodeUuid: uuid }),
      },
      { fieldManager, signal },
    );
    // Including the one issued here, when a later one was faster. The reconciler removes keys that are not known here
    // yet because another replica has just issued them.
    const keys = [...known(), issued];
    const replaced = keys.filter((key) => keys.some((other) => isReplacedBy(key, other)));
    await Promise.all(
      replaced.map(({ metadata: { name, uid } }) =>
        client.delete(RESOURCES.secrets, { namespace, name }, { ...(uid && { preconditions: { uid } }), signal }),
      ),
    );
  }

  return {
    issue: (node, { key, expiresAt }, signal) =>
      create(node, key, { expiresAt }, { known: () => secrets.byIndex('provisioningKeyOf', nodeUuid(node)), signal }),
    async issueForVersion(node, { key, expiresAt }, signal) {
      const known = await keysOf(node, signal);
      if (known.some(isAwaited)) return false;
      await create(node, key, { expiresAt, issuedFor: 'version' }, { known: () => known, signal });
      return true;
    },
  };
}
