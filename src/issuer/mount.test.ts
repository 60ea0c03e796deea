import { createPublicKey, verify } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { tooOften } from '../rest/contract/errors.ts';
import { ANN, type Answer, jarOf, makeKey, memoryArtefacts, startIssuer } from './_issuer.ts';
import { MOST_INTERACTIONS } from './mount.ts';

const uidOf = ({ headers }: Answer) => new URL(String(headers.location)).searchParams.get('interaction') ?? '';
const locationOf = ({ headers }: Answer) => new URL(String(headers.location));

/** Reads a token as somebody would who has only the key set: no library of ours or of the provider. */
async function readToken(token: string, provider: { ask(path: string): Promise<Answer> }) {
  const [header = '', payload = '', signature = ''] = token.split('.');
  const { alg, kid } = JSON.parse(Buffer.from(header, 'base64url').toString());
  const { keys } = JSON.parse((await provider.ask('/oidc/jwks')).text);
  const key = createPublicKey({ key: keys.find((one: { kid: string }) => one.kid === kid), format: 'jwk' });
  expect(alg).toBe('RS256');
  expect(verify('sha256', Buffer.from(`${header}.${payload}`), key, Buffer.from(signature, 'base64url'))).toBe(true);
  return JSON.parse(Buffer.from(payload, 'base64url').toString());
}

describe('a login at the provider', () => {
  it('ends with an ID token that the key set proves, and with the claims of the user', async () => {
    await using provider = await startIssuer();
    const { code, answer } = await provider.codeOf();
    expect(locationOf(answer).searchParams.get('state')).toBe('state-of-the-test');
    expect(locationOf(answer).searchParams.get('iss')).toBe('https://plant.example/base/oidc');
    const { status, text } = await provider.redeem(code);
    expect(status).toBe(200);
    const { id_token, access_token } = JSON.parse(text);
    expect(await readToken(id_token, provider)).toMatchObject({
      iss: 'https://plant.example/base/oidc',
      aud: 'controller',
      sub: ANN.uuid,
      nonce: 'nonce-of-the-test',
    });
    const me = await provider.ask('/oidc/me', { headers: { authorization: `Bearer ${access_token}` } });
    expect(JSON.parse(me.text)).toEqual({
      sub: ANN.uuid,
      email: ANN.email,
      preferred_username: ANN.email,
      groups: ['sre'],
    });
  });

  it('gives a first administrator without an e-mail none', async () => {
    const accountOf = () => ({ email: 'admin', groups: ['admin'] });
    await using provider = await startIssuer({ accountOf });
    const { access_token } = JSON.parse((await provider.redeem((await provider.codeOf()).code)).text);
    const me = await provider.ask('/oidc/me', { headers: { authorization: `Bearer ${access_token}` } });
    expect(JSON.parse(me.text)).toEqual({ sub: ANN.uuid, preferred_username: 'admin', groups: ['admin'] });
  });

  it('begins anew although the browser has the session of another user', async () => {
    const bob = { uuid: 'b0b', email: 'bob@x.example', groups: [] };
    const accountOf = (uuid: string) => [ANN, bob].find((one) => one.uuid === uuid);
    await using provider = await startIssuer({ accountOf });
    const { jar } = await provider.codeOf();
    expect(jar).toContain('_session=');
    const begun = await provider.authorize({ prompt: undefined }, { cookie: jar });
    await provider.issuer.complete(uidOf(begun), bob.uuid, AbortSignal.timeout(5_000));
    const cookie = `${jar}; ${jarOf(begun)}`;
    const answer = await provider.ask(`/oidc/auth/${uidOf(begun)}`, { headers: { cookie } });
    expect(answer.status).toBe(303);
    const { status, text } = await provider.redeem(locationOf(answer).searchParams.get('code') ?? '');
    expect(status).toBe(200);
    expect(await readToken(JSON.parse(text).id_token, provider)).toMatchObject({ sub: bob.uuid });
  });

  it('is resumed only by the browser that began it', async () => {
    await using provider = await startIssuer();
    const begun = await provider.authorize();
    await provider.issuer.complete(uidOf(begun), ANN.uuid, AbortSignal.timeout(5_000));
    for (const cookie of ['', jarOf(await provider.authorize())]) {
      const other = await provider.ask(`/oidc/auth/${uidOf(begun)}`, { headers: { cookie } });
      expect(String(other.headers.location)).not.toContain('code=');
    }
    const own = await provider.ask(`/oidc/auth/${uidOf(begun)}`, { headers: { cookie: jarOf(begun) } });
    expect(String(own.headers.location)).toContain('code=');
  });

  it('binds its steps to the browser by a cookie for its interaction alone', async () => {
    await using provider = await startIssuer();
    const begun = await provider.authorize();
    const cookie = begun.headers['set-cookie']?.find((one) => one.startsWith('step='));
    expect(cookie).toMatch(/; httponly/i);
    expect(cookie).toMatch(/; secure/i);
    expect(cookie).toMatch(/; samesite=lax/i);
    expect(cookie).toContain(`path=/base/api/v3/user/interaction/${uidOf(begun)};`);
  });

  it('binds them for a console of another site as well', async () => {
    await using provider = await startIssuer({ settings: { consoleUrl: 'https://console.example/' } });
    const begun = await provider.authorize();
    expect(begun.headers.location).toBe(`https://console.example/login/oauth?interaction=${uidOf(begun)}`);
    expect(begun.headers['set-cookie']?.find((one) => one.startsWith('step='))).toMatch(/; samesite=none; secure/i);
  });
});

describe('the provider refuses', () => {
  it.each([
    ['a request without PKCE', { code_challenge: undefined, code_challenge_method: undefined }, 'invalid_request'],
    ['the plain challenge', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['the implicit flow', { response_type: 'id_token' }, 'unsupported_response_type'],
    ['the hybrid flow', { response_type: 'code id_token' }, 'unsupported_response_type'],
    ['a request object', { request: 'e30.e30.' }, 'request_not_supported'],
    ['a login without questions', { prompt: 'none' }, 'login_required'],
  ])('%s, at the address of the client', async (_, members, error) => {
    await using provider = await startIssuer();
    const answer = await provider.authorize(members);
    const { searchParams, hash } = locationOf(answer);
    // Of a flow that answers in the fragment, the refusal is there as well.
    const said = searchParams.get('error') ?? new URLSearchParams(hash.slice(1)).get('error');
    expect([answer.status, said]).toEqual([303, error]);
    expect(provider.artefacts.stored.size).toBe(0);
  });

  it.each([
    ['an unknown client', { client_id: 'other' }],
    ['another redirect URI', { redirect_uri: 'https://evil.example/callback' }],
    ['a redirect URI with a longer path', { redirect_uri: 'https://plant.example/base/api/v3/user/oauth/callback/x' }],
    ['a redirect URI with a query', { redirect_uri: 'https://plant.example/base/api/v3/user/oauth/callback?x' }],
    ['an answer as a form', { response_mode: 'form_post' }],
    ['an answer in the fragment', { response_mode: 'fragment' }],
  ])('%s, and redirects nobody', async (_, members) => {
    await using provider = await startIssuer();
    const answer = await provider.authorize(members);
    expect(answer.status).toBe(400);
    expect(answer.headers.location).toBeUndefined();
  });

  it.each([
    ['another verifier', { code_verifier: 'v'.repeat(43) }, undefined, 400],
    ['no verifier', { code_verifier: '' }, undefined, 400],
    ['another redirect URI', { redirect_uri: 'https://plant.example/base/' }, undefined, 400],
    ['another secret', {}, 'x'.repeat(43), 401],
    ['an empty secret', {}, '', 400],
  ])('a code with %s', async (_, members, secret, status) => {
    await using provider = await startIssuer();
    const { code } = await provider.codeOf();
    expect((await provider.redeem(code, members, secret)).status).toBe(status);
    expect(JSON.parse((await provider.redeem(code)).text)).toHaveProperty('id_token');
  });

  it('every grant but authorization_code', async () => {
    await using provider = await startIssuer();
    for (const grant of ['password', 'refresh_token', 'client_credentials', 'implicit']) {
      const body = new URLSearchParams({
        grant_type: grant,
        username: 'ann',
        password: 'x',
        refresh_token: 'x',
      }).toString();
      const { status, text } = await provider.ask('/oidc/token', { method: 'POST', headers: provider.basic(), body });
      expect([status, JSON.parse(text).error]).toEqual([400, 'unsupported_grant_type']);
    }
  });

  it('a code of which another client was faster, and of 20 at once one wins', async () => {
    const artefacts = memoryArtefacts();
    await using provider = await startIssuer({ artefacts });
    const { code } = await provider.codeOf();
    // Each of the 20 has looked at the code before the first marks it.
    const read = artefacts.read.bind(artefacts);
    const all = Promise.withResolvers<void>();
    let looks = 0;
    artefacts.read = async (model, id) => {
      const found = await read(model, id);
      if (model !== 'AuthorizationCode') return found;
      if (++looks === 20) all.resolve();
      await all.promise;
      return found;
    };
    const answers = await Promise.all(Array.from({ length: 20 }, () => provider.redeem(code)));
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([200, ...Array.from({ length: 19 }, () => 400)]);
  });

  it('tokens of a code that is used again later', async () => {
    await using provider = await startIssuer();
    const { code } = await provider.codeOf();
    const { access_token } = JSON.parse((await provider.redeem(code)).text);
    const me = () => provider.ask('/oidc/me', { headers: { authorization: `Bearer ${access_token}` } });
    expect((await me()).status).toBe(200);
    expect((await provider.redeem(code)).status).toBe(400);
    expect((await me()).status).toBe(401);
  });

  it('the token of a user who was deleted', async () => {
    let isThere = true;
    await using provider = await startIssuer({ accountOf: () => (isThere ? ANN : undefined) });
    const { code } = await provider.codeOf();
    isThere = false;
    expect((await provider.redeem(code)).status).toBe(400);
  });

  it('bodies of a megabyte', async () => {
    await using provider = await startIssuer();
    const body = `code=${'x'.repeat(2 ** 20)}`;
    const { status } = await provider.ask('/oidc/token', { method: 'POST', headers: provider.basic(), body });
    expect(status).toBe(400);
  });

  it('logins beyond those that may be under way, and stores nothing', async () => {
    const artefacts = { ...memoryArtefacts(), interactions: MOST_INTERACTIONS };
    await using provider = await startIssuer({ artefacts });
    const answer = await provider.authorize();
    expect(answer.status).toBe(429);
    expect(answer.headers['retry-after']).toBeDefined();
    expect(artefacts.stored.size).toBe(0);
  });

  it('addresses that begin too many logins or try too many secrets', async () => {
    const refused = () => {
      throw tooOften('too many attempts', 7);
    };
    const strangers = { charge: refused, interaction: () => {} };
    for (const limits of [{ strangers }, { attempt: refused }]) {
      await using provider = await startIssuer(limits);
      expect(await provider.authorize()).toMatchObject({ status: 429, headers: { 'retry-after': '7' } });
    }
    await using provider = await startIssuer({ attempt: refused });
    for (const path of ['/oidc/revoke', '/oidc/token', '/oidc/revoke', '/oidc/me', '/oidc/session/end/confirm'])
      expect((await provider.ask(path, { method: 'POST' })).status).toBe(429);
    expect((await provider.ask('/oidc/jwks')).status).toBe(200);
  });
});

describe('the keys of the provider', () => {
  it.each([
    ['no signing key', { signing: undefined }],
    ['no client secret', { clientSecret: undefined }],
    ['no cookie key', { cookieKeys: [] }],
  ])('are never made up: with %s it answers 503', async (_, missing) => {
    const key = makeKey();
    const keys = {
      signing: { kid: key.kid, privateJwk: key.privateJwk },
      publicJwks: () => ({ keys: [] }),
      clientSecret: 's'.repeat(43),
      cookieKeys: ['k'.repeat(16)],
      ...missing,
    };
    await using provider = await startIssuer({ keys });
    expect((await provider.authorize()).status).toBe(503);
    expect((await provider.ask('/oidc/.well-known/openid-configuration')).status).toBe(503);
  });

  it('change without a restart, and a login under way continues', async () => {
    const [first, second] = [makeKey('first'), makeKey('second')];
    let signing = first;
    const keys = {
      get signing() {
        return { kid: signing.kid, privateJwk: signing.privateJwk };
      },
      publicJwks: () => ({ keys: [first.publicJwk, second.publicJwk] }),
      clientSecret: 'client-secret-of-the-test-with-43-characters',
      cookieKeys: ['k'.repeat(16)],
    };
    await using provider = await startIssuer({ keys });
    const { code } = await provider.codeOf();
    signing = second;
    const { id_token } = JSON.parse((await provider.redeem(code)).text);
    expect(JSON.parse(Buffer.from(id_token.split('.')[0], 'base64url').toString())).toMatchObject({ kid: 'second' });
    await readToken(id_token, provider);
  });

  it('are published for no cache, and without their private halves', async () => {
    await using provider = await startIssuer();
    const { headers, text } = await provider.ask('/oidc/jwks');
    expect(headers['cache-control']).toBe('no-store');
    expect(JSON.parse(text)).toEqual({ keys: [provider.key.publicJwk] });
    expect(text).not.toMatch(/"(d|p|q|dp|dq|qi)"/);
  });
});

describe('the datastore', () => {
  it('is not available: clients get 503 and none of its words', async () => {
    const artefacts = {
      ...memoryArtefacts(),
      read: () => Promise.reject(new Error('etcdserver: secret words')),
      write: () => Promise.reject(new Error('etcdserver: secret words')),
    };
    await using provider = await startIssuer({ artefacts });
    const begun = await provider.authorize();
    expect(locationOf(begun).searchParams.get('error')).toBe('temporarily_unavailable');
    const redeemed = await provider.redeem('x'.repeat(43));
    expect(redeemed.status).toBe(503);
    expect(begun.text + redeemed.text).not.toContain('secret words');
  });
});
