import type { IncomingMessage } from 'node:http';
import type { EmbeddedSettings } from './config.ts';
import { createRateLimit } from './http/rate-limit.ts';
import type { Logins } from './identity/identity.ts';
import { createInteractions } from './identity/interactions.ts';
import { STEP_COOKIE, stepCookie } from './identity/step-cookie.ts';
import { systemClock } from './lib/clock.ts';
import type { Log } from './lib/log.ts';
import { tooOften } from './rest/contract/errors.ts';

export interface BrowserLoginsOptions {
  /** the address of a client */
  addressOf(request: IncomingMessage): string;
  log: Log;
  /** Unix ms */
  now(): number;
}

/** Requests with a credential at the provider, from one address. */
const ATTEMPTS = { perSecond: 1, burst: 60 } as const;

/** The provider, and the steps of a login in the browser. Its packages are loaded here: without logins they take no memory. */
export async function openBrowserLogins(
  {
    clientId,
    browser,
    ...urls
  }: Pick<EmbeddedSettings, 'clientId' | 'browser'> & { publicUrl: string; consoleUrl: string },
  logins: Logins,
  { addressOf, log, now }: BrowserLoginsOptions,
) {
  const { createEmbeddedIssuer } = await import('./issuer/mount.ts');
  const { keys, users, artefacts, strangers, policy } = logins;
  const { interactionPath, consoleClientId, ttlSeconds } = browser;
  const attempts = createRateLimit({
    clock: systemClock,
    ...ATTEMPTS,
    refuse: (seconds) => tooOften('too many attempts from this address, try again later', seconds),
  });
  const issuer = createEmbeddedIssuer({
    settings: {
      ...{ ...urls, clientId, interactionPath },
      ...(consoleClientId && { consoleClientId }),
      ttlSeconds: () => ({
        session: policy().refreshTokenTtlSeconds,
        idToken: policy().accessTokenTtlSeconds,
        accessToken: policy().accessTokenTtlSeconds,
        ...ttlSeconds,
      }),
    },
    accountOf: users.facts,
    stepCookie: { name: STEP_COOKIE, value: stepCookie },
    attempt: attempts.take,
    ...{ keys, artefacts, strangers, addressOf, log },
  });
  return { issuer, interactions: createInteractions({ ...logins, issuer, cookieKeys: () => keys.cookieKeys, now }) };
}
