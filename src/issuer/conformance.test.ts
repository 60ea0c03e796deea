import { describe, expect, it } from 'vitest';
import { atEnd } from '../../testing/at-end.ts';
import { ANN, type Answer, startIssuer } from './_issuer.ts';

/** What the conformance tests of a Basic OP ask for beside the other tests here (docs/openid-conformance.md). */

const provider = await startIssuer();
atEnd(() => provider[Symbol.asyncDispose]());
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const EMAIL = { email: ANN.email };
const PROFILE = { preferred_username: ANN.email };

const claimsIn = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());

/** A login with other members of its request: the claims of its ID token, and a token for UserInfo. */
async function logIn(members: Record<string, string | undefined>) {
  const { code } = await provider.codeOf(ANN.uuid, members);
  const { status, text } = await provider.redeem(code);
  expect([status, text]).toEqual([200, expect.stringContaining('id_token')]);
  const { id_token, access_token } = JSON.parse(text) as Record<'id_token' | 'access_token', string>;
  return { idToken: claimsIn(id_token), accessToken: access_token };
}
const userInfo = async (token: string) => {
  const { status, text } = await provider.ask('/oidc/me', { headers: { authorization: `Bearer ${token}` } });
  expect(status).toBe(200);
  return JSON.parse(text) as Record<string, unknown>;
};
const errorOf = ({ headers }: Answer) => new URL(String(headers.location)).searchParams.get('error');

describe('the scopes of a login', () => {
  it.each<[string, object]>([
    ['openid', {}],
    ['openid profile', PROFILE],
    ['openid email', EMAIL],
    ['email openid', EMAIL],
    ['groups profile email openid', { ...PROFILE, ...EMAIL, groups: ['sre'] }],
    ['openid address', {}],
    ['openid phone', {}],
    ['openid profile email address phone', { ...PROFILE, ...EMAIL }],
  ])('%j name the person by %j', async (scope, claims) => {
    const { accessToken } = await logIn({ scope });
    expect(await userInfo(accessToken)).toEqual({ sub: ANN.uuid, ...claims });
  });
});

describe('a login', () => {
  it('has no nonce where its request has none', async () => {
    const { idToken } = await logIn({ nonce: undefined });
    expect(idToken).not.toHaveProperty('nonce');
    expect(idToken).toMatchObject({ sub: ANN.uuid, iat: expect.any(Number), exp: expect.any(Number) });
  });

  it.each([
    ['a member that nobody knows', { extra: 'foobar' }],
    ['a display', { display: 'page' }],
    ['a popup', { display: 'popup' }],
    ['a hint of the person', { login_hint: 'bob@x.example' }],
    ['languages of the pages', { ui_locales: 'se' }],
    ['languages of the claims', { claims_locales: 'se' }],
    ['a context of authentication', { acr_values: '1 2' }],
    ['claims of its own', { claims: '{"userinfo":{"name":{"essential":true}}}' }],
  ])('takes place with %s', async (_, members) => {
    const { idToken, accessToken } = await logIn(members);
    expect(idToken).toMatchObject({ sub: ANN.uuid });
    expect(await userInfo(accessToken)).toEqual({ sub: ANN.uuid, ...PROFILE, ...EMAIL, groups: ['sre'] });
  });

  it.each(['1', '10000'])('says when the person logged in for max_age=%s', async (max_age) => {
    const before = Math.floor(Date.now() / 1000);
    const { idToken } = await logIn({ max_age });
    expect(idToken.auth_time).toBeGreaterThanOrEqual(before - 1);
  });

  it('does not take place without a response_type, and the client gets the error', async () => {
    expect(errorOf(await provider.authorize({ response_type: undefined }))).toBe('invalid_request');
  });

  it('does not take place with a request at another place', async () => {
    const answer = await provider.authorize({ request_uri: 'https://client.example/request.jwt' });
    expect(errorOf(answer)).toBe('request_uri_not_supported');
  });
});

describe('UserInfo', () => {
  it.each<[string, (token: string) => { headers: Record<string, string>; body?: string }]>([
    ['the header', (token) => ({ headers: { authorization: `Bearer ${token}` } })],
    ['the body', (token) => ({ headers: FORM, body: new URLSearchParams({ access_token: token }).toString() })],
  ])('answers a POST with the token in %s', async (_, sent) => {
    const { accessToken } = await logIn({});
    const { status, text } = await provider.ask('/oidc/me', { method: 'POST', ...sent(accessToken) });
    expect([status, JSON.parse(text).sub]).toEqual([200, ANN.uuid]);
  });

  it('answers no token in the query', async () => {
    const { accessToken } = await logIn({});
    expect((await provider.ask(`/oidc/me?access_token=${accessToken}`)).status).toBe(400);
  });
});

it('a secret of the client in the body is refused: the discovery document names the header alone', async () => {
  const { code } = await provider.codeOf();
  const members = { client_id: 'controller', client_secret: provider.keys.clientSecret };
  const body = new URLSearchParams({ grant_type: 'authorization_code', code, redirect_uri: provider.redirectUri });
  for (const [name, value] of Object.entries(members)) body.set(name, value);
  const { status, text } = await provider.ask('/oidc/token', { method: 'POST', headers: FORM, body: String(body) });
  expect([status, JSON.parse(text).error]).toEqual([401, 'invalid_client']);
});

it('the key set has one RSA key in the form of RFC 7517, by which its tokens name it', async () => {
  const { keys } = JSON.parse((await provider.ask('/oidc/jwks')).text) as { keys: Record<string, string>[] };
  expect(keys).toHaveLength(1);
  expect(keys[0]).toMatchObject({ kty: 'RSA', use: 'sig', alg: 'RS256', kid: expect.stringMatching(/./) });
  for (const member of ['n', 'e']) expect(keys[0]?.[member]).toMatch(/^[A-Za-z0-9_-]+$/);
});
