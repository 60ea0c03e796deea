import { LABELS } from '../api/names.ts';
import { CORE_RESOURCES, type Secret } from '../api/resources.ts';
import { decodeData } from '../datastore/keyed-text.ts';
import { isAlreadyExists, isConflict, isNotFound, type KubeClient } from '../kube/mod.ts';
import type { Artefacts } from './contract/once.ts';
import { expiryOf, hashed, LOGIN_CALL, loginSecret, loginSecretName } from './login-secret.ts';

export interface ArtefactsOptions {
  client: KubeClient;
  namespace: string;
  /** Unix ms */
  now: () => number;
  /** Unix ms: what began before is void, since the datastore was restored */
  notBefore: () => number;
  /** interactions under way, as far as this replica knows */
  interactions: () => number;
}

type Payload = Readonly<Record<string, unknown>>;

const KEY = 'payload';
/** etcd has room for more; no artefact of a login comes near it. */
const MOST_BYTES = 12 * 1024;
/** Of writes that another replica always precedes. */
const TRIES = 8;

/**
 * The artefacts of logins as Secrets: each under the hash of its model and id, with the expiry that the leader sweeps by. All reads
 * are live, since what counts once is decided by them.
 */
export function createArtefacts({ client, namespace, now, notBefore, interactions }: ArtefactsOptions): Artefacts {
  const refOf = (model: string, id: string) => ({ namespace, name: loginSecretName('artefact', hashed(model, id)) });

  const artefacts: Artefacts = {
    get interactions() {
      return interactions();
    },

    async read(model, id, signal) {
      const found = await live(model, id, signal);
      return found && { payload: found.payload, version: found.version };
    },

    async write(model, id, payload, ttlSeconds, condition) {
      if (condition === undefined) return upsert(model, id, payload, ttlSeconds);
      const text = JSON.stringify(payload);
      if (Buffer.byteLength(text) > MOST_BYTES) throw new RangeError(`an artefact ${model} is too large to be stored`);
      const secret = loginSecret({
        namespace,
        of: 'artefact',
        hash: hashed(model, id),
        labels: labelsOf(model, payload as Payload),
        expiresAt: now() + ttlSeconds * 1_000,
        data: { [KEY]: text },
        ...(condition !== 'new' && { resourceVersion: condition.version }),
      });
      try {
        if (condition === 'new') await client.create(CORE_RESOURCES.secrets, secret, LOGIN_CALL);
        else await client.replace(CORE_RESOURCES.secrets, secret, LOGIN_CALL);
        return 'written';
      } catch (error) {
        if (isAlreadyExists(error) || isConflict(error) || isNotFound(error)) return 'lost';
        throw error;
      }
    },

    async consume(model, id) {
      for (let tries = 0; tries < TRIES; tries++) {
        const found = await live(model, id);
        if (!found || found.payload.consumed !== undefined) return false;
        const used = { ...found.payload, consumed: Math.floor(now() / 1_000) };
        const ttlSeconds = (found.expiresAt - now()) / 1_000;
        if ((await artefacts.write(model, id, used, ttlSeconds, found)) === 'written') return true;
      }
      return false;
    },

    async remove(model, id) {
      await client.delete(CORE_RESOURCES.secrets, refOf(model, id), LOGIN_CALL);
    },

    ofGrant: (grantId) => removeLabelled(`${LABELS.artefactGrant}=${hashed(grantId)}`),
    ofAccount: (userUuid) => removeLabelled(`${LABELS.artefactUser}=${hashed(userUuid)}`),
  };

  async function live(model: string, id: string, signal?: AbortSignal) {
    const call = { ...LOGIN_CALL, ...(signal && { signal }) };
    const secret = await client.find(CORE_RESOURCES.secrets, refOf(model, id), call);
    const payload = secret && payloadOf(secret);
    const expiresAt = secret ? expiryOf(secret) : 0;
    if (!payload || expiresAt <= now() || isOfBefore(payload, notBefore())) return undefined;
    return { payload, expiresAt, version: secret.metadata.resourceVersion ?? '' };
  }

  async function upsert(model: string, id: string, payload: object, ttlSeconds: number): Promise<'written' | 'lost'> {
    for (let tries = 0; tries < TRIES; tries++) {
      const known = await client.find(CORE_RESOURCES.secrets, refOf(model, id), LOGIN_CALL);
      const version = known?.metadata.resourceVersion;
      const condition = version === undefined ? 'new' : { version };
      if ((await artefacts.write(model, id, payload, ttlSeconds, condition)) === 'written') return 'written';
    }
    return 'lost';
  }

  async function removeLabelled(label: string): Promise<void> {
    const labelSelector = `${LABELS.identity}=artefact,${label}`;
    for await (const { items } of client.listPages(CORE_RESOURCES.secrets, { namespace, labelSelector }))
      await Promise.all(
        items.map(({ metadata: { name } }) => client.delete(CORE_RESOURCES.secrets, { namespace, name }, LOGIN_CALL)),
      );
  }

  return artefacts;
}

/** By these, artefacts of a grant or a user are found without their content. */
function labelsOf(model: string, { grantId, accountId }: Payload): Record<string, string> {
  return {
    [LABELS.artefactModel]: model,
    ...(typeof grantId === 'string' && { [LABELS.artefactGrant]: hashed(grantId) }),
    ...(typeof accountId === 'string' && { [LABELS.artefactUser]: hashed(accountId) }),
  };
}

/** A Secret that someone else has damaged has no payload. */
function payloadOf({ data }: Secret): Payload | undefined {
  try {
    const payload: unknown = JSON.parse(decodeData(data)[KEY] ?? '');
    return typeof payload === 'object' && payload !== null ? (payload as Payload) : undefined;
  } catch {
    return undefined;
  }
}

/** `iat` has whole seconds: what began in the second of the restore counts. */
const isOfBefore = ({ iat }: Payload, notBefore: number) => typeof iat === 'number' && (iat + 1) * 1_000 <= notBefore;
