import { generateKeyPair, type JsonWebKey, randomBytes, randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import { FIELD_MANAGERS, IDENTITY_SECRETS, LABELS } from '../api/names.ts';
import { CORE_RESOURCES, type Secret } from '../api/resources.ts';
import { decodeData, encodeData } from '../datastore/keyed-text.ts';
import { createSeals } from '../http/seals.ts';
import type { KubeClient } from '../kube/client.ts';
import type { MutableStore } from '../kube/store.ts';
import { createOrUpdate } from '../kube/update.ts';
import {
  presentSigningKey,
  rotated,
  type SigningKey,
  signingKeysSchema,
} from '../subjects/identity/rules/signing-keys.ts';
import type { SigningKeys } from './contract/keys.ts';
import { SECRET_TYPE } from './secrets.ts';

/** One live read a second at most, for tokens with a key that is not known. */
const READ_MS = 1_000;

export interface KeysOptions {
  client: KubeClient;
  namespace: string;
  /** follows the key Secret alone */
  store: MutableStore<Secret>;
  /** values of the environment, which win and are written back */
  given: { clientSecret?: string; cookieKeys?: readonly string[]; sessionSecret?: string };
  /** the longest time for which a token is valid */
  longestTokenMs(): number;
  /** Unix ms */
  now(): number;
}

interface Content {
  keys: readonly SigningKey[];
  clientSecret: string;
  cookieKeys: readonly string[];
  sessionSecret: string;
  sessionsNotBefore: number;
}

interface StoredKeys {
  /** Unix ms from which the present key signs; undefined until it is known */
  readonly signsFrom: number | undefined;
  /** Makes the Secret, once for all replicas. */
  ensure(signal: AbortSignal): Promise<void>;
  /**
   * Ends every login that began before now: a snapshot of the datastore may have brought back ended ones. This replica acts by it
   * at once, the others when it is written.
   */
  endSessions(signal: AbortSignal): Promise<void>;
}

/** The keys of the installation, in one Secret that every replica follows. `ensure` makes it once for all of them. */
export function createKeys(options: KeysOptions): SigningKeys & StoredKeys {
  const { client, namespace, store, given, longestTokenMs, now } = options;
  const ref = { namespace, name: IDENTITY_SECRETS.keys };
  const seen = new Map<string, number>();
  const listeners = new Set<() => void>();
  let content: Content | undefined;
  /** Unix ms: the last end of all sessions by this replica, whether it is written or not */
  let endedAt = 0;
  let version: string | undefined;
  let lastRead = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | undefined;

  function take(secret: Secret | undefined): void {
    if (!secret || secret.metadata.resourceVersion === version) return;
    const read = contentOf(secret);
    if (!read) return;
    version = secret.metadata.resourceVersion;
    content = read;
    for (const { kid } of read.keys) if (!seen.has(kid)) seen.set(kid, now());
    for (const listener of listeners) listener();
  }
  store.subscribe(() => take(store.get(namespace, ref.name)));

  async function readLive(): Promise<void> {
    const secret = await client.find(CORE_RESOURCES.secrets, ref, { timeoutMs: 5_000 });
    if (secret) store.observe(secret);
    take(secret);
  }

  /** All waiting callers share one read. */
  function refresh(): Promise<void> {
    if (reading) return reading;
    if (performance.now() - lastRead < READ_MS) return Promise.resolve();
    lastRead = performance.now();
    reading = readLive().finally(() => {
      reading = undefined;
    });
    return reading;
  }

  async function update(change: (present: Content | undefined) => Content | undefined, signal: AbortSignal) {
    const { object } = await createOrUpdate<Secret>(
      client,
      CORE_RESOURCES.secrets,
      ref,
      (present) => {
        const before = present && contentOf(present);
        const next = change(before);
        return next && secretOf(ref, present, next);
      },
      { signal, call: { fieldManager: FIELD_MANAGERS.rest } },
    );
    if (object) store.observe(object);
    take(object);
  }

  const publicKey = (kid: string) => {
    const key = content?.keys.find((one) => one.kid === kid);
    return key && publicJwk(key);
  };

  const signingKey = () => presentSigningKey(content?.keys ?? [], now(), (kid) => seen.get(kid) ?? now());

  return {
    get signsFrom() {
      return signingKey()?.signsFrom;
    },
    get signing() {
      const key = signingKey();
      return key && { kid: key.kid, privateJwk: key.privateJwk as JsonWebKey };
    },
    publicJwks: () => ({ keys: (content?.keys ?? []).map(publicJwk) }),
    async find(kid, signal) {
      const known = publicKey(kid);
      if (known) return known;
      const read = refresh();
      signal.throwIfAborted();
      await read;
      return publicKey(kid);
    },
    async rotate(signal) {
      const next = await newKey();
      const at = now();
      await update(
        (present) => present && { ...present, keys: rotated(present.keys, next, at, longestTokenMs()) },
        signal,
      );
      return { kid: next.kid, rotatedAt: new Date(at).toISOString() };
    },
    get clientSecret() {
      return content?.clientSecret;
    },
    get cookieKeys() {
      return content?.cookieKeys ?? [];
    },
    ...createSeals(() => content?.sessionSecret, now),
    get sessionsNotBefore() {
      return Math.max(endedAt, content?.sessionsNotBefore ?? 0);
    },
    subscribe(listener) {
      const own = () => listener();
      listeners.add(own);
      return { [Symbol.dispose]: () => void listeners.delete(own) };
    },

    endSessions(signal) {
      endedAt = Math.max(endedAt, now());
      return update(
        (present) =>
          present && present.sessionsNotBefore < endedAt ? { ...present, sessionsNotBefore: endedAt } : undefined,
        signal,
      );
    },

    async ensure(signal) {
      const key = await newKey();
      const at = now();
      await update((present) => {
        const next: Content = {
          keys: present?.keys ?? [{ ...key, signsFrom: at }],
          clientSecret: given.clientSecret ?? present?.clientSecret ?? randomBytes(32).toString('base64url'),
          cookieKeys: given.cookieKeys ?? present?.cookieKeys ?? [randomBytes(32).toString('base64url')],
          sessionSecret: given.sessionSecret ?? present?.sessionSecret ?? randomBytes(32).toString('base64url'),
          sessionsNotBefore: present?.sessionsNotBefore ?? 0,
        };
        return present && JSON.stringify(present) === JSON.stringify(next) ? undefined : next;
      }, signal);
    },
  };
}

const generate = promisify(generateKeyPair);

async function newKey(): Promise<Pick<SigningKey, 'kid' | 'privateJwk'>> {
  const { privateKey } = await generate('rsa', { modulusLength: 2048 });
  return { kid: randomUUID(), privateJwk: privateKey.export({ format: 'jwk' }) as SigningKey['privateJwk'] };
}

/** The same object for each use of a key: who verifies with it imports it once. */
const published = new WeakMap<SigningKey, JsonWebKey>();

/** Member by member: what a later form of key has is not published by accident. */
function publicJwk(key: SigningKey): JsonWebKey {
  const known = published.get(key);
  if (known) return known;
  const { kty, n, e } = key.privateJwk as JsonWebKey;
  const jwk = { kty, n, e, kid: key.kid, use: 'sig', alg: 'RS256' };
  published.set(key, jwk);
  return jwk;
}

function contentOf({ data }: Secret): Content | undefined {
  const { jwks = '', clientSecret = '', cookieKeys = '[]', sessionSecret = '', sessionsNotBefore } = decodeData(data);
  try {
    const keys = signingKeysSchema.parse(JSON.parse(jwks));
    const cookies = JSON.parse(cookieKeys) as string[];
    if (keys.length === 0 || !clientSecret || !sessionSecret || cookies.length === 0) return undefined;
    return {
      keys,
      clientSecret,
      cookieKeys: cookies,
      sessionSecret,
      sessionsNotBefore: Number(sessionsNotBefore ?? 0),
    };
  } catch {
    return undefined;
  }
}

function secretOf(ref: { namespace: string; name: string }, present: Secret | undefined, next: Content): Secret {
  const { keys, clientSecret, cookieKeys, sessionSecret, sessionsNotBefore } = next;
  const metadata: Secret['metadata'] = present?.metadata ?? ref;
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: present?.type ?? SECRET_TYPE,
    metadata: { ...metadata, labels: { ...metadata.labels, [LABELS.identity]: 'keys' } },
    data: encodeData({
      jwks: JSON.stringify(keys),
      clientSecret,
      cookieKeys: JSON.stringify(cookieKeys),
      sessionSecret,
      sessionsNotBefore: String(sessionsNotBefore),
    }),
  };
}
