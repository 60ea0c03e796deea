import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startHttpd } from '../hack/httpd.ts';
import { freePort } from '../hack/ports.ts';
import { atEnd } from '../testing/at-end.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { follow, isLoginPage, logInAt, openBrowser, placeOf } from './_browser.ts';
import { createStack, until } from './_stack.ts';

/**
 * A client that nobody here wrote: Apache with mod_auth_openidc stands at the public URL, has the one redirect URI, guards a page of its
 * own, and passes all else to the controller. In the night alone.
 */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
const SECRET = 'client-secret-of-the-test-with-43-characters';
const ADMIN = { email: 'root@shore.example', password: 'Correct-Horse-7' };

async function start() {
  const folder = temporaryFolder();
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const stack = await createStack();
  const controller = await stack.startController({
    env: {
      CONTROLLER_PUBLIC_URL: url,
      OIDC_CLIENT_SECRET: SECRET,
      OIDC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.email,
      OIDC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
    },
  });
  const backend = createServer((request, response) => response.end(JSON.stringify(request.headers)));
  await once(backend.listen(0, '127.0.0.1'), 'listening');
  atEnd(() => backend.close());
  const guarded = `http://127.0.0.1:${(backend.address() as AddressInfo).port}/`;
  const open = async (at: number, secret: string) => {
    const httpd = await startHttpd({
      dir: join(folder, String(at)),
      ...{ port: at, url },
      client: { id: 'controller', secret, issuer: `${url}/oidc`, redirectUri: `${url}/api/v3/user/oauth/callback` },
      behind: { '/guarded': guarded, '/': `${controller.url}/` },
      guarded: ['/guarded'],
    });
    atEnd(() => httpd[Symbol.asyncDispose]());
    return httpd;
  };
  const httpd = await open(port, SECRET);
  await until('the administrator logs in', async () => (await post('/user/login', ADMIN)).status === 200);
  return { url, open, httpd, post };

  function post(path: string, body: object, token?: string) {
    const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) };
    return fetch(`${url}/api/v3${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  }
}

describe.skipIf(!isNightly)('Apache with mod_auth_openidc', async () => {
  const { url, open, httpd, post } = isNightly ? await start() : ({} as Awaited<ReturnType<typeof start>>);

  /** To the page that the browser asked for, through the login. */
  async function logIn(browser = openBrowser()) {
    const page = await follow(browser, `${url}/guarded/page?a=b`, isLoginPage);
    const resumed = await logInAt(browser, page, ADMIN);
    const callback = await follow(browser, resumed, ({ searchParams }) => searchParams.has('code'));
    return { browser, callback, answer: await browser(callback) };
  }

  test('logs a person in by discovery, code, PKCE, ID token and UserInfo', async () => {
    const { browser, callback, answer } = await logIn();
    expect(placeOf(answer)).toBe(`${url}/guarded/page?a=b`);
    const shown = (await (await browser(`${url}/guarded/page?a=b`)).json()) as Record<string, string>;
    expect(shown).toMatchObject({
      oidc_claim_email: ADMIN.email,
      oidc_claim_preferred_username: ADMIN.email,
      oidc_claim_groups: 'admin',
      oidc_claim_iss: `${url}/oidc`,
      oidc_claim_aud: 'controller',
    });
    expect(shown.oidc_claim_sub).toMatch(/^[0-9a-f-]{36}$/);
    // No other browser may use the state and the code.
    const other = openBrowser();
    expect((await other(callback)).headers.get('location')).toBeNull();
    expect((await other(`${url}/guarded/page`)).status).toBe(302);
  });

  test('takes ID tokens of the next key after a rotation', async () => {
    const { accessToken } = (await (await post('/user/login', ADMIN)).json()) as { accessToken: string };
    const rotated = await post('/auth/jwks/rotate', {}, accessToken);
    expect(rotated.status).toBe(200);
    const { kid } = (await rotated.json()) as { kid: string };
    const signs = async () => {
      const { accessToken } = (await (await post('/user/login', ADMIN)).json()) as { accessToken: string };
      return JSON.parse(Buffer.from(accessToken.split('.')[0] ?? '', 'base64url').toString()).kid === kid;
    };
    await until('the next key to sign', signs, { timeoutMs: 120_000, intervalMs: 2_000 });
    const { answer } = await logIn();
    expect(placeOf(answer)).toBe(`${url}/guarded/page?a=b`);
  }, 180_000);

  test('ends the login at the provider', async () => {
    const { browser } = await logIn();
    const begin = await browser(`${url}/api/v3/user/oauth/callback?logout=${encodeURIComponent(`${url}/`)}`);
    const end = new URL(placeOf(begin));
    expect(end.origin + end.pathname).toBe(`${url}/oidc/session/end`);
    expect(end.searchParams.get('id_token_hint')).toMatch(/^eyJ/);
    // The client has no place to return to: the provider leads nowhere that it does not know.
    expect((await browser(end)).status).toBe(400);
    end.searchParams.delete('post_logout_redirect_uri');
    expect((await browser(end)).status).toBe(200);
    expect((await browser(`${url}/guarded/page`)).status).toBe(302);
  });

  test('without the secret of the client gets no token', async () => {
    const port = await freePort();
    const wrong = await open(port, 'another-secret-that-nobody-gave-to-anybody-x');
    // Its browser is sent to the public URL for the login, and comes back to the server with the wrong secret.
    const browser = openBrowser();
    const local = `http://127.0.0.1:${port}`;
    const page = await follow(browser, `${local}/guarded/page`, isLoginPage);
    const resumed = await logInAt(browser, page, ADMIN);
    const callback = await follow(browser, resumed, ({ searchParams }) => searchParams.has('code'));
    expect((await browser(callback.replace(url, local))).headers.get('location')).toBeNull();
    expect((await browser(`${local}/guarded/page`)).status).toBe(302);
    expect(readFileSync(wrong.logFile, 'utf8')).toContain('invalid_client');
    expect(readFileSync(httpd.logFile, 'utf8')).not.toContain('invalid_client');
  });
});
