import { createHash } from 'node:crypto';
import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  calculatePKCECodeChallenge,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from 'openid-client';
import { HttpError } from '../http/http-error.ts';
import type { Seals } from '../http/seals.ts';
import type { BrowserLogin, BrowserTarget } from '../identity/contract/external.ts';
import type { Once } from '../identity/contract/once.ts';
import type { TokenPair } from '../identity/contract/tokens.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { untilAborted } from '../lib/until-aborted.ts';
import { type ProviderDiscovery, providerUnavailable } from './discovery.ts';
import { providerProblem } from './fetch.ts';
import { opaqueToken, PROVIDER_SCOPE, type TokenProblem } from './provider.ts';

export interface BrowserLoginOptions {
  discovery: Pick<ProviderDiscovery, 'configuration'>;
  /** URL of the callback, as the provider knows it; requests do not change it. */
  callback: string;
  seals: Seals;
  /** Absent: the provider accepts each code once, and nothing else follows from a state. */
  once?: Once;
  /** ms that a login may take */
  ttlMs: number;
  /** Asks for the password although the provider knows the browser. */
  asksAgain: boolean;
  /** Absent: the tokens of the provider are of no use, only its subject. */
  examine?(accessToken: string, signal: AbortSignal): Promise<TokenProblem | undefined>;
  clock?: Clock;
}

/** What the browser carries from the begin of a login to its end. */
interface Begun {
  to: BrowserTarget;
  state: string;
  nonce: string;
  verifier: string;
}

/** What a code of kubectl carries: the provider's own code, which it accepts once. */
interface Brokered extends Omit<Begun, 'to'> {
  challenge: string;
  query: string;
}

const [BEGUN, BROKERED] = ['browser login', 'brokered login'];
const BROKERED_MS = 60_000;

const expired = () =>
  new HttpError(401, 'UNAUTHENTICATED', 'this login took too long, or another browser began it: begin again');

/** The login in the browser by the code flow: with PKCE, a state, a nonce, and a signed ID token. */
export function createBrowserLogin(
  options: BrowserLoginOptions,
): BrowserLogin & Required<Pick<BrowserLogin, 'redeem'>> {
  const { discovery, callback, seals, once, ttlMs, examine, clock = systemClock } = options;

  async function exchange(
    { state, nonce, verifier }: Omit<Begun, 'to'>,
    query: string,
    signal: AbortSignal,
  ): Promise<{ sub: string; tokens: TokenPair }> {
    const configuration: Configuration = await discovery.configuration(signal);
    try {
      const grant = authorizationCodeGrant(configuration, new URL(`${callback}?${query}`), {
        pkceCodeVerifier: verifier,
        expectedState: state,
        expectedNonce: nonce,
        idTokenExpected: true,
      });
      const found = await untilAborted(grant, signal);
      const { access_token: accessToken, refresh_token: refreshToken } = found;
      return {
        sub: found.claims()?.sub ?? '',
        tokens: { accessToken, ...(refreshToken !== undefined && { refreshToken }) },
      };
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      // A refusal of the provider is about the code; all other errors are its failures.
      if (isRefusal(error)) throw expired();
      throw providerUnavailable(providerProblem(error), error);
    }
  }

  return {
    async begin(to, signal) {
      const configuration = await discovery.configuration(signal);
      const begun: Begun = { to, state: randomState(), nonce: randomNonce(), verifier: randomPKCECodeVerifier() };
      const location = buildAuthorizationUrl(configuration, {
        redirect_uri: callback,
        scope: PROVIDER_SCOPE,
        code_challenge: await calculatePKCECodeChallenge(begun.verifier),
        code_challenge_method: 'S256',
        state: begun.state,
        nonce: begun.nonce,
        // Whoever listens on a port of a shared machine could have begun the login of another user.
        ...((options.asksAgain || 'loopback' in to) && { prompt: 'login' }),
      });
      return { location: location.href, cookie: seals.seal(BEGUN, begun, ttlMs) };
    },

    async finish(query, cookie, signal) {
      const begun = cookie === undefined ? undefined : seals.open<Begun>(BEGUN, cookie);
      if (!begun || query.getAll('state').join() !== begun.state) throw expired();
      if (once && !(await once.take('state', begun.state, clock.wall() + ttlMs, signal))) throw expired();
      const { to } = begun;
      const refused = query.get('error');
      if (refused !== null) return { to, refused: /^[a-z_]{1,64}$/.test(refused) ? refused : 'server_error' };
      if ('loopback' in to && examine) {
        const { to: _, ...rest } = begun;
        const carried: Brokered = { ...rest, challenge: to.challenge, query: query.toString() };
        return { to, brokered: seals.seal(BROKERED, carried, BROKERED_MS) };
      }
      const { sub, tokens } = await exchange(begun, query.toString(), signal);
      if (!examine) return { to, claims: { sub } };
      const problem = await examine(tokens.accessToken, signal);
      return { to, claims: { sub }, tokens, ...(problem && { problem }) };
    },

    async redeem(code, verifier, signal) {
      const brokered = seals.open<Brokered>(BROKERED, code);
      const challenge = createHash('sha256').update(verifier).digest('base64url');
      if (!brokered || brokered.challenge !== challenge) throw expired();
      const { tokens } = await exchange(brokered, brokered.query, signal);
      if ((await examine?.(tokens.accessToken, signal)) === 'OPAQUE_TOKEN') throw opaqueToken();
      return tokens;
    },
  };
}

/** Whether the provider refused the code, or sent an ID token that is not of this login. */
const isRefusal = (error: unknown) =>
  error instanceof Error &&
  (('error' in error && error.error === 'invalid_grant') ||
    ('code' in error && /^OAUTH_(JWT_|INVALID_RESPONSE|JSON_ATTRIBUTE)/.test(String(error.code))));
