import { createHash, randomBytes } from 'node:crypto';
import { ANNOTATIONS, FIELD_MANAGERS, LABELS } from '../../api/names.ts';
import type { Secret } from '../../api/resources.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { HttpError } from '../../http/http-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { ownerReference } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import { createOrUpdate } from '../../kube/update.ts';
import { nodeUuid } from '../../rules/names.ts';
import { isOwnedBy, isPasswordOf, registryOf } from '../../stores/keyed-text.ts';
import {
  isAwaited,
  isReplacedBy,
  type ProvisioningKey,
  provisioningKeyData,
  provisioningKeyName,
} from '../../stores/provisioning-key.ts';
import { destinationText } from '../../subjects/catalog/rules/registry.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import type { ProvisioningKeys, RegistryPasswords } from '../dependencies.ts';

const fieldManager = FIELD_MANAGERS.rest;
const PASSWORD = 'password';

interface SecretsOptions {
  client: KubeClient;
  namespace: string;
}

const encode = (text: string) => Buffer.from(text).toString('base64');
const decode = (text: string) => Buffer.from(text, 'base64').toString();

/** Passwords in Secrets that their registry owns, one for each destination that a password may be sent to. */
export function createRegistryPasswords({ client, namespace }: SecretsOptions): RegistryPasswords {
  const find = (name: string, signal: AbortSignal) => client.find(RESOURCES.secrets, { namespace, name }, { signal });

  return {
    async read(registry, signal) {
      const ref = registry.spec.passwordSecretRef;
      const secret = ref && (await find(ref.name, signal));
      if (!secret || !isPasswordOf(secret, registry)) return undefined;
      const value = secret.data?.[ref.key];
      return value === undefined ? undefined : decode(value);
    },
    async write(registry, password, signal) {
      const destination = destinationText(registry.spec);
      const name = passwordSecretName(registry.metadata.name, destination);
      const ref = { name, key: `${PASSWORD}-${randomBytes(4).toString('hex')}` };
      const current = registry.spec.passwordSecretRef;
      await createOrUpdate<Secret>(
        client,
        RESOURCES.secrets,
        { namespace, name },
        (known) => {
          if (known && !isOwnedBy(known, registry))
            throw new HttpError(
              409,
              'SECRET_ALREADY_EXISTS',
              `the Secret ${name} exists and belongs to something else`,
            );
          const keeps = known && current?.name === name && registryOf(known) === destination;
          const kept = keeps ? known.data?.[current.key] : undefined;
          const metadata = {
            ...(known?.metadata ?? { name, namespace, ownerReferences: [ownerReference(registry)] }),
            annotations: { ...known?.metadata.annotations, [ANNOTATIONS.registry]: destination },
          };
          const data = {
            ...(current && kept !== undefined && { [current.key]: kept }),
            [ref.key]: encode(password),
          };
          return { apiVersion: 'v1', kind: 'Secret', type: 'Opaque', ...known, metadata, data };
        },
        { signal, call: { fieldManager } },
      );
      return ref;
    },
    async remove(registry, signal) {
      const { name } = registry.spec.passwordSecretRef ?? {};
      const known = name === undefined ? undefined : await find(name, signal);
      if (known && isOwnedBy(known, registry))
        await client.delete(RESOURCES.secrets, { namespace, name: known.metadata.name }, { signal });
    },
  };
}

/** Each destination has a Secret of its own, so that no Secret has a password that was set for another destination. */
function passwordSecretName(registry: string, destination: string): string {
  const owner = registry.slice(0, 200).replace(/(?<![^a-z0-9])[^a-z0-9]+$/, '');
  return `${owner}-${PASSWORD}-${createHash('sha256').update(`${registry} ${destination}`).digest('hex').slice(0, 16)}`;
}

/** The provisioning keys that agents get for a requested version. */
export interface VersionKeys {
  /** Issues a key for a requested version, in place of the one before it; false, without a key, while a key that a person asked for waits for its agent. */
  issueForVersion(node: EdgeNode, key: { key: string; expiresAt: number }, signal: AbortSignal): Promise<boolean>;
}

export interface ProvisioningKeysOptions extends SecretsOptions {
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
