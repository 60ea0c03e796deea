import { request } from 'node:https';
import { expect, test } from 'vitest';
import { DEX_CLIENT, DEX_PASSWORD, DEX_USERS, startDex } from '../../hack/dex.ts';
import { atEnd } from '../../testing/at-end.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { poll, startTestCluster } from '../rest/_cluster.ts';

/** A whole controller on a real API server, with Dex as the provider of its users. */

const dir = temporaryFolder();
/** The place where the controller says it is: nothing listens there, and the browser of this test goes to the real port. */
const PUBLIC = 'https://skerry.example';
const dex = await startDex({ dir, redirectUris: [`${PUBLIC}/api/v3/user/oauth/callback`] });
atEnd(() => dex.stop());
const cluster = await startTestCluster();
const { url } = await cluster.startController({
  AUTH_MODE: 'external',
  OIDC_ISSUER_URL: dex.issuer,
  OIDC_CLIENT_ID: DEX_CLIENT.clientId,
  OIDC_CLIENT_SECRET: DEX_CLIENT.clientSecret,
  SKERRY_OIDC_CA_FILE: dex.caFile,
  CONTROLLER_PUBLIC_URL: PUBLIC,
});

interface Pair {
  accessToken: string;
  refreshToken: string;
}

const call = async (method: string, path: string, { token, body }: { token?: string; body?: object } = {}) => {
  const response = await fetch(`${url}/api/v3${path}`, {
    method,
    redirect: 'manual',
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : undefined };
};
const logIn = (user: keyof typeof DEX_USERS, password = DEX_PASSWORD) =>
  call('POST', '/user/login', { body: { email: DEX_USERS[user].email, password, totp: '' } });

test('a person logs in with a password, is known by name, and has the role of its group', async () => {
  const { status, body } = await logIn('ann');
  expect(status).toBe(200);
  const { accessToken: token, refreshToken } = body as Pair;
  await poll(async () => (await call('GET', '/user/profile', { token })).body).toMatchObject({
    email: DEX_USERS.ann.email,
    preferred_username: 'ann',
  });
  await poll(async () => (await call('GET', '/iofog-list', { token })).status).toBe(200);

  const next = await call('POST', '/user/refresh', { body: { refreshToken } });
  expect(next.status).toBe(200);
  expect((await call('GET', '/iofog-list', { token: next.body.accessToken })).status).toBe(200);
  expect((await call('GET', '/iofog-list', { token: next.body.refreshToken })).status).toBe(401);
  expect((await call('POST', '/user/logout', { token, body: { refreshToken } })).status).toBe(204);
});

test('a wrong password is 401, and a person without a group is warned and may nothing', async () => {
  expect(await logIn('ann', 'wrong')).toMatchObject({ status: 401, body: { code: 'INVALID_CREDENTIALS' } });
  const { status, headers, body } = await logIn('bob');
  expect(status).toBe(200);
  expect(headers.get('warning')).toContain('no groups');
  expect((await call('GET', '/iofog-list', { token: body.accessToken })).status).toBe(403);
  expect((await call('GET', '/user/profile', { token: body.accessToken })).status).toBe(200);
});

test('a token of the provider for another audience, or changed, is 401', async () => {
  const { accessToken: token } = (await logIn('ann')).body as Pair;
  const [head, payload = '', signature] = token.split('.');
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString());
  for (const change of [{ groups: ['admin'] }, { aud: 'other' }, { exp: claims.exp + 3600 }]) {
    const forged = Buffer.from(JSON.stringify({ ...claims, ...change })).toString('base64url');
    expect((await call('GET', '/user/profile', { token: `${head}.${forged}.${signature}` })).status).toBe(401);
  }
});

test.each([
  ['POST', '/user/change-password', { newPassword: 'x' }],
  ['GET', '/users', undefined],
])('%s %s is 501 or 403, as the provider has the users', async (method, path, body) => {
  const { accessToken: token } = (await logIn('ann')).body as Pair;
  expect([403, 501]).toContain((await call(method, path, { token, ...(body && { body }) })).status);
});

/** What a browser does: follows redirects within Dex, and keeps its cookies. */
async function browse(location: string, form?: Record<string, string>, cookies = new Map<string, string>()) {
  let target = new URL(location);
  let sent = form;
  for (let step = 0; step < 10; step += 1) {
    if (target.origin !== new URL(dex.issuer).origin) return { target, body: '' };
    const body = sent && new URLSearchParams(sent).toString();
    const answer = await new Promise<{ status: number; location?: string | undefined; text: string }>(
      (resolve, reject) => {
        const headers = {
          cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
          ...(body !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
        };
        request(target, { method: body === undefined ? 'GET' : 'POST', ca: dex.ca, headers }, async (response) => {
          for (const cookie of response.headers['set-cookie'] ?? []) {
            const [name = '', value = ''] = cookie.split(';')[0]?.split('=') ?? [];
            cookies.set(name, value);
          }
          let text = '';
          for await (const chunk of response) text += String(chunk);
          resolve({ status: response.statusCode ?? 0, location: response.headers.location, text });
        })
          .once('error', reject)
          .end(body);
      },
    );
    sent = undefined;
    if (!answer.location) return { target, body: answer.text, cookies };
    target = new URL(answer.location, target);
  }
  throw new Error(`too many redirects to ${target.href}`);
}

test('a person logs in with the browser, and the console gets the tokens in the fragment', async () => {
  const begun = await call('GET', '/user/oauth/authorize');
  expect(begun.status).toBe(302);
  const cookie = begun.headers.get('set-cookie') ?? '';
  expect(cookie).toMatch(/^skerry_login=.*; Path=\/api\/v3\/user\/oauth; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/);
  const page = await browse(begun.headers.get('location') ?? '');
  expect(page.body).toContain('password');
  const action = /action="([^"]+)"/.exec(page.body)?.[1]?.replaceAll('&amp;', '&') ?? page.target.href;
  const { target } = await browse(
    new URL(action, page.target).href,
    { login: DEX_USERS.ann.email, password: DEX_PASSWORD },
    page.cookies,
  );
  expect(target.origin).toBe(PUBLIC);
  const finish = (header: string) =>
    fetch(`${url}${target.pathname}${target.search}`, { redirect: 'manual', headers: { cookie: header } });
  expect((await finish('')).status).toBe(401);
  const ended = await finish(cookie.split(';')[0] ?? '');
  expect(ended.status).toBe(302);
  const place = new URL(ended.headers.get('location') ?? '');
  expect(`${place.origin}${place.pathname}${place.search}`).toBe(`${PUBLIC}/login`);
  const token = new URLSearchParams(place.hash.slice(1)).get('accessToken') ?? '';
  expect((await call('GET', '/user/profile', { token })).body).toMatchObject({ preferred_username: 'ann' });
  expect((await finish(cookie.split(';')[0] ?? '')).status).toBe(401);
});
