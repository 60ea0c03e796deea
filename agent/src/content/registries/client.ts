import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import http from 'node:http';
import https from 'node:https';
import tls from 'node:tls';
import { Reach, type ReachLimits } from '../../domain/reach.ts';
import { PUBLIC_HUB } from '../../domain/reference.ts';
import type { RegistrySource } from '../../domain/target.ts';
import { EngineError } from '../../engine-port/error.ts';
import { exchange, type HttpRequest, open, TransportError } from '../../machine/http.ts';
import { parseChallenge } from './challenge.ts';
import { judgedLookup, type Resolver, requireReach } from './judged-lookup.ts';

const SECOND = 1000;
/** A registry has so long to begin a response. */
const HEAD_DEADLINE = 30 * SECOND;
const REDIRECTS = 5;
const TOKEN_LIMIT = 256 * 1024;
const CA_LIMIT = 1024 * 1024;

export interface RegistryRequest {
  method: string;
  /** `/v2/...` */
  path: string;
  /** whose content is asked for; what a token is for */
  repository: string;
  headers: Record<string, string>;
  signal: AbortSignal;
  /** the headers of each response of the registry's own host that redirects, and whether to another host or path */
  onRedirect?: (headers: IncomingHttpHeaders, away: boolean) => void;
}

/**
 * A client of one registry, for the time of one pull: authenticates when the registry asks for it, and follows redirects
 * to where its content is. Credentials and tokens go to the registry and to the token service that it names, over TLS
 * unless the registry is `insecure`, and to no host that these redirect to. Each host is one that the machine allows
 * (see Reach).
 *
 * Errors are EngineErrors that say why in words; none holds a header, a query or a password.
 */
export class RegistryClient implements Disposable {
  readonly #source: RegistrySource;
  readonly #http: http.Agent;
  readonly #https: https.Agent;
  readonly #reach: Reach;
  readonly #resolve: Resolver | undefined;
  #origin: Promise<URL> | undefined;
  #authorization: Promise<string> | undefined;

  /** `resolve` finds the addresses of names; absent: the system does. */
  constructor(source: RegistrySource, limits: ReachLimits, resolve?: Resolver) {
    this.#source = source;
    this.#reach = new Reach(source.host, limits);
    this.#resolve = resolve;
    if (source.token) this.#authorization = Promise.resolve(`Bearer ${source.token}`);
    this.#http = new http.Agent({ keepAlive: true, maxSockets: 8 });
    this.#https = new https.Agent({
      keepAlive: true,
      maxSockets: 8,
      ...(source.insecure ? { rejectUnauthorized: false } : { secureContext: trust(source) }),
    });
  }

  [Symbol.dispose](): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  /** The response to a request, whatever its status, after redirects and challenges. The caller ends it. */
  async open(request: RegistryRequest): Promise<IncomingMessage> {
    this.#origin ??= this.#findOrigin(request.signal);
    const origin = await this.#origin.catch((error: unknown) => {
      this.#origin = undefined;
      throw error;
    });
    const url = new URL(request.path, origin);
    const known = this.#authorization;
    const first = await this.#send(url, request, known && (await known));
    const response = first.statusCode === 401 ? await this.#again(first, url, request, known) : first;
    return this.#follow(response, url, request);
  }

  /** Sends the request once more, with the credentials that the registry asks for. */
  async #again(
    refused: IncomingMessage,
    url: URL,
    request: RegistryRequest,
    known: Promise<string> | undefined,
  ): Promise<IncomingMessage> {
    const header = refused.headers['www-authenticate'];
    refused.destroy();
    if (this.#source.token !== undefined) throw this.#unauthorized();
    // Several requests of one pull may be refused at once: one token serves them all.
    if (this.#authorization === known) {
      const fresh = this.#authorize(header, request);
      this.#authorization = fresh;
      fresh.catch(() => {
        if (this.#authorization === fresh) this.#authorization = undefined;
      });
    }
    const response = await this.#send(url, request, await this.#authorization);
    if (response.statusCode !== 401) return response;
    response.destroy();
    this.#authorization = undefined;
    throw this.#unauthorized();
  }

  async #authorize(header: string | undefined, { repository, signal }: RegistryRequest): Promise<string> {
    const { credentials } = this.#source;
    const basic =
      credentials && `Basic ${Buffer.from(`${credentials.username}:${credentials.password}`).toString('base64')}`;
    const challenge = parseChallenge(header);
    if (challenge?.scheme === 'bearer') return this.#fetchToken(challenge, repository, basic, signal);
    if (challenge?.scheme === 'basic' && basic) return basic;
    throw this.#unauthorized();
  }

  async #fetchToken(
    { realm, service, scope = `repository:%:pull` }: { realm: string; service?: string; scope?: string },
    repository: string,
    basic: string | undefined,
    signal: AbortSignal,
  ): Promise<string> {
    const { host, insecure } = this.#source;
    const url = URL.canParse(realm) ? new URL(realm) : undefined;
    if (!url || !/^https?:$/.test(url.protocol))
      throw pullFailed(`the registry ${host} names a token service that is no URL`);
    if (url.protocol === 'http:' && !insecure)
      throw pullFailed(
        `the registry ${host} names a token service without TLS (${url.host}); only its setting "insecure" allows that`,
      );
    requireReach(this.#reach, url);
    if (service) url.searchParams.set('service', service);
    url.searchParams.set('scope', scope.replace('%', repository));
    try {
      const { status, body } = await exchange(
        this.#requestTo(url, { accept: 'application/json', ...(basic && { authorization: basic }) }, signal),
        TOKEN_LIMIT,
      );
      if (status === 401 || status === 403) throw this.#unauthorized();
      if (status !== 200) throw pullFailed(`token service ${url.host}: status ${status}`);
      const token = tokenOf(body);
      if (!token) throw pullFailed(`token service ${url.host}: the response holds no token`);
      return `Bearer ${token}`;
    } catch (error) {
      throw translate(error, `token service ${url.host}`, signal);
    }
  }

  #unauthorized(): EngineError {
    const { host, credentials, token } = this.#source;
    if (token !== undefined)
      return new EngineError('ImageUnauthorized', `the hub ${host} ${token ? 'refuses the token' : 'wants a token'}`);
    return new EngineError(
      'ImageUnauthorized',
      credentials
        ? `the registry ${host} refuses the user ${JSON.stringify(credentials.username)} or the password`
        : `the registry ${host} wants credentials`,
    );
  }

  async #follow(response: IncomingMessage, from: URL, request: RegistryRequest): Promise<IncomingMessage> {
    let [current, url] = [response, from];
    for (let hops = 0; isRedirect(current); hops++) {
      const { location } = current.headers;
      const next = location !== undefined && URL.canParse(location, url.href) ? new URL(location, url) : undefined;
      current.destroy();
      const away = next?.host !== from.host || next.pathname !== from.pathname;
      if (url.host === from.host) request.onRedirect?.(current.headers, away);
      const host = this.#source.host;
      if (!next || hops >= REDIRECTS || !/^https?:$/.test(next.protocol))
        throw pullFailed(`the registry ${host} redirects to nowhere`);
      if (next.protocol === 'http:' && url.protocol === 'https:' && !this.#source.insecure)
        throw pullFailed(
          `the registry ${host} redirects to ${next.host} without TLS; only its setting "insecure" allows that`,
        );
      const same = next.origin === from.origin;
      url = next;
      current = await this.#send(url, request, same && this.#authorization ? await this.#authorization : undefined);
    }
    if (url.host !== from.host) FOREIGN.add(current);
    return current;
  }

  async #send(url: URL, request: RegistryRequest, authorization: string | undefined): Promise<IncomingMessage> {
    const { method, headers, signal } = request;
    requireReach(this.#reach, url);
    try {
      const all = { ...headers, ...(authorization && { authorization }) };
      return await open({ ...this.#requestTo(url, all, signal), method });
    } catch (error) {
      const own = url.host === this.#source.host;
      throw translate(error, own ? `registry ${url.host}` : `${url.host}, named by the registry`, signal);
    }
  }

  /** The origin of the registry. Only that of an insecure one without a scheme has to be found out. */
  async #findOrigin(signal: AbortSignal): Promise<URL> {
    const { scheme, insecure, host } = this.#source;
    if (scheme === 'http' && !insecure)
      throw pullFailed(`the registry ${host} is named with http://, and only its setting "insecure" allows that`);
    const name = host === PUBLIC_HUB.host ? PUBLIC_HUB.answersAt : host;
    const secure = new URL(`${scheme ?? 'https'}://${name}`);
    if (scheme || !insecure) return secure;
    requireReach(this.#reach, secure);
    try {
      const response = await open(this.#requestTo(new URL('/v2/', secure), {}, signal));
      response.destroy();
      return secure;
    } catch (error) {
      if (error instanceof TransportError && NO_TLS.has(error.code)) return new URL(`http://${name}`);
      throw translate(error, `registry ${host}`, signal);
    }
  }

  #requestTo(url: URL, headers: Record<string, string>, signal: AbortSignal): HttpRequest {
    const { protocol, host, pathname, search } = url;
    return {
      ...{ target: { origin: url }, method: 'GET', path: `${pathname}${search}` },
      ...{ headers: { ...headers, host }, deadline: HEAD_DEADLINE, signal },
      connections: protocol === 'https:' ? this.#https : this.#http,
      lookup: judgedLookup(this.#reach, host, this.#resolve),
    };
  }
}

const pullFailed = (message: string, cause?: unknown) => new EngineError('ImagePullFailed', message, { cause });

const FOREIGN = new WeakSet<IncomingMessage>();

/**
 * Whether a response is one of another host, to which the registry led. Its words are in no message: the registry may lead to
 * what only this machine may read.
 */
export const isForeign = (response: IncomingMessage): boolean => FOREIGN.has(response);

/** Errors of a TLS handshake with a server that speaks plain http, or with an https port on which no server listens. */
const NO_TLS: ReadonlySet<string> = new Set([
  'EPROTO',
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
  'ECONNREFUSED',
  'ECONNRESET',
]);

/** The machine's authorities, which its engine trusts as well, and the registry's own. */
function trust({ ca, host }: RegistrySource) {
  // Node 22.13 has only its bundled list.
  const list = tls.getCACertificates as typeof tls.getCACertificates | undefined;
  const machine = list?.('system') ?? [];
  const system = machine.length > 0 ? machine : tls.rootCertificates;
  const own = ca.length <= CA_LIMIT ? Buffer.from(ca, 'base64').toString('latin1') : '';
  if (ca && !own.includes('-----BEGIN CERTIFICATE-----'))
    throw pullFailed(`ca of the registry ${host} is not a PEM bundle in base64`);
  try {
    return tls.createSecureContext({ ca: [...system, own] });
  } catch (error) {
    throw pullFailed(`ca of the registry ${host} cannot be read`, error);
  }
}

/** OpenSSL's codes of certificates that are refused. */
const CERTIFICATE = /^(CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_|ERR_TLS_CERT_ALTNAME)/;

function translate(error: unknown, what: string, signal: AbortSignal): unknown {
  if (error instanceof EngineError || signal.aborted) return error;
  const { cause } = error as Error;
  if (cause instanceof EngineError) return cause;
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (CERTIFICATE.test(code)) return pullFailed(`${what}: its certificate is not trusted: ${message}`, error);
  if (NO_TLS.has(code) && /wrong version number|packet length/i.test(message))
    return pullFailed(`${what}: it does not speak TLS; only the setting "insecure" allows plain HTTP`, error);
  return pullFailed(`${what}: ${message}`, error);
}

const isRedirect = ({ statusCode = 0 }: IncomingMessage) => [301, 302, 303, 307, 308].includes(statusCode);

function tokenOf(body: string): string | undefined {
  try {
    const { token, access_token: accessToken } = JSON.parse(body) as Record<string, unknown>;
    const found = token ?? accessToken;
    return typeof found === 'string' && /^[\x21-\x7e]+$/.test(found) ? found : undefined;
  } catch {
    return undefined;
  }
}
