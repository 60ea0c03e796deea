import {
  allowInsecureRequests,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  type CustomFetch,
  clockTolerance,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  type ServerMetadata,
} from 'openid-client';
import { HttpError, retryAfter } from '../http/http-error.ts';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { untilAborted } from '../lib/until-aborted.ts';
import { ProviderReplyError, providerProblem } from './fetch.ts';

/** Seconds by which the clocks of the provider and of the controller may differ. */
export const CLOCK_TOLERANCE = 60;

/** A client that the provider knows. */
export interface ProviderClient {
  issuer: string;
  clientId: string;
  clientSecret: string;
  /** whether the issuer and its endpoints may be http:// */
  allowsHttp: boolean;
}

export interface DiscoveryOptions extends ProviderClient {
  request: CustomFetch;
  log: Log;
  clock?: Clock;
  random?: () => number;
}

/** What the provider says of itself: asked for once, and after a failure again in the background. */
export interface ProviderDiscovery extends Disposable {
  /** why there is no answer yet, for people */
  readonly problem: string | undefined;
  /** Rejects with 503 while there is no answer. */
  configuration(signal: AbortSignal): Promise<Configuration>;
}

/** A configuration remembers the keys of ID tokens for a minute, whatever tokens come; another one asks for them again. */
const REMEMBERED_MS = 10_000;
const RETRY: Backoff = { baseMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.3 };
const ENDPOINTS = ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const;
const FURTHER_ENDPOINTS = ['userinfo_endpoint', 'revocation_endpoint'] as const;

/** 503 with the reason, for people. */
export const providerUnavailable = (problem: string, cause?: unknown) =>
  new HttpError(503, 'SERVICE_UNAVAILABLE', `the OpenID provider cannot be asked now: ${problem}`, {
    headers: retryAfter(5),
    cause,
  });

export function createDiscovery(options: DiscoveryOptions): ProviderDiscovery {
  const { issuer, log, clock = systemClock, random = Math.random } = options;
  let known: { make: () => Configuration; present: Configuration; madeAt: number } | undefined;
  let problem: string | undefined;
  let underWay: Promise<Configuration> | undefined;
  let failures = 0;
  let cancel = () => {};
  let isOver = false;

  function ask(): Promise<Configuration> {
    underWay = discover(options).then(
      (make) => {
        const present = make();
        [known, problem, underWay] = [{ make, present, madeAt: clock.now() }, undefined, undefined];
        if (failures > 0) log.info({ issuer }, 'The OpenID provider answers');
        return present;
      },
      (error: Error) => {
        [problem, underWay] = [`${issuer}: ${providerProblem(error)}`, undefined];
        failures += 1;
        if (failures === 1) log.warn({ issuer, problem }, 'The OpenID provider cannot be asked');
        const delay = backoffDelay(RETRY, failures, random);
        if (!isOver) cancel = clock.after(delay, () => void ask().catch(() => {}));
        throw providerUnavailable(problem ?? '', error);
      },
    );
    return underWay;
  }

  void ask().catch(() => {});
  return {
    get problem() {
      return problem;
    },
    async configuration(signal) {
      if (known) {
        if (clock.now() - known.madeAt > REMEMBERED_MS)
          known = { ...known, present: known.make(), madeAt: clock.now() };
        return known.present;
      }
      if (underWay) return await untilAborted(underWay, signal);
      throw providerUnavailable(problem ?? `${issuer}: it has not been asked yet`);
    },
    [Symbol.dispose]() {
      isOver = true;
      cancel();
    },
  };
}

async function discover({ request, ...client }: DiscoveryOptions): Promise<() => Configuration> {
  const execute = client.allowsHttp ? [allowInsecureRequests] : [];
  const found = await discovery(new URL(client.issuer), client.clientId, undefined, undefined, {
    [customFetch]: request,
    execute,
  });
  const { supportsPKCE: _, ...metadata } = found.serverMetadata();
  const problem = endpointProblem(metadata, client.allowsHttp);
  if (problem !== undefined) throw new ProviderReplyError(problem);
  return () => {
    const configuration = new Configuration(
      { ...metadata },
      client.clientId,
      { client_secret: client.clientSecret, [clockTolerance]: CLOCK_TOLERANCE },
      authenticationOf(metadata)(client.clientSecret),
    );
    configuration[customFetch] = request;
    // Without it, nothing checks the signature of an ID token.
    enableNonRepudiationChecks(configuration);
    for (const step of execute) step(configuration);
    return configuration;
  };
}

/** Providers that say nothing of it accept the basic form (OpenID Connect Discovery 1.0, section 3). */
function authenticationOf({ token_endpoint_auth_methods_supported: methods }: ServerMetadata) {
  return !methods || methods.includes('client_secret_basic') ? ClientSecretBasic : ClientSecretPost;
}

function endpointProblem(metadata: ServerMetadata, allowsHttp: boolean): string | undefined {
  for (const name of [...ENDPOINTS, ...FURTHER_ENDPOINTS]) {
    const given = metadata[name];
    if (given === undefined && FURTHER_ENDPOINTS.some((one) => one === name)) continue;
    const protocol = typeof given === 'string' ? URL.parse(given)?.protocol : undefined;
    if (protocol !== 'https:' && !(allowsHttp && protocol === 'http:'))
      return `its discovery document has no ${name} that begins with https://`;
  }
  return undefined;
}
