import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { createSeals } from '../http/seals.ts';
import { clientOf, patient, startProvider, type TestProvider } from './_provider.ts';
import { createBrowserLogin } from './browser.ts';

/** The login in the browser, with a real server as the provider and this test as the browser. */

let provider: TestProvider;
let client: ReturnType<typeof clientOf>;
let ahead: number;
/** what was given to the authorization endpoint, by code */
let asked: Map<string, URLSearchParams>;
let idToken: Record<string, unknown>;

const clock = { now: () => performance.now() + ahead, wall: () => Date.now() + ahead, after: () => () => {} };
const CALLBACK = 'https://skerry.example/base/api/v3/user/oauth/callback';
const CONSOLE = { console: 'https://console.example' };

beforeEach(async () => {
  [ahead, asked, idToken] = [0, new Map(), {}];
  provider = await startProvider();
  client = clientOf(provider);
  provider.handle('/token', async (_, response, form) => {
    const query = asked.get(form.get('code') ?? '');
    asked.delete(form.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const isGood = query?.get('code_challenge') === challenge && form.get('redirect_uri') === CALLBACK;
    const body = isGood
      ? {
          access_token: await provider.sign({ groups: ['sre'] }),
          id_token: await provider.sign({ nonce: query.get('nonce'), ...idToken }),
          token_type: 'Bearer',
          refresh_token: 'r',
        }
      : { error: 'invalid_grant' };
    response.writeHead(isGood ? 200 : 400, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  return async () => {
    await client[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
  };
});

const replica = (secret = 'one secret of all replicas', asksAgain = false) =>
  createBrowserLogin({
    discovery: client.discovery,
    callback: CALLBACK,
    seals: createSeals(
      () => secret,
      () => clock.wall(),
    ),
    ttlMs: 600_000,
    asksAgain,
    examine: client.examine,
    clock,
  });

/** A person logs in at the place to which a login leads. */
function logIn(location: string): URLSearchParams {
  const query = new URL(location).searchParams;
  const code = `code ${asked.size}`;
  asked.set(code, query);
  return new URLSearchParams({ code, state: query.get('state') ?? '' });
}

test('a login begins with PKCE, a state and a nonce, at the place that the configuration names', async () => {
  const { location } = await replica().begin(CONSOLE, patient());
  const { origin, pathname, searchParams } = new URL(location);
  expect(`${origin}${pathname}`).toBe(`${provider.issuer}/auth`);
  expect(Object.fromEntries(searchParams)).toMatchObject({
    ...{ response_type: 'code', client_id: 'skerry', redirect_uri: CALLBACK, code_challenge_method: 'S256' },
    scope: 'openid profile email groups offline_access',
    ...{ state: expect.stringMatching(/.{43}/), nonce: expect.stringMatching(/.{43}/) },
  });
  expect(searchParams.has('prompt')).toBe(false);
  const { location: again } = await replica('x', true).begin(CONSOLE, patient());
  expect(new URL(again).searchParams.get('prompt')).toBe('login');
});

test('it ends at another replica, with the tokens of the provider', async () => {
  const { location, cookie } = await replica().begin(CONSOLE, patient());
  expect(await replica().finish(logIn(location), cookie, patient())).toEqual({
    to: CONSOLE,
    claims: { sub: 'u-1' },
    tokens: { accessToken: expect.stringMatching(/\./), refreshToken: 'r' },
  });
});

describe('the end of a login is refused', () => {
  const begun = async () => {
    const login = replica();
    const { location, cookie } = await login.begin(CONSOLE, patient());
    return { login, cookie, query: logIn(location) };
  };

  test('without the cookie of this browser, or with one of another secret', async () => {
    const { login, query, cookie } = await begun();
    const other = await replica().begin(CONSOLE, patient());
    for (const given of [undefined, '', 'AAAA', other.cookie, cookie.slice(0, -4)])
      await expect(login.finish(query, given, patient())).rejects.toMatchObject({ status: 401 });
    await expect(replica('another').finish(query, cookie, patient())).rejects.toMatchObject({ status: 401 });
  });

  test('with another state, or with two', async () => {
    const { login, query, cookie } = await begun();
    const twice = new URLSearchParams([...query, ['state', 'x']]);
    const other = new URLSearchParams({ code: 'code 0', state: 'x' });
    for (const given of [twice, other, new URLSearchParams({ code: 'code 0' })])
      await expect(login.finish(given, cookie, patient())).rejects.toMatchObject({ status: 401 });
  });

  test('after ten minutes', async () => {
    const { login, query, cookie } = await begun();
    ahead = 600_001;
    await expect(login.finish(query, cookie, patient())).rejects.toMatchObject({ status: 401 });
  });

  test('with a code that was used', async () => {
    const { login, query, cookie } = await begun();
    await login.finish(query, cookie, patient());
    await expect(login.finish(query, cookie, patient())).rejects.toMatchObject({ status: 401 });
  });

  test.each<[string, Record<string, unknown>]>([
    ['another nonce', { nonce: 'x' }],
    ['another audience', { aud: 'other' }],
    ['another issuer', { iss: 'https://elsewhere.example' }],
    ['an end in the past', { exp: 1 }],
  ])('with an ID token of %s', async (_, claims) => {
    idToken = claims;
    const { login, query, cookie } = await begun();
    await expect(login.finish(query, cookie, patient())).rejects.toMatchObject({ status: 401 });
  });

  test('with an ID token that another key signed', async () => {
    const { makeSigningKey } = await import('./_provider.ts');
    const real = provider.key.jwk;
    const { login, query, cookie } = await begun();
    provider.use({ ...(await makeSigningKey('other')), kid: 'first' }, [real]);
    await expect(login.finish(query, cookie, patient())).rejects.toMatchObject({ status: expect.any(Number) });
  });
});

test('an error of the provider is passed on as letters, whatever it is', async () => {
  const login = replica();
  const { location, cookie } = await login.begin(CONSOLE, patient());
  const state = new URL(location).searchParams.get('state') ?? '';
  const end = (error: string) => login.finish(new URLSearchParams({ error, state }), cookie, patient());
  expect(await end('access_denied')).toEqual({ to: CONSOLE, refused: 'access_denied' });
  expect(await end('"><script>')).toEqual({ to: CONSOLE, refused: 'server_error' });
});

describe('a login that kubectl began', () => {
  const verifier = 'v'.repeat(43);
  const to = { loopback: '4711', challenge: createHash('sha256').update(verifier).digest('base64url') };

  test('ends with a code that is worth tokens once, for who has the verifier, within a minute', async () => {
    const login = replica();
    const { location, cookie } = await login.begin(to, patient());
    expect(new URL(location).searchParams.get('prompt')).toBe('login');
    const outcome = await login.finish(logIn(location), cookie, patient());
    if (!('brokered' in outcome)) throw new Error('there is no code');
    expect(outcome.to).toEqual(to);
    const redeem = (given: string) => replica().redeem(outcome.brokered, given, patient());
    await expect(redeem('w'.repeat(43))).rejects.toMatchObject({ status: 401 });
    expect(await redeem(verifier)).toEqual({ accessToken: expect.stringMatching(/\./), refreshToken: 'r' });
    await expect(redeem(verifier)).rejects.toMatchObject({ status: 401 });
  });

  test('ends with nothing after a minute', async () => {
    const login = replica();
    const { location, cookie } = await login.begin(to, patient());
    const outcome = await login.finish(logIn(location), cookie, patient());
    ahead = 60_001;
    if (!('brokered' in outcome)) throw new Error('there is no code');
    await expect(login.redeem(outcome.brokered, verifier, patient())).rejects.toMatchObject({ status: 401 });
  });
});
