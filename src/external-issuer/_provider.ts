import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import { type Clock, systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { createProviderFetch, type ProviderFetchOptions } from './fetch.ts';
import { createExternalProvider } from './provider.ts';

/** An OpenID provider on a real port that does what a test says, well or badly. */

export const CLIENT = { clientId: 'skerry', clientSecret: 'a secret of the provider' };

type Handler = (request: IncomingMessage, response: ServerResponse, body: URLSearchParams) => unknown;

export interface SigningKey {
  kid: string;
  privateKey: Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];
  jwk: JWK;
}

export async function makeSigningKey(kid: string, alg = 'RS256'): Promise<SigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

export async function startProvider({ tls }: { tls?: { cert: string; key: string } } = {}) {
  const handlers = new Map<string, Handler>();
  const asked: string[] = [];
  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const { pathname } = new URL(request.url ?? '', 'http://provider');
    asked.push(pathname);
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const handler = handlers.get(pathname);
    if (!handler) return response.writeHead(404).end();
    return handler(request, response, new URLSearchParams(text));
  };
  const server = tls ? createSecureServer(tls, serve) : createServer(serve);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const issuer = `${tls ? 'https' : 'http'}://localhost:${port}`;
  let key = await makeSigningKey('first');
  let published = [key.jwk];

  const json = (path: string, body: () => unknown, status = 200) =>
    handlers.set(path, (_, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body()));
    });
  const metadata: Record<string, unknown> = {
    issuer,
    authorization_endpoint: `${issuer}/auth`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/keys`,
    userinfo_endpoint: `${issuer}/me`,
    revocation_endpoint: `${issuer}/revoke`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
  };
  json('/.well-known/openid-configuration', () => metadata);
  json('/keys', () => ({ keys: published }));

  /** A token of the provider; members that are undefined are left out. */
  const sign = (claims: Record<string, unknown> = {}, { by = key, header = {} }: SignOptions = {}) => {
    const now = Math.floor(Date.now() / 1000);
    const all = { iss: issuer, aud: CLIENT.clientId, sub: 'u-1', iat: now, exp: now + 300, ...claims };
    return new SignJWT(JSON.parse(JSON.stringify(all)))
      .setProtectedHeader({ alg: by.jwk.alg ?? 'RS256', kid: by.kid, ...header })
      .sign(by.privateKey);
  };

  return {
    issuer,
    port,
    metadata,
    /** paths of requests, in their order */
    asked,
    handle: (path: string, handler: Handler) => handlers.set(path, handler),
    json,
    sign,
    get key() {
      return key;
    },
    /** Signs with this key from now on, and publishes these. */
    use(next: SigningKey, jwks: JWK[] = [next.jwk]) {
      key = next;
      published = jwks;
    },
    count: (path: string) => asked.filter((one) => one === path).length,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
    /** Listens again after `stop`. */
    start: () => once(server.listen(port, '127.0.0.1'), 'listening'),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

export interface SignOptions {
  by?: SigningKey;
  header?: Record<string, unknown>;
}

export type TestProvider = Awaited<ReturnType<typeof startProvider>>;

/** The controller's side of a provider. */
export function clientOf(
  { issuer }: Pick<TestProvider, 'issuer'>,
  {
    clock = systemClock,
    allowsHttp = true,
    fetch = {},
  }: { clock?: Clock; allowsHttp?: boolean; fetch?: ProviderFetchOptions } = {},
) {
  const request = createProviderFetch({ env: {}, ...fetch });
  const provider = createExternalProvider({
    ...{ issuer, ...CLIENT, allowsHttp, prefix: 'skerry', clock, log: silentLog },
    fetch: request,
  });
  return Object.assign(provider, {
    async [Symbol.asyncDispose]() {
      provider[Symbol.dispose]();
      await request[Symbol.asyncDispose]();
    },
  });
}

export const patient = () => AbortSignal.timeout(20_000);
