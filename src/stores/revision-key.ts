import { randomBytes } from 'node:crypto';
import { FIELD_MANAGERS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import { RESOURCES } from '../kinds/index.ts';
import { isAlreadyExists, type KubeClient } from '../kube/mod.ts';

export const REVISION_KEY_SECRET = 'skerry-revision-key';
const KEY = 'key';

/**
 * The random key of this installation for revisions. With it, a changed Secret changes the revision of the
 * microservices that use it, and no status reveals its content. The first replica creates the key,
 * and it is never replaced: another key would restart every microservice that uses a Secret.
 */
export async function readRevisionKey(
  { client, namespace }: { client: KubeClient; namespace: string },
  signal: AbortSignal,
): Promise<string> {
  const ref = { namespace, name: REVISION_KEY_SECRET };
  const known =
    (await client.find<Secret>(RESOURCES.secrets, ref, { signal })) ?? (await create(client, namespace, signal));
  const secret = known ?? (await client.get<Secret>(RESOURCES.secrets, ref, { signal }));
  const key = secret.data?.[KEY];
  if (!key)
    throw new Error(
      `the Secret ${namespace}/${REVISION_KEY_SECRET} has no "${KEY}"; restore it from a backup, or delete it to have a new one made`,
    );
  return key;
}

async function create(client: KubeClient, namespace: string, signal: AbortSignal): Promise<Secret | undefined> {
  const secret: Secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: REVISION_KEY_SECRET, namespace },
    immutable: true,
    type: 'Opaque',
    data: { [KEY]: randomBytes(32).toString('base64') },
  };
  return client
    .create(RESOURCES.secrets, secret, { signal, fieldManager: FIELD_MANAGERS.controller })
    .catch((error: unknown) => {
      if (isAlreadyExists(error)) return undefined;
      throw error;
    });
}
