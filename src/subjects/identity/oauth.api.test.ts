import { createHash } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { waitFor } from '../../../hack/wait.ts';
import { type RunningController, startTestCluster } from '../../rest/_cluster.ts';

/** Logins in the browser from their beginning to the console or to kubectl, at two replicas of a controller that has the users. */

const PUBLIC_URL = 'https://plant.example/base';
const CONSOLE_URL = 'https://console.example';
const EMAIL = 'root@plant.example';
const PASSWORD = 'Correct-Horse-7';
const ENV = {
  CONTROLLER_PUBLIC_URL: PUBLIC_URL,
  CONSOLE_URL,
  OIDC_BOOTSTRAP_ADMIN_USERNAME: EMAIL,
  OIDC_BOOTSTRAP_ADMIN_PASSWORD: PASSWORD,
};
let cluster: Awaited<ReturnType<typeof startTestCluster>>;
let replicas: [RunningController, RunningController];
let turn = 0;

beforeAll(async () => {
  cluster = await startTestCluster();
  replicas = [await cluster.startController(ENV), await cluster.startController(ENV)];
  const body = { json: { email: EMAIL, password: PASSWORD } };
  for (const { client } of replicas)
    await waitFor(async () => (await client.post('/user/login', body)).status === 200, {
      what: 'the first administrator',
      intervalMs: 300,
    });
}, 120_000);

/** A browser whose requests to the public URL come to the replicas in turn. */
function openBrowser() {
  const jar = new Map<string, { value: string; path: string }>();
  return async function request(url: string, init: RequestInit = {}): Promise<Response> {
    const { pathname, search } = new URL(url, PUBLIC_URL);
    const sent = [...jar].filter(([, { value, path }]) => pathname.startsWith(path) && value !== '');
    const response = await fetch(`${replicas[turn++ % 2]?.url}${pathname.replace(/^\/base/, '')}${search}`, {
      redirect: 'manual',
      ...init,
      headers: { ...(init.headers as object), cookie: sent.map(([name, { value }]) => `${name}=${value}`).join('; ') },
    });
    for (const text of response.headers.getSetCookie()) {
      const [pair = '', ...attributes] = text.split('; ');
      const [name = '', value = ''] = pair.split('=');
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? '/';
      jar.set(name, { value, path });
    }
    return response;
  };
}

const place = (response: Response) => response.headers.get('location') ?? '';

/** Takes the steps of a login; resolves with the URL of the callback. */
async function logIn(browser: ReturnType<typeof openBrowser>, query = ''): Promise<string> {
  const begun = await browser(`${PUBLIC_URL}/api/v3/user/oauth/authorize${query}`);
  expect(begun.status).toBe(302);
  expect(place(begun)).toMatch(new RegExp(`^${PUBLIC_URL}/oidc/auth\\?`));
  const page = new URL(place(await browser(place(begun))));
  expect(`${page.origin}${page.pathname}`).toBe(`${CONSOLE_URL}/login/oauth`);
  const uid = page.searchParams.get('interaction');
  const step = async (to: string, json: object = {}) => {
    const headers = { 'content-type': 'application/json' };
    const url = `${PUBLIC_URL}/api/v3/user/interaction/${uid}/${to}`;
    return (await browser(url, { method: 'POST', headers, body: JSON.stringify(json) })).json();
  };
  expect(await step('login', { email: EMAIL, password: PASSWORD })).toEqual({ step: 'complete' });
  const { redirectTo } = (await step('complete')) as { redirectTo: string };
  return place(await browser(redirectTo));
}

test('a person comes to the console with the tokens of the controller in the fragment, once', async () => {
  const browser = openBrowser();
  const callback = await logIn(browser);
  expect(callback).toMatch(new RegExp(`^${PUBLIC_URL}/api/v3/user/oauth/callback\\?`));
  expect((await openBrowser()(callback)).status).toBe(401);
  const end = new URL(place(await browser(callback)));
  expect(`${end.origin}${end.pathname}${end.search}`).toBe(`${CONSOLE_URL}/login`);
  const { accessToken = '', refreshToken = '' } = Object.fromEntries(new URLSearchParams(end.hash.slice(1)));
  const { client } = replicas[0];
  expect((await client.as(accessToken).get('/user/profile')).body).toMatchObject({ email: EMAIL, groups: ['admin'] });
  expect((await client.as(accessToken).get('/users')).status).toBe(200);
  expect((await client.post('/user/refresh', { json: { refreshToken } })).status).toBe(200);
  expect((await browser(callback)).status).toBe(401);
});

test('a browser that began nothing is 401, whatever it brings along', async () => {
  const { client } = replicas[0];
  const refused = await client.get('/user/oauth/callback');
  expect(refused.status).toBe(401);
  expect(refused.headers.get('refresh')).toBe(`0; url=${CONSOLE_URL}/login?oauthError=login_expired`);
  for (const query of ['error=access_denied&state=x', 'code=x&state=y'])
    expect((await client.get(`/user/oauth/callback?${query}`)).status).toBe(401);
});

test('one of twenty browsers that come back at once with one state gets tokens', async () => {
  const browser = openBrowser();
  const callback = await logIn(browser);
  const ends = await Promise.all(Array.from({ length: 20 }, () => browser(callback)));
  expect(ends.filter(({ status }) => status === 302)).toHaveLength(1);
  expect(new Set(ends.map(({ status }) => status))).toEqual(new Set([302, 401]));
});

test('kubectl gets a code at its port, which is worth tokens once, for who has the verifier', async () => {
  const verifier = 'v'.repeat(43);
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const browser = openBrowser();
  const callback = await logIn(browser, `?loopback_port=4711&code_challenge=${challenge}`);
  const end = new URL(place(await browser(callback)));
  expect(`${end.origin}${end.pathname}`).toBe('http://127.0.0.1:4711/');
  expect(end.hash).toBe('');
  const code = end.searchParams.get('code') ?? '';
  const redeem = (codeVerifier: string, at = 0) =>
    replicas[at % 2]?.client.post('/user/login', { json: { code, codeVerifier } });
  expect((await redeem('w'.repeat(43)))?.status).toBe(401);
  const all = await Promise.all(Array.from({ length: 20 }, (_, at) => redeem(verifier, at)));
  expect(all.map((one) => one?.status).sort()).toEqual([200, ...Array.from({ length: 19 }, () => 401)]);
  const won = all.find((one) => one?.status === 200)?.body as { accessToken: string };
  expect((await replicas[0].client.as(won.accessToken).get('/user/profile')).body).toMatchObject({ email: EMAIL });
});

test.each([
  ['a port without a challenge', '?loopback_port=4711'],
  ['a challenge without a port', `?code_challenge=${'a'.repeat(43)}`],
  ['a port of the system', `?loopback_port=22&code_challenge=${'a'.repeat(43)}`],
  ['a place elsewhere', `?loopback_port=evil.example&code_challenge=${'a'.repeat(43)}`],
  ['a challenge that is none', '?loopback_port=4711&code_challenge=plain'],
])('a login with %s does not begin', async (_, query) => {
  expect((await openBrowser()(`${PUBLIC_URL}/api/v3/user/oauth/authorize${query}`)).status).toBe(400);
});

test('an address has its attempts at REST and at the provider together', async () => {
  const limits = { AUTH_RATE_LIMIT_MAX_REQUESTS: '4', AUTH_RATE_LIMIT_WINDOW_MS: '3600000' };
  const { url, client } = await cluster.startController({ ...ENV, ...limits });
  const login = async () => (await client.post('/user/login', { json: { email: EMAIL, password: 'wrong' } })).status;
  const me = async () => (await fetch(`${url}/oidc/me`, { headers: { authorization: 'Bearer wrong' } })).status;
  for (const attempt of [login, me, login, me]) expect(await attempt()).not.toBe(429);
  for (const attempt of [login, me]) expect(await attempt()).toBe(429);
  expect((await fetch(`${url}/oidc/jwks`)).status).toBe(200);
});
