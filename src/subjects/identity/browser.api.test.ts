import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  ClientSecretBasic,
  type Configuration,
  calculatePKCECodeChallenge,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from 'openid-client';
import { beforeAll, describe, expect, test } from 'vitest';
import { oneTimeCode } from '../../../testing/one-time-code.ts';
import type { TestClient } from '../../rest/_client.ts';
import { type RunningController, startTestCluster } from '../../rest/_cluster.ts';

/** Logins in the browser, at two replicas of a whole controller over a real API server, by cookie jars and openid-client. */

const PUBLIC_URL = 'https://plant.example/base';
const SECRET = 'client-secret-of-the-test-with-43-characters';
const PASSWORD = 'Correct-Horse-7';
const ENV = {
  CONTROLLER_PUBLIC_URL: PUBLIC_URL,
  OIDC_CLIENT_SECRET: SECRET,
  OIDC_BOOTSTRAP_ADMIN_USERNAME: 'root@plant.example',
  OIDC_BOOTSTRAP_ADMIN_PASSWORD: PASSWORD,
};
let replicas: [RunningController, RunningController];
let admin: TestClient;

beforeAll(async () => {
  const cluster = await startTestCluster();
  replicas = [await cluster.startController(ENV), await cluster.startController(ENV)];
  const login = () =>
    replicas[0].client.post('/user/login', { json: { email: 'root@plant.example', password: PASSWORD } });
  for (const { client } of replicas)
    while (
      (await client.post('/user/login', { json: { email: 'root@plant.example', password: PASSWORD } })).status !== 200
    )
      await pause(300);
  admin = replicas[0].client.as((await login()).body.accessToken);
}, 120_000);

/** All of this comes from one address, which has its share of the writes of strangers. */
async function patiently<T extends { status: number }>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer.status !== 429) return answer;
    await pause(300);
  }
}

let users = 0;
async function newUser(groups: string[] = ['viewer']) {
  const email = `user${++users}@plant.example`;
  const json = { email, password: 'Temporary-Pass-1', groups };
  expect((await admin.post('/users', { json })).status).toBe(201);
  return email;
}

/** A browser: it follows cookies by name and path, and reaches the public URL at one of the replicas. */
function openBrowser(replica: () => RunningController) {
  const jar: { name: string; value: string; path: string }[] = [];
  async function request(url: string, init: RequestInit = {}): Promise<Response> {
    const { pathname, search } = new URL(url, PUBLIC_URL);
    const path = pathname.replace(/^\/base/, '');
    const sent = jar.filter((one) => pathname.startsWith(one.path) && one.value !== '');
    const cookie = sent.map(({ name, value }) => `${name}=${value}`).join('; ');
    const response = await fetch(`${replica().url}${path}${search}`, {
      redirect: 'manual',
      ...init,
      headers: { ...(init.headers as Record<string, string>), cookie },
    });
    for (const text of response.headers.getSetCookie()) {
      const [pair = '', ...attributes] = text.split('; ');
      const [name = '', value = ''] = pair.split('=');
      const at = attributes.find((one) => one.startsWith('path='))?.slice(5) ?? '/';
      const known = jar.find((one) => one.name === name && one.path === at);
      if (known) known.value = value;
      else jar.push({ name, value, path: at });
    }
    return response;
  }
  const step = async (uid: string, to: string, json: object = {}) => {
    const url = `${PUBLIC_URL}/api/v3/user/interaction/${uid}/${to}`;
    const sent = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(json) };
    const response = await patiently(() => request(url, sent));
    const body = (await response.json()) as Record<string, string> & { recoveryCodes?: string[] };
    return { status: response.status, body };
  };
  return { request, step };
}

const turns = () => {
  let turn = 0;
  return () => replicas[turn++ % 2] as RunningController;
};

/** openid-client as it is, whose requests reach a replica in place of the public URL. */
async function relyingParty(replica: () => RunningController): Promise<Configuration> {
  const there = (url: string, init: object) => fetch(url.replace(PUBLIC_URL, replica().url), init);
  const issuer = new URL(`${PUBLIC_URL}/oidc`);
  const config = await discovery(issuer, 'controller', { client_secret: SECRET }, ClientSecretBasic(SECRET), {
    [customFetch]: there as typeof fetch,
    execute: [allowInsecureRequests],
  });
  config[customFetch] = there as typeof fetch;
  enableNonRepudiationChecks(config);
  return config;
}

const REDIRECT = `${PUBLIC_URL}/api/v3/user/oauth/callback`;

async function begin(config: Configuration, browser: ReturnType<typeof openBrowser>) {
  const [verifier, state, nonce] = [randomPKCECodeVerifier(), randomState(), randomNonce()];
  const url = buildAuthorizationUrl(config, {
    redirect_uri: REDIRECT,
    scope: 'openid profile email groups offline_access',
    code_challenge: await calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    prompt: 'login',
    ...{ state, nonce },
  });
  const { status, headers } = await patiently(() => browser.request(url.href));
  const page = new URL(String(headers.get('location')));
  expect([status, page.origin + page.pathname]).toEqual([303, `${PUBLIC_URL}/login/oauth`]);
  return { uid: String(page.searchParams.get('interaction')), verifier, state, nonce };
}

async function codeOf(browser: ReturnType<typeof openBrowser>, redirectTo: string): Promise<URL> {
  const { headers } = await browser.request(redirectTo);
  return new URL(String(headers.get('location')));
}

describe('a login in the browser', () => {
  test('ends at openid-client after an enrolment and a new password, whichever replica serves each request', async () => {
    const email = await newUser(['viewer']);
    const replica = turns();
    const browser = openBrowser(replica);
    const config = await relyingParty(replica);
    const { uid, verifier, state, nonce } = await begin(config, browser);

    expect(await browser.step(uid, 'login', { email, password: 'wrong' })).toMatchObject({ status: 401 });
    expect(
      await browser.step(uid, 'login', { email: ` ${email.toUpperCase()}`, password: 'Temporary-Pass-1' }),
    ).toMatchObject({
      status: 200,
      body: { step: 'change-password' },
    });
    const { body: enrolment } = await browser.step(uid, 'enroll');
    expect(enrolment.otpauthUrl).toContain(`secret=${enrolment.secret}`);
    const { body: confirmed } = await browser.step(uid, 'confirm-enroll', {
      code: oneTimeCode(String(enrolment.secret)),
    });
    expect(confirmed.recoveryCodes).toHaveLength(10);
    expect(await browser.step(uid, 'complete')).toMatchObject({ status: 400, body: { code: 'WRONG_STEP' } });
    const change = { currentPassword: 'Temporary-Pass-1', newPassword: PASSWORD };
    expect(await browser.step(uid, 'change-password', { ...change, newPassword: 'short' })).toMatchObject({
      status: 400,
    });
    expect(await browser.step(uid, 'change-password', change)).toMatchObject({ body: { step: 'complete' } });
    const { body } = await browser.step(uid, 'complete');
    const callback = await codeOf(browser, String(body.redirectTo));
    const tokens = await authorizationCodeGrant(config, callback, {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true,
    });
    const { sub } = tokens.claims() ?? { sub: '' };
    expect(await fetchUserInfo(config, tokens.access_token, sub)).toEqual({
      sub,
      email,
      preferred_username: email,
      groups: ['viewer'],
    });
    expect(await browser.step(uid, 'login', { email, password: PASSWORD })).toMatchObject({ status: 401 });
  });

  test('gives exactly one token for 20 uses of its code at once at two replicas', async () => {
    const replica = turns();
    const browser = openBrowser(replica);
    const config = await relyingParty(replica);
    const { uid, verifier } = await begin(config, browser);
    await browser.step(uid, 'login', { email: 'root@plant.example', password: PASSWORD });
    const { body } = await browser.step(uid, 'complete');
    const code = String((await codeOf(browser, String(body.redirectTo))).searchParams.get('code'));
    const redeem = async () => {
      const response = await fetch(`${replica().url}/oidc/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from(`controller:${SECRET}`).toString('base64')}` },
        body: new URLSearchParams({
          grant_type: 'authorization_code',
          code,
          redirect_uri: REDIRECT,
          code_verifier: verifier,
        }),
      });
      return response.status;
    };
    const statuses = await Promise.all(Array.from({ length: 20 }, redeem));
    expect(statuses.sort()).toEqual([200, ...Array.from({ length: 19 }, () => 400)]);
  });

  test('gives an attacker nothing who began it and sent the link to somebody else', async () => {
    const replica = turns();
    const attacker = openBrowser(replica);
    const victim = openBrowser(replica);
    const config = await relyingParty(replica);
    const { uid } = await begin(config, attacker);
    expect(await victim.step(uid, 'login', { email: 'root@plant.example', password: PASSWORD })).toMatchObject({
      status: 200,
      body: { step: 'complete' },
    });
    for (const browser of [attacker, victim])
      expect(await browser.step(uid, 'complete')).toMatchObject({ status: 401, body: { code: 'INTERACTION_EXPIRED' } });
  });

  test.each(['login', 'mfa', 'enroll', 'confirm-enroll', 'change-password', 'complete'])(
    'with an unknown uid is 401 at %s, for every form of a body',
    async (to) => {
      const json = { email: 'a', password: 'b', code: '1', newPassword: 'c', currentPassword: 'd' };
      const { client } = replicas[0];
      const { status, body } = await client.post(`/user/interaction/${randomUUID()}/${to}`, { json });
      expect([status, body.code]).toEqual([401, 'INTERACTION_EXPIRED']);
      expect((await client.get(`/user/interaction/${randomUUID()}`)).status).toBe(401);
    },
  );
});

describe('the own second factor', () => {
  test('is enrolled, counts each code once at logins at the same time, and is disabled', async () => {
    const email = await newUser();
    const [one, other] = [replicas[0].client, replicas[1].client];
    const first = await patiently(() => one.post('/user/login', { json: { email, password: 'Temporary-Pass-1' } }));
    const gated = one.as(first.body.accessToken);
    expect((await gated.post('/user/mfa/enroll')).body).toMatchObject({ code: 'PASSWORD_CHANGE_REQUIRED' });
    const change = { currentPassword: 'Temporary-Pass-1', newPassword: PASSWORD };
    expect((await patiently(() => gated.post('/user/change-password', { json: change }))).status).toBe(200);
    await expect.poll(async () => (await gated.post('/user/mfa/enroll')).status, { timeout: 10_000 }).toBe(200);
    const { secret } = (await gated.post('/user/mfa/enroll')).body;
    const confirm = (json: object) => patiently(() => gated.post('/user/mfa/confirm', { json }));
    expect((await confirm({ code: '000000' })).status).toBe(401);
    expect((await confirm({})).status).toBe(400);
    const confirmed = await confirm({ code: oneTimeCode(secret, Date.now() - 30_000) });
    expect([confirmed.status, confirmed.body.recoveryCodes?.length]).toEqual([200, 10]);
    expect((await gated.post('/user/mfa/enroll')).body).toMatchObject({ code: 'MFA_ALREADY_ENABLED' });

    const login = (client: TestClient, totp: string) =>
      patiently(() => client.post('/user/login', { json: { email, password: PASSWORD, totp } }));
    // A right password without a code is no guess, however often it comes.
    for (let times = 0; times < 6; times++)
      expect((await login(one, '')).body).toMatchObject({ code: 'MFA_CODE_REQUIRED' });
    const many = async (totp: string) => {
      const answers = await Promise.all([0, 1, 2, 3].map((index) => login(index % 2 ? other : one, totp)));
      return answers.filter(({ status }) => status === 200).length;
    };
    expect(await many(oneTimeCode(secret))).toBe(1);
    expect(await many(confirmed.body.recoveryCodes[0])).toBe(1);

    const disable = (json: object) => patiently(() => gated.delete('/user/mfa', { json }));
    expect((await disable({})).status).toBe(400);
    expect((await disable({ password: PASSWORD, code: confirmed.body.recoveryCodes[1] })).body).toEqual({
      status: 'success',
    });
    expect((await disable({ password: PASSWORD })).body).toMatchObject({ code: 'MFA_NOT_ENABLED' });
    expect((await login(one, '')).status).toBe(200);
  });

  test('is nothing that a token of the cluster has', async () => {
    const { body } = await replicas[0].client.as('no-token').post('/user/mfa/enroll');
    expect(body).toMatchObject({ code: 'UNAUTHENTICATED' });
  });
});
