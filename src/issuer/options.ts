import {
  type AdapterConstructor,
  type ClientMetadata,
  type Configuration,
  interactionPolicy,
  type JWK,
} from 'oidc-provider';
import type { SigningKeys } from '../identity/contract/keys.ts';
import { errorPage, loggedOutPage, logoutPage } from './pages.ts';

/** What an installation says about its provider. */
export interface IssuerSettings {
  /** without a slash at the end */
  publicUrl: string;
  /** of the pages for people: an origin, and the path that gets `?interaction=<uid>` */
  consoleUrl: string;
  interactionPath: string;
  /** path of the style of the provider's own pages */
  stylesheet?: string;
  /** of the controller itself */
  clientId: string;
  /** of a console in the browser, which has no secret */
  consoleClientId?: string;
  /** asked for each artefact: an AuthPolicy changes them */
  ttlSeconds: () => { interaction: number; grant: number; session: number; idToken: number; accessToken: number };
}

/** What the provider says of a user; undefined for users that it must no longer vouch for. */
export type AccountOf = (uuid: string) => { email: string; groups: readonly string[] } | undefined;

export interface ProviderParts {
  settings: IssuerSettings;
  keys: { signing: NonNullable<SigningKeys['signing']>; clientSecret: string; cookieKeys: readonly string[] };
  adapter: AdapterConstructor;
  accountOf: AccountOf;
  /** where the cookies of the provider are sent to */
  cookiePath: string;
  /** the page of an interaction; sets what the steps are bound by */
  interactionUrl: NonNullable<Configuration['interactions']>['url'];
}

/** What `complete` grants, and what the client of the controller asks for besides `offline_access`. */
export const SCOPES = 'openid profile email groups';
const CODE_SECONDS = 60;
const CLOCKS_APART = 60;
const OFF = { enabled: false } as const;

/** The code flow with PKCE, and nothing beside it: what the library has on by default is named here and turned off. */
export function providerOptions(parts: ProviderParts): Configuration {
  const { settings, keys, adapter, accountOf, cookiePath, interactionUrl } = parts;
  const { ttlSeconds } = settings;
  const policy = interactionPolicy.base();
  policy.remove('consent');
  const cookie = { signed: true, httpOnly: true, sameSite: 'lax', path: cookiePath } as const;
  return {
    adapter,
    clients: clientsOf(settings, keys.clientSecret),
    jwks: { keys: [{ ...keys.signing.privateJwk, kid: keys.signing.kid, use: 'sig', alg: 'RS256' } as JWK] },
    cookies: { keys: [...keys.cookieKeys], long: cookie, short: cookie },
    responseTypes: ['code'],
    clientAuthMethods: settings.consoleClientId ? ['client_secret_basic', 'none'] : ['client_secret_basic'],
    scopes: ['openid'],
    claims: { openid: ['sub'], email: ['email'], profile: ['preferred_username'], groups: ['groups'] },
    subjectTypes: ['public'],
    pkce: { required: () => true },
    enabledJWA: { idTokenSigningAlgValues: ['RS256'] },
    features: {
      devInteractions: OFF,
      dPoP: OFF,
      pushedAuthorizationRequests: OFF,
      claimsParameter: OFF,
      resourceIndicators: OFF,
      requestObjects: OFF,
      registration: OFF,
      introspection: OFF,
      deviceFlow: OFF,
      clientCredentials: OFF,
      revocation: { enabled: true },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource(ctx, form) {
          ctx.body = logoutPage(form, settings.stylesheet);
        },
        postLogoutSuccessSource(ctx) {
          ctx.type = 'html';
          ctx.body = loggedOutPage(settings.stylesheet);
        },
      },
    },
    routes: { revocation: '/revoke' },
    interactions: { policy, url: interactionUrl },
    findAccount: (_, uuid) => {
      const account = accountOf(uuid);
      return account && { accountId: uuid, claims: () => claimsOf(uuid, account) };
    },
    ttl: {
      AuthorizationCode: CODE_SECONDS,
      Interaction: () => ttlSeconds().interaction,
      Grant: () => ttlSeconds().grant,
      Session: () => ttlSeconds().session,
      IdToken: () => ttlSeconds().idToken,
      AccessToken: () => ttlSeconds().accessToken,
    },
    expiresWithSession: () => false,
    extraParams: [],
    clockTolerance: CLOCKS_APART,
    renderError(ctx, { error, error_description }) {
      const isForPeople = ctx.accepts('json', 'html') === 'html';
      if (isForPeople) ctx.type = 'html';
      ctx.body = isForPeople ? errorPage(error, error_description, settings.stylesheet) : { error, error_description };
    },
  };
}

function clientsOf({ publicUrl, clientId, consoleClientId }: IssuerSettings, clientSecret: string): ClientMetadata[] {
  const flow = { response_types: ['code'], grant_types: ['authorization_code'] } satisfies Partial<ClientMetadata>;
  return [
    {
      ...flow,
      client_id: clientId,
      client_secret: clientSecret,
      redirect_uris: [`${publicUrl}/api/v3/user/oauth/callback`],
      token_endpoint_auth_method: 'client_secret_basic',
    },
    ...(consoleClientId
      ? [
          {
            ...flow,
            client_id: consoleClientId,
            redirect_uris: [`${publicUrl}/`],
            token_endpoint_auth_method: 'none' as const,
          },
        ]
      : []),
  ];
}

/** The name of the first administrator may be no e-mail. */
const claimsOf = (sub: string, { email, groups }: NonNullable<ReturnType<AccountOf>>) => ({
  sub,
  preferred_username: email,
  groups: [...groups],
  ...(email.includes('@') && { email }),
});
