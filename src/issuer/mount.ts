import type { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { errors, type KoaContextWithOIDC, Provider } from 'oidc-provider';
import { basePathOf, withoutEnd } from '../http/base-path.ts';
import { errorBody, HttpError, replyTo, retryAfter } from '../http/http-error.ts';
import { PAGE_HEADERS } from '../http/page.ts';
import { json, send } from '../http/reply.ts';
import type { EmbeddedIssuer } from '../identity/contract/issuer.ts';
import type { SigningKeys } from '../identity/contract/keys.ts';
import type { Artefacts } from '../identity/contract/once.ts';
import type { Strangers } from '../identity/contract/strangers.ts';
import type { Log } from '../lib/log.ts';
import { createAdapter } from './adapter.ts';
import { belowMount, MOUNT } from './mount-path.ts';
import { type AccountOf, type IssuerSettings, providerOptions, SCOPES } from './options.ts';
import { errorPage } from './pages.ts';

export interface EmbeddedIssuerOptions {
  settings: IssuerSettings;
  keys: Pick<SigningKeys, 'signing' | 'publicJwks' | 'clientSecret' | 'cookieKeys'>;
  artefacts: Artefacts;
  accountOf: AccountOf;
  /** the cookie by which the steps of an interaction know the browser that began it */
  stepCookie: { name: string; value(cookieKey: string, uid: string): string };
  strangers: Pick<Strangers, 'charge' | 'interaction'>;
  /** the address of a client */
  addressOf: (request: IncomingMessage) => string;
  /** An attempt with a credential from this address. Throws 429. */
  attempt: (address: string) => void;
  log: Log;
}

/** Interactions under way, of all people at all replicas. */
export const MOST_INTERACTIONS = 1_000;

/** Paths where a login begins, or where a credential is tried, and so can be guessed. */
const GUESSABLE = /^\/(?:auth|token|revoke|me|session\/end(?:\/confirm)?)$/;
const LOOPBACK = /^(?:127\.|::1$|::ffff:127\.)/;

interface Current {
  provider: Provider;
  handler: ReturnType<Provider['callback']>;
  /** of the keys that it was made from */
  fingerprint: string;
}

/**
 * The OpenID provider below `/oidc`. Its URLs come from the public URL alone, whatever a request says of hosts. A changed key makes
 * another provider; requests under way keep theirs.
 */
export function createEmbeddedIssuer(options: EmbeddedIssuerOptions): EmbeddedIssuer {
  const { settings, keys, artefacts, strangers, addressOf, attempt, log } = options;
  const basePath = basePathOf(settings.publicUrl);
  const adapter = createAdapter(artefacts, log);
  let current: Current | undefined;

  /** Undefined until the keys are there: it must not start with keys that the library would make up. */
  function latest(): Current | undefined {
    const { signing, clientSecret, cookieKeys } = keys;
    if (!signing || clientSecret === undefined || cookieKeys.length === 0) return undefined;
    const fingerprint = JSON.stringify([signing.kid, clientSecret, cookieKeys]);
    if (current?.fingerprint === fingerprint) return current;
    const provider = createProvider({ signing, clientSecret, cookieKeys });
    current = { provider, handler: provider.callback(), fingerprint };
    return current;
  }

  function createProvider(own: {
    signing: NonNullable<SigningKeys['signing']>;
    clientSecret: string;
    cookieKeys: readonly string[];
  }) {
    const provider = new Provider(
      `${settings.publicUrl}${MOUNT}`,
      providerOptions({
        settings,
        keys: own,
        adapter,
        accountOf: options.accountOf,
        cookiePath: `${basePath}${MOUNT}`,
        interactionUrl: (ctx, { uid }) => interactionUrl(ctx, uid, own.cookieKeys),
      }),
    );
    pinUrls(provider, settings.publicUrl);
    const failed = (err: unknown) => log.error({ err }, 'A request of a login failed');
    // The types of the library do not know the event of Koa.
    (provider as EventEmitter).on('error', failed);
    provider.on('server_error', (_, err) => failed(err));
    provider.use(guard);
    return provider;
  }

  function interactionUrl(ctx: KoaContextWithOIDC, uid: string, [cookieKey = '']: readonly string[]): string {
    const { consoleUrl, interactionPath, publicUrl, ttlSeconds } = settings;
    const isElsewhere = new URL(consoleUrl).hostname !== new URL(publicUrl).hostname;
    const isSecure = publicUrl.startsWith('https:');
    ctx.cookies.set(options.stepCookie.name, options.stepCookie.value(cookieKey, uid), {
      path: `${basePath}/api/v3/user/interaction/${uid}`,
      httpOnly: true,
      secure: isSecure,
      sameSite: isElsewhere && isSecure ? 'none' : 'lax',
      maxAge: ttlSeconds().interaction * 1_000,
      signed: false,
    });
    return `${withoutEnd(consoleUrl)}${interactionPath}?interaction=${uid}`;
  }

  /** Throws 429. */
  function admit(path: string, request: IncomingMessage): void {
    const address = addressOf(request);
    // The controller itself redeems codes over this listener, for all people; its secret has 256 bits.
    if (GUESSABLE.test(path) && !(path === '/token' && LOOPBACK.test(address))) attempt(address);
    if (path === '/auth') {
      if (artefacts.interactions >= MOST_INTERACTIONS)
        throw new HttpError(429, 'TOO_MANY_REQUESTS', 'too many logins are under way, try again later', {
          headers: retryAfter(60),
        });
      strangers.interaction(address);
      strangers.charge(address, undefined);
    }
  }

  function serve(rest: string, request: IncomingMessage, response: ServerResponse): void {
    const path = rest.replace(/\?.*$/s, '');
    for (const [name, value] of Object.entries(PAGE_HEADERS)) response.setHeader(name, value);
    if (path === '/jwks' && (request.method === 'GET' || request.method === 'HEAD')) {
      send(response, json(keys.publicJwks(), { headers: { 'cache-control': 'no-store' } }));
      return;
    }
    admit(path, request);
    const served = latest();
    if (!served) throw notReady();
    if (!path.startsWith('/session/end')) withoutSession(request);
    request.url = rest;
    Object.assign(request, { baseUrl: `${basePath}${MOUNT}` });
    served.handler(request, response).catch((err) => {
      log.error({ err }, 'A request of a login failed');
      response.destroy();
    });
  }

  return {
    handle(request, response) {
      const rest = belowMount(request.url ?? '', basePath);
      if (rest === undefined) return false;
      try {
        serve(rest, request, response);
      } catch (error) {
        if (!(error instanceof HttpError)) throw error;
        const { status, headers, code, message } = error;
        const isForPeople = /\btext\/html\b/.test(request.headers.accept ?? '');
        const body = isForPeople && errorPage(code, message, settings.stylesheet);
        send(response, body ? { status, headers, type: 'text/html; charset=utf-8', body } : replyTo(error));
      }
      return true;
    },

    async complete(uid, accountId) {
      const served = latest();
      if (!served) throw notReady();
      const { provider } = served;
      try {
        const interaction = await provider.Interaction.find(uid);
        if (!interaction)
          throw new HttpError(401, 'INTERACTION_EXPIRED', 'this login is unknown or has expired; begin again');
        const grant = new provider.Grant({ accountId, clientId: String(interaction.params.client_id) });
        grant.addOIDCScope(SCOPES);
        const grantId = await grant.save();
        interaction.result = { login: { accountId, remember: false }, consent: { grantId } };
        await interaction.persist();
        return { redirectTo: interaction.returnTo };
      } catch (error) {
        if (error instanceof errors.OIDCProviderError) throw notReady();
        throw error;
      }
    },
  };
}

const notReady = () => new HttpError(503, 'CONTROLLER_NOT_READY', 'logins are not available at the moment, try again');

/** Koa reads scheme and host from headers and from the socket; here both come from the public URL. */
function pinUrls(provider: Provider, publicUrl: string): void {
  const { host, protocol } = new URL(publicUrl);
  Object.defineProperties(provider.request, {
    host: { get: () => host },
    protocol: { get: () => protocol.slice(0, -1) },
  });
}

/** Headers that let scripts of another origin read the answer. */
const sharing = (ctx: KoaContextWithOIDC) =>
  Object.entries(ctx.response.headers).filter(([name]) => name.startsWith('access-control-'));

/** Around every request of the provider: what it answers beyond the code flow is taken away. */
async function guard(ctx: KoaContextWithOIDC, next: () => Promise<unknown>): Promise<void> {
  const mode = ctx.query.response_mode;
  if (ctx.path === '/auth' && mode !== undefined && mode !== 'query') {
    ctx.status = 400;
    ctx.type = 'html';
    ctx.body = errorPage('unsupported_response_mode', 'response_mode: only query is supported');
    return;
  }
  const given = sharing(ctx);
  await next();
  // The library permits more than the controller does.
  for (const [name] of sharing(ctx)) ctx.remove(name);
  for (const [name, value] of given) ctx.set(name, String(value));
  if (ctx.status === 404 && !ctx.body) {
    ctx.status = 404;
    ctx.body = errorBody(new HttpError(404, 'ROUTE_NOT_FOUND', 'there is no such route'));
  }
  if (ctx.status === 200 && ctx.path.startsWith('/.well-known/'))
    ctx.body = { ...(ctx.body as object), response_modes_supported: ['query'] };
}

/**
 * Every login begins anew: the session of an earlier one would turn the end of a login by another person into a question that the
 * content policy of the page refuses.
 */
function withoutSession(request: IncomingMessage): void {
  const { cookie } = request.headers;
  if (cookie === undefined) return;
  request.headers.cookie = cookie
    .split(';')
    .filter((pair) => !/^\s*_session(?:\.sig)?\s*=/.test(pair))
    .join(';');
}
