import { importJWK, type JWK } from 'jose';
import { type Clock, systemClock } from '../lib/clock.ts';
import { untilAborted } from '../lib/until-aborted.ts';
import { providerUnavailable } from './discovery.ts';
import { ProviderReplyError, providerProblem } from './fetch.ts';

/** Algorithms of signatures, with the type of key that each needs, and its curve. */
const KEY_TYPES: Readonly<Record<string, { kty: string; crv?: string }>> = {
  RS256: { kty: 'RSA' },
  RS384: { kty: 'RSA' },
  RS512: { kty: 'RSA' },
  PS256: { kty: 'RSA' },
  PS384: { kty: 'RSA' },
  PS512: { kty: 'RSA' },
  ES256: { kty: 'EC', crv: 'P-256' },
  ES384: { kty: 'EC', crv: 'P-384' },
  ES512: { kty: 'EC', crv: 'P-521' },
  EdDSA: { kty: 'OKP', crv: 'Ed25519' },
  Ed25519: { kty: 'OKP', crv: 'Ed25519' },
};

/** Accepted algorithms: signatures by a public key only. */
export const PROVIDER_ALGORITHMS = Object.keys(KEY_TYPES);

const MOST_KEYS = 16;
/** The provider is asked for keys at most so often, whatever tokens come. */
const ASK_EVERY_MS = 10_000;
/** Keys of this age are fetched again beside the requests, so that a withdrawn key is forgotten. */
const FRESH_MS = 300_000;

type VerifyingKey = Awaited<ReturnType<typeof importJWK>>;

export interface ProviderKeysOptions {
  /** The text of the provider's key set. */
  load: () => Promise<string>;
  /** Called after the keys have become others. */
  changed?: () => void;
  clock?: Clock;
}

/** The provider's public keys. They stay in use while the provider is away. */
export interface ProviderKeys {
  /**
   * The key of a token's header; undefined when the provider has none. Rejects with 503 when that cannot be said now.
   */
  find(header: { kid?: string | undefined; alg: string }, signal: AbortSignal): Promise<VerifyingKey | undefined>;
  /** Whether the key is in memory. */
  has(header: { kid?: string | undefined; alg: string }): boolean;
  /** The keys were found not to fit a token: fetches them, unless that was done lately. Resolves with whether they have changed. */
  again(signal: AbortSignal): Promise<boolean>;
}

export function createProviderKeys({ load, changed, clock = systemClock }: ProviderKeysOptions): ProviderKeys {
  let keys: readonly JWK[] = [];
  let text = '';
  let askedAt = Number.NEGATIVE_INFINITY;
  let failure: Error | undefined;
  let underWay: Promise<void> | undefined;
  const imported = new WeakMap<JWK, Map<string, Promise<VerifyingKey>>>();

  async function fetchKeys(): Promise<void> {
    try {
      const found = await load();
      const next = keysOf(found);
      failure = undefined;
      if (found === text) return;
      [text, keys] = [found, next];
      changed?.();
    } catch (error) {
      failure = error as Error;
    }
  }

  /** Fetches the keys unless that was done lately; resolves with whether it was done. */
  async function ask(signal: AbortSignal): Promise<boolean> {
    if (!underWay) {
      if (clock.now() - askedAt < ASK_EVERY_MS) return false;
      askedAt = clock.now();
      underWay = fetchKeys().finally(() => {
        underWay = undefined;
      });
    }
    await untilAborted(underWay, signal);
    return true;
  }

  function pick({ kid, alg }: { kid?: string | undefined; alg: string }): JWK | undefined {
    const fits = keys.filter((key) => fitsAlgorithm(key, alg));
    if (kid !== undefined) return fits.find((key) => key.kid === kid);
    return fits.length === 1 ? fits[0] : undefined;
  }

  function usable(key: JWK, alg: string): Promise<VerifyingKey> {
    const known = imported.get(key) ?? new Map<string, Promise<VerifyingKey>>();
    imported.set(key, known);
    const found = known.get(alg) ?? importJWK(key, alg);
    known.set(alg, found);
    return found;
  }

  return {
    has: (header) => pick(header) !== undefined,
    async find(header, signal) {
      const known = pick(header);
      if (known) {
        if (clock.now() - askedAt > FRESH_MS) void ask(AbortSignal.timeout(30_000)).catch(() => {});
        return usable(known, header.alg);
      }
      await ask(signal);
      const found = pick(header);
      if (found) return usable(found, header.alg);
      if (failure) throw providerUnavailable(providerProblem(failure), failure);
      return undefined;
    },
    async again(signal) {
      const before = keys;
      return (await ask(signal)) && keys !== before;
    },
  };
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

function keysOf(text: string): readonly JWK[] {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    throw new ProviderReplyError('its key set is no JSON');
  }
  const list = isObject(found) ? found.keys : undefined;
  if (!Array.isArray(list)) throw new ProviderReplyError('its key set has no keys');
  const isUsable = (key: JWK) =>
    Object.values(KEY_TYPES).some(({ kty }) => kty === key.kty) && (key.use === undefined || key.use === 'sig');
  return list.filter((key): key is JWK => isObject(key) && isUsable(key as JWK)).slice(0, MOST_KEYS);
}

function fitsAlgorithm(key: JWK, alg: string): boolean {
  const type = Object.hasOwn(KEY_TYPES, alg) ? KEY_TYPES[alg] : undefined;
  if (!type || key.kty !== type.kty || (type.crv !== undefined && key.crv !== type.crv)) return false;
  return key.alg === undefined || key.alg === alg || (type.crv === 'Ed25519' && /^Ed(DSA|25519)$/.test(key.alg));
}
