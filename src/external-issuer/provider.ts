import {
  ClientError,
  type Configuration,
  fetchUserInfo,
  genericGrantRequest,
  ResponseBodyError,
  refreshTokenGrant,
  tokenRevocation,
  WWWAuthenticateChallengeError,
} from 'openid-client';
import { HttpError } from '../http/http-error.ts';
import type { ExternalProvider } from '../identity/contract/external.ts';
import type { TokenPair } from '../identity/contract/tokens.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { untilAborted } from '../lib/until-aborted.ts';
import { groupsOf, isAccessToken, personOf } from './claims.ts';
import { createDiscovery, type ProviderClient, type ProviderDiscovery, providerUnavailable } from './discovery.ts';
import { type ProviderFetch, ProviderReplyError, providerProblem } from './fetch.ts';
import { createProviderKeys } from './provider-keys.ts';
import { createExternalVerifier } from './verify.ts';

/** Everything that a login asks for; providers leave out what they do not know. */
export const PROVIDER_SCOPE = 'openid profile email groups offline_access';

export interface ExternalProviderOptions extends ProviderClient {
  /** of names and groups of people; may be empty */
  prefix: string;
  fetch: ProviderFetch;
  log: Log;
  clock?: Clock;
  random?: () => number;
}

/** The fault of the tokens that the provider gave at a login. */
export type TokenProblem = 'OPAQUE_TOKEN' | 'NO_GROUPS';

/** The provider of AUTH_MODE=external. */
export interface Provider extends ExternalProvider, Disposable {
  discovery: ProviderDiscovery;
  /** The fault of an access token that the provider just gave. Rejects with 401 where it is not for this controller. */
  examine(accessToken: string, signal: AbortSignal): Promise<TokenProblem | undefined>;
}

export function createExternalProvider(options: ExternalProviderOptions): Provider {
  const { issuer, clientId, clientSecret, allowsHttp, prefix, fetch, log } = options;
  const time = { ...(options.clock && { clock: options.clock }), ...(options.random && { random: options.random }) };
  /** of the last request, for people */
  let failure: string | undefined;
  const unavailable = (problem: string, cause: unknown) => {
    failure = `${issuer}: ${problem}`;
    return providerUnavailable(problem, cause);
  };
  const request: ProviderFetch['request'] = async (url, init) => {
    try {
      const response = await fetch.request(url, init);
      failure = undefined;
      return response;
    } catch (error) {
      failure = `${issuer}: ${providerProblem(error)}`;
      throw error;
    }
  };
  const discovery = createDiscovery({
    ...{ issuer, clientId, clientSecret, allowsHttp, log, ...time },
    request: (url, { method, headers, body, signal }) => request(url, { method, headers, body, signal }),
  });
  const keys = createProviderKeys({
    async load() {
      const { jwks_uri: url = '' } = (await discovery.configuration(AbortSignal.timeout(10_000))).serverMetadata();
      const response = await request(url, { method: 'GET', headers: { accept: 'application/json' } });
      if (response.status !== 200) throw new ProviderReplyError(`its key set has the status ${response.status}`);
      return response.text();
    },
    changed: () => verifier.forget(),
    ...(options.clock && { clock: options.clock }),
  });
  const verifier = createExternalVerifier({
    issuer: async (signal) => (await discovery.configuration(signal)).serverMetadata().issuer,
    ...{ clientId, prefix, keys, ...(options.clock && { clock: options.clock }) },
  });

  /** Runs a grant, whose refusals become 401 with `refused`. */
  async function granted(
    grant: (configuration: Configuration) => Promise<{ access_token: string; refresh_token?: string | undefined }>,
    refused: () => HttpError,
    signal: AbortSignal,
  ): Promise<TokenPair> {
    const configuration = await discovery.configuration(signal);
    try {
      const { access_token: accessToken, refresh_token: refreshToken } = await untilAborted(
        grant(configuration),
        signal,
      );
      return { accessToken, ...(refreshToken !== undefined && { refreshToken }) };
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      throw await grantError(error, { refused, unavailable });
    }
  }

  async function examine(accessToken: string, signal: AbortSignal): Promise<TokenProblem | undefined> {
    if (accessToken.split('.').length !== 3) return 'OPAQUE_TOKEN';
    const claims = await verifier.claimsOf(accessToken, signal);
    if (!claims || !isAccessToken(claims) || !personOf(claims, { clientId, prefix }))
      throw new HttpError(
        401,
        'UNAUTHENTICATED',
        `the access token of the provider is not for this controller: its issuer has to be ${issuer}, its audience ${clientId}, and it has to name a person`,
      );
    return groupsOf(claims, clientId).length === 0 ? 'NO_GROUPS' : undefined;
  }

  return {
    discovery,
    examine,
    verify: (token, signal, guesses) => verifier.verify(token, signal, guesses),
    async password(username, password, totp, signal) {
      const form = { username, password, scope: PROVIDER_SCOPE, ...(totp && { totp }) };
      const pair = await granted(
        (configuration) => genericGrantRequest(configuration, 'password', form),
        () => new HttpError(401, 'INVALID_CREDENTIALS', 'the provider does not accept this name and password'),
        signal,
      );
      if ((await examine(pair.accessToken, signal)) === 'OPAQUE_TOKEN') throw opaqueToken();
      return pair;
    },
    async refresh(token, signal) {
      const pair = await granted(
        (configuration) => refreshTokenGrant(configuration, token),
        () => new HttpError(401, 'INVALID_REFRESH_TOKEN', 'the refresh token is not valid, log in again'),
        signal,
      );
      return { refreshToken: token, ...pair };
    },
    async logout({ accessToken, refreshToken }) {
      const configuration = await discovery.configuration(AbortSignal.timeout(5_000)).catch(() => undefined);
      if (!configuration?.serverMetadata().revocation_endpoint) return;
      const revoke = (token: string, hint: string) => tokenRevocation(configuration, token, { token_type_hint: hint });
      const revoked = await Promise.allSettled([
        revoke(accessToken, 'access_token'),
        ...(refreshToken === undefined ? [] : [revoke(refreshToken, 'refresh_token')]),
      ]);
      if (revoked.some(({ status }) => status === 'rejected'))
        log.info({ issuer }, 'The OpenID provider did not revoke a token');
    },
    async profile({ user, claims = {} }, token, signal) {
      const configuration = await discovery.configuration(signal);
      if (!configuration.serverMetadata().userinfo_endpoint) return claims;
      try {
        return await untilAborted(fetchUserInfo(configuration, token, user.uid ?? ''), signal);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (error instanceof ClientError && error.code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED')
          throw new HttpError(401, 'UNAUTHENTICATED', 'the provider names another subject for this token');
        if (error instanceof WWWAuthenticateChallengeError)
          throw new HttpError(401, 'UNAUTHENTICATED', 'the provider does not accept the token');
        throw unavailable(providerProblem(error), error);
      }
    },
    get problem() {
      return discovery.problem ?? failure;
    },
    [Symbol.dispose]: () => discovery[Symbol.dispose](),
  };
}

/** 401 for a provider whose access tokens say nothing. */
export const opaqueToken = () =>
  new HttpError(
    401,
    'OPAQUE_TOKEN',
    "the provider's access token is opaque, and says neither who you are nor what you may: name this controller as its audience (Auth0: an API whose identifier is the client id)",
  );

/** Errors of OAuth by which a provider refuses a password or a token. */
const REFUSALS: ReadonlySet<string> = new Set(['invalid_grant', 'access_denied', 'invalid_token']);
/** Errors by which it refuses the form of the login. */
const NOT_OFFERED: ReadonlySet<string> = new Set(['unauthorized_client', 'unsupported_grant_type']);

/** Errors by which it blames the settings, with the setting to mend. */
const BLAMES: ReadonlyMap<string, string> = new Map([
  ['invalid_client', 'it does not accept OIDC_CLIENT_ID and OIDC_CLIENT_SECRET'],
  ['invalid_scope', `its client has to have each of the scopes ${PROVIDER_SCOPE}`],
]);

interface GrantAnswers {
  refused: () => HttpError;
  /** the answer makes no sense, or blames the controller */
  unavailable: (problem: string, cause: unknown) => HttpError;
}

async function grantError(error: unknown, { refused, unavailable }: GrantAnswers): Promise<HttpError> {
  const code = await oauthError(error);
  if (code !== undefined && REFUSALS.has(code)) return refused();
  if (code !== undefined && NOT_OFFERED.has(code))
    return new HttpError(
      501,
      'NOT_IMPLEMENTED',
      'the provider does not offer this form of login to this controller: log in with the browser',
    );
  return unavailable((code && BLAMES.get(code)) ?? providerProblem(error), error);
}

/** The member `error` of a refusal, which a provider may send beside a challenge. */
async function oauthError(error: unknown): Promise<string | undefined> {
  if (error instanceof ResponseBodyError) return error.error;
  if (!(error instanceof WWWAuthenticateChallengeError)) return undefined;
  const body: unknown = await error.response.json().catch(() => undefined);
  const code = typeof body === 'object' && body !== null && 'error' in body ? body.error : undefined;
  return typeof code === 'string' ? code : undefined;
}
