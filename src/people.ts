import type { IncomingMessage, ServerResponse } from 'node:http';
import { NODE_TOKEN_ISSUER } from './api/names.ts';
import { type BrowserLoginsOptions, openBrowserLogins } from './browser-logins.ts';
import type { Config } from './config.ts';
import type { AuditLog } from './datastore/audit-log.ts';
import { createBrowserLogin } from './external-issuer/browser.ts';
import { createProviderFetch } from './external-issuer/fetch.ts';
import { createExternalProvider } from './external-issuer/provider.ts';
import { createCrossOrigin } from './http/cross-origin.ts';
import { createSeals } from './http/seals.ts';
import { loginOff } from './identity/contract/switch.ts';
import { createIdentity, type IdentityOptions, type Logins } from './identity/identity.ts';
import { createLoginEvents } from './identity/login-events.ts';
import { leaseAge } from './kube/lease-age.ts';
import { systemClock } from './lib/clock.ts';
import type { Log } from './lib/log.ts';
import { createLoginPages, hasLoginPages, LOGIN_PATH } from './login-pages/pages.ts';
import type { IdentityDoor } from './rest/contract/identity-door.ts';
import type { LoginReport } from './rules/login-report.ts';

export interface PeopleSources
  extends Pick<IdentityOptions, 'client' | 'stores' | 'replicas' | 'log' | 'metrics'>,
    Pick<BrowserLoginsOptions, 'addressOf' | 'attempt'> {
  /** name of the Lease of the leader */
  lease: string;
  audit: Pick<AuditLog, 'record'> | undefined;
  /** port of REST, once it listens */
  port(): number | undefined;
  /** Unix ms */
  now(): number;
}

/** Serves a request, or returns false without any effect. */
type Handler = (request: IncomingMessage, response: ServerResponse) => boolean;

/** Who logs in at this process, in either mode. */
export interface People extends AsyncDisposable {
  /** of the mode embedded; absent while logins are off */
  logins?: Logins;
  /** users and logins as REST has them */
  door: IdentityDoor | undefined;
  /** Who verifies the tokens of an issuer; undefined: the cluster. */
  byIssuer(issuer: string): ReturnType<typeof verifierOf>;
  /** comes before every other handler: what scripts of other origins may request */
  crossOrigin?: Handler;
  /** the provider, and the pages of logins */
  handlers: readonly Handler[];
  /** what the Lease of this replica says of logins */
  report(): LoginReport;
  /** whether another provider answers; undefined without one */
  isProviderUp(): boolean | undefined;
}

/** Called before this replica takes the Lease, whose age says whether the datastore may have been restored. */
export async function openPeople(config: Config, sources: PeopleSources): Promise<People> {
  await using building = new AsyncDisposableStack();
  const { addressOf, attempt, port, log, now } = sources;
  const logins = await openIdentity(config, sources);
  const browserLogins = building.use(
    await openProvider(config, logins, {
      returnMs: config.auth.returnMs,
      ...{ addressOf, attempt, log, now },
      origin() {
        const at = port();
        return at === undefined ? undefined : ownOrigin(config, at);
      },
    }),
  );
  const external = building.use(openExternalProvider(config, log));
  const crossOrigin = openCrossOrigin(config);
  const pages = openLoginPages(config);
  const owned = building.move();
  return {
    ...(logins && { logins }),
    door: identityDoor(config, external, logins, browserLogins),
    byIssuer: (issuer) => verifierOf(issuer, config, external, logins),
    ...(crossOrigin && { crossOrigin }),
    handlers: [...(browserLogins ? [browserLogins.issuer.handle] : []), ...(pages ? [pages] : [])],
    report: () => loginState(config, external, logins),
    isProviderUp: () => external && external.provider.problem === undefined,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Beyond this age of the Lease no replica ran: the datastore may have been restored meanwhile. */
const LONGEST_PAUSE_MS = 120_000;

/** Users and logins of the mode embedded; absent while logins are off. Called before this replica takes the Lease. */
async function openIdentity(
  config: Config,
  { client, stores, lease, audit, replicas, log, metrics, now }: PeopleSources,
): Promise<Logins | undefined> {
  const { auth, publicUrl, namespace } = config;
  const { embedded } = auth;
  if (!embedded || !publicUrl || loginOff({ publicUrl, allowsHttp: auth.allowsHttp }) !== undefined) return undefined;
  const age = await leaseAge(client, { namespace, name: lease }, Date.now()).catch(() => Number.POSITIVE_INFINITY);
  return createIdentity({
    ...{ client, namespace, stores, replicas, log, metrics, now },
    mayBeRestored: (age ?? 0) > LONGEST_PAUSE_MS,
    issuer: `${withoutSlash(publicUrl)}/oidc`,
    audience: embedded.clientId,
    prefix: auth.groupsPrefix,
    ...{ given: embedded.given, ttls: embedded.ttls, bootstrap: embedded.bootstrap },
    events: createLoginEvents({
      record: (event) => audit?.record(event),
      recordsAddresses: config.audit.recordsAddresses,
      clock: systemClock,
    }),
  });
}

/** The provider of AUTH_MODE=external, which nothing waits for. */
function openExternalProvider({ auth, publicUrl = '' }: Config, log: Log) {
  const { provider: settings, allowsHttp, groupsPrefix: prefix } = auth;
  if (!settings) return undefined;
  const fetch = createProviderFetch({ caFile: settings.caFile });
  const provider = createExternalProvider({ ...settings, allowsHttp, prefix, fetch, log });
  const callback = `${withoutSlash(publicUrl)}/api/v3/user/oauth/callback`;
  const browser = createBrowserLogin({
    discovery: provider.discovery,
    callback,
    seals: createSeals(() => settings.clientSecret),
    ttlMs: auth.returnMs,
    asksAgain: false,
    examine: provider.examine,
  });
  return {
    ...{ settings, provider, browser },
    [Symbol.asyncDispose]() {
      provider[Symbol.dispose]();
      return fetch[Symbol.asyncDispose]();
    },
  };
}

type OpenProvider = NonNullable<ReturnType<typeof openExternalProvider>>;

const withoutSlash = (url: string) => url.replace(/(?<!\/)\/+$/, '');

/** Where this process reaches itself. */
function ownOrigin({ server: { host, tls } }: Config, port: number): string {
  const address = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `${tls ? 'https' : 'http'}://${address.includes(':') ? `[${address}]` : address}:${port}`;
}

/** The provider of the mode embedded; absent while logins are off. */
async function openProvider(
  { auth: { embedded, consoleUrl }, publicUrl = '' }: Config,
  logins: Logins | undefined,
  options: BrowserLoginsOptions,
) {
  if (!logins || !embedded) return undefined;
  const url = withoutSlash(publicUrl);
  return await openBrowserLogins({ ...embedded, publicUrl: url, consoleUrl: consoleUrl ?? url }, logins, options);
}

/** Where people log in; absent while logins are off. */
function loginUrls({ auth, publicUrl }: Config) {
  if (!publicUrl || loginOff({ publicUrl, allowsHttp: auth.allowsHttp }) !== undefined) return undefined;
  return { publicUrl: withoutSlash(publicUrl), consoleUrl: auth.consoleUrl ?? withoutSlash(publicUrl) };
}

/** The pages of logins in the browser; absent where a console has its own. */
function openLoginPages(config: Config) {
  const urls = loginUrls(config);
  const { interactionPath = LOGIN_PATH } = config.auth.embedded?.browser ?? {};
  return urls && hasLoginPages(urls) ? createLoginPages({ ...urls, interactionPath }) : undefined;
}

/** What scripts of the console may request; absent where the console has the origin of the controller. */
function openCrossOrigin(config: Config) {
  const urls = loginUrls(config);
  const hasConsoleClient = config.auth.embedded?.browser.consoleClientId !== undefined;
  return urls && createCrossOrigin({ ...urls, hasConsoleClient });
}

/** Users and logins as REST has them. */
function identityDoor(
  { auth, publicUrl = '' }: Config,
  external: OpenProvider | undefined,
  logins: Logins | undefined,
  browserLogins: Awaited<ReturnType<typeof openProvider>>,
): IdentityDoor | undefined {
  const off = loginOff({ publicUrl, allowsHttp: auth.allowsHttp });
  if (off !== undefined) return { off };
  if (logins) {
    const { interactions, browser, urls } = browserLogins ?? {};
    return { mode: 'embedded', ...logins, ...(interactions && { interactions, browser, urls }) };
  }
  if (!external) return undefined;
  const urls = { public: withoutSlash(publicUrl), console: auth.consoleUrl ?? withoutSlash(publicUrl) };
  return { mode: 'external', external: external.provider, browser: external.browser, urls };
}

/** What the Lease of this replica says of logins. */
function loginState(
  { auth: { mode, allowsHttp }, publicUrl }: Config,
  external: OpenProvider | undefined,
  logins: Logins | undefined,
): LoginReport {
  const off = loginOff({ ...(publicUrl && { publicUrl }), allowsHttp });
  const problem = external?.provider.problem;
  const { signingKeySeconds: age, hasFirstPassword } = logins?.figures() ?? {};
  return {
    mode,
    ...(publicUrl && { publicUrl }),
    ...(off !== undefined && { off }),
    ...(problem !== undefined && { problem }),
    ...(age !== undefined && { keySince: new Date(Date.now() - age * 1000).toISOString() }),
    ...(hasFirstPassword && { hasFirstPassword }),
  };
}

/** Who verifies the tokens of an issuer; undefined: the cluster. */
function verifierOf(
  issuer: string,
  { publicUrl }: Config,
  external: OpenProvider | undefined,
  logins: Logins | undefined,
) {
  if (logins && issuer === logins.tokens.issuer) return logins.verifier;
  if (external && withoutSlash(issuer) === withoutSlash(external.settings.issuer)) return external.provider;
  const isOwn = issuer === NODE_TOKEN_ISSUER || (publicUrl && issuer === `${withoutSlash(publicUrl)}/oidc`);
  return isOwn ? 'refused' : undefined;
}
