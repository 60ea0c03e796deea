import { createHash, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Artefacts } from '../identity/contract/once.ts';
import { silentLog } from '../lib/log.ts';
import { createEmbeddedIssuer, type EmbeddedIssuerOptions } from './mount.ts';
import type { IssuerSettings } from './options.ts';

/** The provider on a listener of its own, with artefacts in memory. */

const CLIENT_SECRET = 'client-secret-of-the-test-with-43-characters';
export const ANN = { uuid: '5c9e6679-7425-40de-944b-e07fc1f90ae7', email: 'ann@x.example', groups: ['sre'] };

export function makeKey(kid: string = randomUUID()) {
  const pair = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const publicJwk = { ...pair.publicKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' };
  return { kid, privateJwk: pair.privateKey.export({ format: 'jwk' }), publicJwk };
}

/** Keys take long to make. */
const KEY = makeKey();

/** With the one promise that counts: conditional writes. */
export function memoryArtefacts(): Artefacts & {
  stored: Map<string, { payload: Record<string, unknown>; version: string }>;
} {
  const stored = new Map<string, { payload: Record<string, unknown>; version: string }>();
  const keyOf = (model: string, id: string) => `${model} ${id}`;
  let version = 0;
  return {
    stored,
    interactions: 0,
    read: async (model, id) => stored.get(keyOf(model, id)),
    async write(model, id, payload, _, condition) {
      const known = stored.get(keyOf(model, id));
      if (condition === 'new' ? known : condition && condition.version !== known?.version) return 'lost';
      stored.set(keyOf(model, id), { payload: { ...payload }, version: String(++version) });
      return 'written';
    },
    async consume(model, id) {
      const known = stored.get(keyOf(model, id));
      if (!known || known.payload.consumed !== undefined) return false;
      known.payload.consumed = Math.floor(Date.now() / 1_000);
      return true;
    },
    async remove(model, id) {
      stored.delete(keyOf(model, id));
    },
    async ofGrant(grantId) {
      for (const [key, { payload }] of stored) if (payload.grantId === grantId) stored.delete(key);
    },
    async ofAccount(userUuid) {
      for (const [key, { payload }] of stored) if (payload.accountId === userUuid) stored.delete(key);
    },
  };
}

export type Answer = { status: number; headers: IncomingMessage['headers']; text: string };

export async function startIssuer(
  changes: Partial<Omit<EmbeddedIssuerOptions, 'settings'>> & {
    publicUrl?: string;
    settings?: Partial<IssuerSettings>;
  } = {},
) {
  const { publicUrl = 'https://plant.example/base', settings, ...parts } = changes;
  const artefacts = memoryArtefacts();
  const key = KEY;
  const keys = {
    signing: { kid: key.kid, privateJwk: key.privateJwk },
    publicJwks: () => ({ keys: [key.publicJwk] }),
    clientSecret: CLIENT_SECRET,
    cookieKeys: ['cookie-key-of-the-test'],
  };
  const issuer = createEmbeddedIssuer({
    keys,
    artefacts,
    accountOf: (uuid) => (uuid === ANN.uuid ? ANN : undefined),
    stepCookie: {
      name: 'step',
      value: (cookieKey, uid) =>
        createHash('sha256')
          .update(cookieKey + uid)
          .digest('hex'),
    },
    strangers: { charge: () => ({ refund: () => {} }), interaction: () => {} },
    addressOf: () => '192.0.2.1',
    attempt: () => {},
    log: silentLog,
    ...parts,
    settings: {
      publicUrl,
      consoleUrl: publicUrl,
      interactionPath: '/login/oauth',
      clientId: 'controller',
      ttlSeconds: () => ({ interaction: 600, grant: 600, session: 3600, idToken: 900, accessToken: 900 }),
      ...settings,
    },
  });
  const server = createServer((req, res) => {
    if (!issuer.handle(req, res)) res.writeHead(418).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;

  /** Sends the request target as it is. */
  function ask(target: string, { method = 'GET', headers = {}, body = '' }: AskOptions = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const call = request({
        port,
        host: '127.0.0.1',
        path: target,
        method,
        headers: { host: 'plant.example', ...headers },
      });
      call.on('error', reject).on('response', (response) => {
        let text = '';
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
      });
      call.end(body);
    });
  }

  const verifier = randomBytes(32).toString('base64url');
  const redirectUri = `${publicUrl}/api/v3/user/oauth/callback`;
  function authorize(members: Record<string, string | undefined> = {}, headers: Record<string, string> = {}) {
    const query = {
      client_id: 'controller',
      response_type: 'code',
      scope: 'openid profile email groups offline_access',
      redirect_uri: redirectUri,
      state: 'state-of-the-test',
      nonce: 'nonce-of-the-test',
      prompt: 'login',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
      ...members,
    };
    const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
    return ask(`/oidc/auth?${new URLSearchParams(given)}`, { headers });
  }

  /** From the beginning to the code, in a browser of its own. */
  async function codeOf(
    accountId = ANN.uuid,
    members: Record<string, string | undefined> = {},
  ): Promise<{ code: string; jar: string; answer: Answer }> {
    const begun = await authorize(members);
    const uid = new URL(String(begun.headers.location)).searchParams.get('interaction') ?? '';
    await issuer.complete(uid, accountId, AbortSignal.timeout(5_000));
    const jar = jarOf(begun);
    const answer = await ask(`/oidc/auth/${uid}`, { headers: { cookie: jar } });
    return {
      code: new URL(String(answer.headers.location)).searchParams.get('code') ?? '',
      jar: jarOf(answer),
      answer,
    };
  }

  const basic = (secret = CLIENT_SECRET) => ({
    authorization: `Basic ${Buffer.from(`controller:${secret}`).toString('base64')}`,
    'content-type': 'application/x-www-form-urlencoded',
  });
  const redeem = (code: string, members: Record<string, string> = {}, secret?: string) =>
    ask('/oidc/token', {
      method: 'POST',
      headers: basic(secret),
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        code,
        redirect_uri: redirectUri,
        code_verifier: verifier,
        ...members,
      }).toString(),
    });

  return {
    ...{ issuer, artefacts, key, keys, port, ask, authorize, codeOf, redeem, basic, redirectUri },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface AskOptions {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
}

/** The cookies that an answer sets and does not remove. */
export function jarOf({ headers }: Answer): string {
  const kept = (headers['set-cookie'] ?? []).filter((one) => !one.includes('expires=Thu, 01 Jan 1970'));
  return kept.map((one) => one.split(';')[0]).join('; ');
}
