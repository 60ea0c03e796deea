import { randomBytes } from 'node:crypto';
import { ANNOTATIONS, FIELD_MANAGERS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import { isAlreadyExists, isForbidden, isTransient, isUnauthorized, type KubeClient } from '../kube/mod.ts';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { RESOURCES } from '../subjects/kinds.ts';

export const REVISION_KEY_SECRET = 'skerry-revision-key';
const KEY = 'key';

/** For about a minute: roles that were applied together with the Deployment take effect a moment later. */
const ATTEMPTS = 12;
const BACKOFF: Backoff = { baseMs: 500, factor: 2, maxMs: 10_000, jitter: 0.5 };

interface Source {
  client: Pick<KubeClient, 'find' | 'get' | 'create'>;
  namespace: string;
  log: Log;
  clock?: Clock;
}

/**
 * The random key of this installation for revisions. With it, a changed Secret changes the revision of the
 * microservices that use it, and no status reveals its content. The first replica creates the key,
 * and it is never replaced: another key would restart every microservice that uses a Secret. An API server that is away, or that
 * does not know the roles yet, is asked again; every other error, and the last, is thrown.
 */
export async function readRevisionKey(source: Source, signal: AbortSignal): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await readOnce(source, signal);
    } catch (error) {
      const mayPass = isTransient(error) || isForbidden(error) || isUnauthorized(error);
      if (signal.aborted || !mayPass || attempt === ATTEMPTS) throw error;
      source.log.warn({ reason: (error as Error).message }, 'The revision key cannot be read yet');
    }
    await sleep(backoffDelay(BACKOFF, attempt, Math.random), signal, source.clock ?? systemClock);
  }
}

async function readOnce({ client, namespace }: Source, signal: AbortSignal): Promise<string> {
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

async function create(client: Source['client'], namespace: string, signal: AbortSignal): Promise<Secret | undefined> {
  const secret: Secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: REVISION_KEY_SECRET, namespace, annotations: { [ANNOTATIONS.knowsLogins]: 'true' } },
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
