import { createHash } from 'node:crypto';
import { errors, jwtVerify } from 'jose';
import type { TokenVerifier, VerifiedBearer } from '../identity/contract/tokens.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { isAccessToken, type ProviderClaims, personOf, providerHeader } from './claims.ts';
import { CLOCK_TOLERANCE } from './discovery.ts';
import { PROVIDER_ALGORITHMS, type ProviderKeys } from './provider-keys.ts';

export interface ExternalVerifierOptions {
  /** The issuer as the provider writes it. Rejects with 503 while the provider has not answered. */
  issuer: (signal: AbortSignal) => Promise<string>;
  clientId: string;
  /** of names and groups; may be empty */
  prefix: string;
  keys: ProviderKeys;
  clock?: Clock;
  capacity?: number;
}

const MAX_TOKEN = 16 * 1024;

/** Verifies access tokens of the provider. Accepted ones are remembered by their hash until they expire. */
export function createExternalVerifier(options: ExternalVerifierOptions): TokenVerifier & {
  /** The claims of a token that is signed by the provider for us, whatever it is for; undefined for all others. */
  claimsOf(token: string, signal: AbortSignal): Promise<ProviderClaims | undefined>;
  /** Forgets accepted tokens: the keys have changed. */
  forget(): void;
} {
  const { issuer, clientId, prefix, keys, clock = systemClock, capacity = 20_000 } = options;
  const accepted = new Map<string, VerifiedBearer>();

  const isOver = ({ expiresAt = 0 }: VerifiedBearer) => expiresAt + CLOCK_TOLERANCE * 1000 <= clock.wall();

  function keep(hash: string, bearer: VerifiedBearer): void {
    if (accepted.size >= capacity) for (const oldest of accepted.keys()) if (accepted.delete(oldest)) break;
    accepted.set(hash, bearer);
  }

  async function claimsOf(token: string, signal: AbortSignal): Promise<ProviderClaims | undefined> {
    const header = token.length <= MAX_TOKEN ? providerHeader(token) : undefined;
    if (!header || !PROVIDER_ALGORITHMS.includes(header.alg)) return undefined;
    const expected = await issuer(signal);
    for (let attempt = 1; ; attempt += 1) {
      const key = await keys.find(header, signal);
      if (!key) return undefined;
      try {
        const { payload } = await jwtVerify(token, key, {
          issuer: expected,
          audience: clientId,
          algorithms: PROVIDER_ALGORITHMS,
          clockTolerance: CLOCK_TOLERANCE,
          requiredClaims: ['exp', 'sub'],
          currentDate: new Date(clock.wall()),
        });
        const { iat } = payload;
        return iat !== undefined && iat * 1000 > clock.wall() + CLOCK_TOLERANCE * 1000 ? undefined : payload;
      } catch (error) {
        // The provider may have another key of the same id.
        const isForged = error instanceof errors.JWSSignatureVerificationFailed;
        if (isForged && attempt === 1 && (await keys.again(signal))) continue;
        return undefined;
      }
    }
  }

  return {
    claimsOf,
    forget: () => accepted.clear(),
    async verify(token, signal, guesses) {
      const hash = createHash('sha256').update(token).digest('base64');
      const known = accepted.get(hash);
      if (known && !isOver(known)) return known;
      accepted.delete(hash);
      const header = token.length <= MAX_TOKEN ? providerHeader(token) : undefined;
      // A key in memory decides at once; what the provider is asked for counts as a guess before.
      if (header && !keys.has(header)) guesses?.unknown();
      const claims = await claimsOf(token, signal);
      const bearer = claims && isAccessToken(claims) ? personOf(claims, { clientId, prefix }) : undefined;
      if (bearer) keep(hash, bearer);
      else {
        guesses?.unknown();
        guesses?.wrong();
      }
      return bearer;
    },
  };
}
