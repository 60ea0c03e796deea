import { createHash, randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createStack, until } from './_stack.ts';

/** The provider of the bundle, as its own account in the cluster: what it may write, and what it loads. */

const PUBLIC_URL = 'http://127.0.0.1:51121';
const ADMIN = { email: 'root', password: 'Correct-Horse-7' };

const stack = await createStack();
const on = await stack.startController({
  env: {
    POD_NAME: 'on',
    CONTROLLER_PUBLIC_URL: PUBLIC_URL,
    OIDC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.email,
    OIDC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
  },
});
const off = await stack.startController({ env: { POD_NAME: 'off' } });

const post = (url: string, json: object, cookie = '') =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', cookie },
    body: JSON.stringify(json),
  });
const discovered = () => fetch(`${on.url}/oidc/.well-known/openid-configuration`);

describe('the bundle of the controller', () => {
  test('serves a login in the browser from its begin to the code', async () => {
    await until('the provider answers', async () => (await discovered()).status === 200);
    expect(await (await discovered()).json()).toMatchObject({
      issuer: `${PUBLIC_URL}/oidc`,
      token_endpoint: `${PUBLIC_URL}/oidc/token`,
    });
    await until(
      'the administrator logs in',
      async () => (await post(`${on.url}/api/v3/user/login`, ADMIN)).status === 200,
    );

    const query = new URLSearchParams({
      client_id: 'controller',
      response_type: 'code',
      scope: 'openid profile email groups offline_access',
      redirect_uri: `${PUBLIC_URL}/api/v3/user/oauth/callback`,
      state: 'state',
      code_challenge: createHash('sha256').update(randomBytes(32)).digest('base64url'),
      code_challenge_method: 'S256',
    });
    const begun = await fetch(`${on.url}/oidc/auth?${query}`, { redirect: 'manual' });
    const page = new URL(String(begun.headers.get('location')));
    expect(page.origin).toBe(PUBLIC_URL);
    const cookie = begun.headers
      .getSetCookie()
      .map((one) => one.split(';')[0])
      .join('; ');
    const steps = `${on.url}/api/v3/user/interaction/${page.searchParams.get('interaction')}`;
    expect(await (await post(`${steps}/login`, ADMIN, cookie)).json()).toEqual({ step: 'complete' });
    const { redirectTo } = (await (await post(`${steps}/complete`, {}, cookie)).json()) as { redirectTo: string };
    const resumed = await fetch(redirectTo.replace(PUBLIC_URL, on.url), { redirect: 'manual', headers: { cookie } });
    const callback = new URL(String(resumed.headers.get('location')));
    expect(callback.searchParams.get('code')).toMatch(/^[\w-]{20,}$/);
    expect(callback.searchParams.get('state')).toBe('state');
  });

  test('has no provider without a public URL, and says which setting is missing', async () => {
    expect((await fetch(`${off.url}/oidc/.well-known/openid-configuration`)).status).toBe(404);
    for (const path of ['interaction/uid/login', 'interaction/uid/complete']) {
      const answer = await post(`${off.url}/api/v3/user/${path}`, {});
      expect(answer.status).toBe(501);
      expect(((await answer.json()) as { message: string }).message).toContain('CONTROLLER_PUBLIC_URL');
    }
  });
});
