import type { TokenVerifier, VerifiedBearer, Verifiers } from '../../identity/contract/tokens.ts';
import type { Authenticator, UserInfo } from '../contract/access.ts';

export interface DispatchOptions extends Pick<Verifiers, 'byIssuer'> {
  /** of tokens that name no known issuer: TokenReview */
  cluster: Authenticator;
}

const MAX_TOKEN = 16 * 1024;

/**
 * The issuer that a token names decides who verifies it. The cluster is never asked about a token that names an issuer of ours, also when
 * that token was refused: the API server may trust the same issuer, with fewer rules.
 */
export function createDispatch({ byIssuer, cluster }: DispatchOptions): Authenticator {
  return {
    async authenticate(token, signal, guesses) {
      const issuer = issuerOf(token);
      const verifier: TokenVerifier | 'refused' | undefined = issuer === undefined ? undefined : byIssuer(issuer);
      if (verifier === undefined) return cluster.authenticate(token, signal, guesses);
      if (verifier === 'refused') {
        guesses?.unknown();
        guesses?.wrong();
        return undefined;
      }
      const bearer = await verifier.verify(token, signal, guesses);
      return bearer && userOf(bearer);
    },
  };
}

const userOf = ({ user, human, gate, subject }: VerifiedBearer): UserInfo => ({
  ...user,
  human,
  ...(gate && { gate }),
  ...(subject !== undefined && { subject }),
});

/** The issuer in the second part of a token, signed or not; undefined where it is no JWT. */
function issuerOf(token: string): string | undefined {
  const [, payload = ''] = token.split('.', 2);
  if (payload === '' || token.length > MAX_TOKEN) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
    const issuer = typeof claims === 'object' && claims !== null && 'iss' in claims ? claims.iss : undefined;
    return typeof issuer === 'string' ? issuer : undefined;
  } catch {
    return undefined;
  }
}
