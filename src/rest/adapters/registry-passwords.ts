import { createHash, randomBytes } from 'node:crypto';
import { ANNOTATIONS, FIELD_MANAGERS } from '../../api/names.ts';
import type { Secret } from '../../api/resources.ts';
import { isOwnedBy, isPasswordOf, registryOf } from '../../datastore/keyed-text.ts';
import { HttpError } from '../../http/http-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { ownerReference } from '../../kube/object.ts';
import { createOrUpdate } from '../../kube/update.ts';
import { destinationText } from '../../subjects/catalog/rules/registry-destination.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import type { RegistryPasswords } from '../contract/dependencies.ts';

const fieldManager = FIELD_MANAGERS.rest;
const PASSWORD = 'password';

export interface RegistryPasswordsOptions {
  client: KubeClient;
  namespace: string;
}

const encode = (text: string) => Buffer.from(text).toString('base64');
const decode = (text: string) => Buffer.from(text, 'base64').toString();

/** Passwords in Secrets that their registry owns, one for each destination that a password may be sent to. */
export function createRegistryPasswords({ client, namespace }: RegistryPasswordsOptions): RegistryPasswords {
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
