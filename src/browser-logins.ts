import type { IncomingMessage } from 'node:http';
import { createBrowserLogin } from './external-issuer/browser.ts';
import { createProviderFetch } from './external-issuer/fetch.ts';
import { createOwnIssuer } from './external-issuer/own-issuer.ts';
import type { Logins } from './identity/identity.ts';
import { createInteractions } from './identity/interactions.ts';
import { STEP_COOKIE, stepCookie } from './identity/step-cookie.ts';
import type { Log } from './lib/log.ts';
import { hasLoginPages, stylesheetOf } from './login-pages/pages.ts';
import type { EmbeddedSettings } from './settings/auth.ts';

export interface BrowserLoginsOptions {
  /** the address of a client */
  addressOf(request: IncomingMessage): string;
  /** Takes an attempt at a credential from an address. Throws 429. */
  attempt(address: string): void;
  /** where this process listens, such as http://127.0.0.1:51121; undefined until it does */
  origin(): string | undefined;
  /** ms in which a browser has to come back from the provider */
  returnMs: number;
  log: Log;
  /** Unix ms */
  now(): number;
}

/** The provider, and the steps of a login in the browser. Its packages are loaded here: without logins they take no memory. */
export async function openBrowserLogins(
  {
    clientId,
    browser,
    ...urls
  }: Pick<EmbeddedSettings, 'clientId' | 'browser'> & { publicUrl: string; consoleUrl: string },
  logins: Logins,
  { addressOf, attempt, origin, returnMs, log, now }: BrowserLoginsOptions,
) {
  const { createEmbeddedIssuer } = await import('./issuer/mount.ts');
  const { keys, users, artefacts, strangers, policy } = logins;
  const { interactionPath, consoleClientId, ttlSeconds } = browser;
  const issuer = createEmbeddedIssuer({
    settings: {
      ...{ ...urls, clientId, interactionPath },
      ...(consoleClientId && { consoleClientId }),
      ...(hasLoginPages(urls) && { stylesheet: stylesheetOf(urls.consoleUrl) }),
      ttlSeconds: () => ({
        session: policy().refreshTokenTtlSeconds,
        idToken: policy().accessTokenTtlSeconds,
        accessToken: policy().accessTokenTtlSeconds,
        ...ttlSeconds,
      }),
    },
    accountOf: users.facts,
    stepCookie: { name: STEP_COOKIE, value: stepCookie },
    ...{ keys, artefacts, strangers, addressOf, attempt, log },
  });
  const fetch = createProviderFetch({ isOwn: true });
  return {
    issuer,
    interactions: createInteractions({ ...logins, issuer, cookieKeys: () => keys.cookieKeys, now }),
    browser: createBrowserLogin({
      discovery: createOwnIssuer({
        issuer: logins.tokens.issuer,
        clientId,
        clientSecret: () => keys.clientSecret,
        origin,
        fetch,
      }),
      callback: `${urls.publicUrl}/api/v3/user/oauth/callback`,
      seals: keys,
      once: logins.once,
      ttlMs: returnMs,
      asksAgain: true,
    }),
    urls: { public: urls.publicUrl, console: urls.consoleUrl },
    [Symbol.asyncDispose]: () => fetch[Symbol.asyncDispose](),
  };
}
