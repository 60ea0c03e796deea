import { createHash, randomBytes } from 'node:crypto';
import { expect } from 'vitest';
import { LABELS } from '../src/api/names.ts';
import { oneTimeCode } from '../testing/one-time-code.ts';
import { follow, isLoginPage, logInAt, openBrowser } from './_browser.ts';
import { type Stack, until } from './_stack.ts';

/** What a fleet of people does at a controller, well and badly, with a canary for every secret of identity. */
export interface IdentityCanaries {
  /** name -> secret that no output may have */
  secrets: Map<string, string>;
  /** names of secrets that a backup has to have, or nobody could log in after a restore */
  kept: Set<string>;
  /** name -> what was shown */
  outputs: Map<string, string>;
}

interface Options {
  stack: Pick<Stack, 'kube' | 'namespace' | 'token'>;
  /** CONTROLLER_PUBLIC_URL, where the controller listens */
  url: string;
}

/** A password that the policy accepts. */
const password = () => `Aa1-${randomBytes(12).toString('base64url')}`;
const signatureOf = (token = '') => token.split('.')[2] ?? '';

export async function liveWithLogins({ stack, url }: Options): Promise<IdentityCanaries> {
  const secrets = new Map<string, string>();
  const kept = new Set<string>();
  const outputs = new Map<string, string>();
  const canary = (name: string, secret: string | undefined): string => {
    expect(secret ?? '', name).not.toBe('');
    secrets.set(name, secret ?? '');
    return secret ?? '';
  };

  /** An answer that may have secrets: it is for who asked. */
  async function call(method: string, path: string, { token, body }: { token?: string; body?: unknown } = {}) {
    const response = await fetch(`${url}/api/v3${path}`, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const json = (text.startsWith('{') ? JSON.parse(text) : {}) as Record<string, string> & {
      recoveryCodes?: string[];
    };
    return { status: response.status, text, body: json };
  }
  /** A request that is refused: nothing of it may be repeated. */
  async function refused(method: string, path: string, given: { token?: string; body?: unknown }): Promise<void> {
    const { status, text } = await call(method, path, given);
    expect(status, `${method} ${path}`).toBeGreaterThanOrEqual(400);
    outputs.set(`REST ${method} ${path} (${outputs.size})`, text);
  }
  const pairOf = (name: string, { body, status }: Awaited<ReturnType<typeof call>>) => {
    expect([status, body.message]).toEqual([200, undefined]);
    canary(`access token ${name}`, signatureOf(body.accessToken));
    canary(`refresh token ${name}`, signatureOf(body.refreshToken));
    return { accessToken: body.accessToken ?? '', refreshToken: body.refreshToken ?? '' };
  };
  const newUser = async (email: string) => {
    const first = canary(`first password of ${email}`, password());
    const made = () =>
      call('POST', '/users', { token: stack.token, body: { email, password: first, groups: ['viewer'] } });
    const { body } = await until('a user', async () => {
      const answer = await made();
      if (answer.status !== 201) throw new Error(`${answer.status} ${answer.body.message}`);
      return answer;
    });
    return { id: body.id ?? '', email, first };
  };

  // A person with a password, a second factor, and renewals; the last one reuses a refresh token.
  const ann = await newUser('ann@canary.example');
  const gated = pairOf(
    'of the first login',
    await call('POST', '/user/login', { body: { email: ann.email, password: ann.first } }),
  );
  const own = canary('own password', password());
  await refused('POST', '/user/change-password', {
    token: gated.accessToken,
    body: { currentPassword: own, newPassword: own },
  });
  await refused('POST', '/user/change-password', {
    token: gated.accessToken,
    body: { currentPassword: ann.first, newPassword: canary('bad password', `x${randomBytes(5).toString('hex')}`) },
  });
  const changed = { currentPassword: ann.first, newPassword: own };
  expect((await call('POST', '/user/change-password', { token: gated.accessToken, body: changed })).status).toBe(200);
  const login = { email: ann.email, password: own };
  const pair = pairOf('of a login', await call('POST', '/user/login', { body: login }));
  const token = pair.accessToken;
  const enrolled = (await call('POST', '/user/mfa/enroll', { token, body: {} })).body;
  const secret = canary('secret of the second factor', enrolled.secret);
  kept.add('secret of the second factor');
  const confirmed = await call('POST', '/user/mfa/confirm', {
    token,
    body: { code: oneTimeCode(secret, Date.now() - 30_000) },
  });
  expect(confirmed.status).toBe(200);
  for (const [index, code] of (confirmed.body.recoveryCodes ?? []).entries()) canary(`recovery code ${index}`, code);
  const [recovery = ''] = confirmed.body.recoveryCodes ?? [];
  pairOf('with a recovery code', await call('POST', '/user/login', { body: { ...login, totp: recovery } }));
  await refused('POST', '/user/login', { body: { ...login, totp: recovery } });
  const renewed = pairOf('renewed', await call('POST', '/user/refresh', { body: { refreshToken: pair.refreshToken } }));
  await until('the reuse of a refresh token to count', async () => {
    await refused('POST', '/user/refresh', { body: { refreshToken: pair.refreshToken } });
    return (await call('POST', '/user/refresh', { body: { refreshToken: renewed.refreshToken } })).status === 401;
  });
  await call('POST', '/user/logout', { token, body: { refreshToken: renewed.refreshToken } });

  // A person whom an administrator helps, and whose account strangers lock.
  const bob = await newUser('bob@canary.example');
  const reset = await call('POST', `/users/${bob.id}/reset-password`, { token: stack.token, body: {} });
  canary('temporary password', reset.body.temporaryPassword);
  const given = await call('POST', `/users/${bob.id}/reset-token`, { token: stack.token, body: {} });
  const resetToken = canary('reset token', given.body.resetToken);
  await refused('POST', '/user/change-password', { body: { resetToken: `${resetToken}x`, newPassword: own } });
  const next = canary('password by a reset token', password());
  expect((await call('POST', '/user/change-password', { body: { resetToken, newPassword: next } })).status).toBe(200);
  const pending = await call('POST', `/users/${bob.id}/reset-token`, { token: stack.token, body: {} });
  canary('reset token that nobody used', pending.body.resetToken);

  // A login in the browser, with what it carries, down to the tokens of the provider.
  const browser = openBrowser();
  const begun = await follow(browser, `${url}/api/v3/user/oauth/authorize`, isLoginPage);
  const resumed = await logInAt(browser, begun, { email: bob.email, password: next });
  const callback = await follow(browser, resumed, ({ searchParams }) => searchParams.has('code'));
  canary('code', new URL(callback).searchParams.get('code') ?? '');
  canary('state', new URL(callback).searchParams.get('state') ?? '');
  for (const [name, value] of browser.cookies()) canary(`cookie ${name}`, value);
  const end = new URL(await follow(browser, callback, ({ hash }) => hash !== ''));
  const fragment = new URLSearchParams(end.hash.slice(1));
  canary('access token of a browser', signatureOf(fragment.get('accessToken') ?? ''));
  canary('refresh token of a browser', signatureOf(fragment.get('refreshToken') ?? ''));
  const strange = canary('code of a stranger', `code-${randomBytes(16).toString('hex')}`);
  outputs.set(
    'callback of a stranger',
    await (await fetch(`${url}/api/v3/user/oauth/callback?code=${strange}&state=${strange}`)).text(),
  );
  const challenge = createHash('sha256').update(strange).digest('base64url');
  const query = `client_id=controller&response_type=code&state=any&nonce=${strange}&code_challenge=${challenge}`;
  outputs.set(
    'provider, a wrong request',
    await (await fetch(`${url}/oidc/auth?${query}`, { redirect: 'manual' })).text(),
  );
  const basic = canary('secret of a stranger', `secret-${randomBytes(24).toString('hex')}`);
  const redeemed = await fetch(`${url}/oidc/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`controller:${basic}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'authorization_code', code: strange, code_verifier: strange }),
  });
  outputs.set('provider, a wrong secret', await redeemed.text());

  // Guesses, and requests with a secret in the wrong place.
  const guess = canary('guess', password());
  for (let times = 0; times < 7; times += 1)
    await refused('POST', '/user/login', { body: { email: bob.email, password: guess } });
  const wrong = canary('secret in a wrong body', `wrong-${randomBytes(12).toString('hex')}`);
  for (const [path, body] of [
    ['/user/login', { email: wrong, password: wrong, totp: wrong }],
    ['/user/login', { email: ['a'], password: { a: wrong } }],
    ['/user/login', `{"email":"ann","password":"${wrong}"`],
    ['/user/login', { code: wrong, codeVerifier: `${wrong}${wrong}` }],
    ['/user/refresh', { refreshToken: wrong }],
    ['/user/change-password', { resetToken: wrong, newPassword: wrong }],
    [`/user/interaction/${wrong}/login`, { email: 'ann', password: wrong }],
    ['/user/mfa/confirm', { code: wrong }],
  ] as const)
    await refused('POST', path, { body });
  await refused('POST', '/users', { token: stack.token, body: { email: 'x', password: [wrong], groups: wrong } });
  await refused('GET', `/node-list?token=${wrong}&access_token=${wrong}`, {});
  const { body: rotated } = await call('POST', '/auth/jwks/rotate', { token: stack.token, body: {} });
  outputs.set('rotation', JSON.stringify(rotated));

  for (const [name, value] of await stored(stack)) {
    canary(name, value);
    kept.add(name);
  }
  return { secrets, kept, outputs };
}

interface Secret {
  metadata: { name: string };
  data?: Record<string, string>;
}

/** What the Secrets of identity have: hashes, keys, and secrets that the controller made for itself. */
async function stored({ kube, namespace }: Pick<Stack, 'kube' | 'namespace'>): Promise<[string, string][]> {
  const path = `/api/v1/namespaces/${namespace}/secrets?labelSelector=${encodeURIComponent(LABELS.identity)}`;
  const { items } = await kube.request<{ items: Secret[] }>('GET', path);
  const found: [string, string][] = [];
  for (const { metadata, data = {} } of items) {
    const texts = Object.entries(data).map(([key, text]) => [key, Buffer.from(text, 'base64').toString()] as const);
    for (const [key, text] of texts) {
      // The salt and the tag of an Argon2id hash, private numbers of keys, and random texts.
      for (const [, part] of text.matchAll(/"hash":"[^"]*\$([A-Za-z0-9+/]{40,})"/g))
        found.push([`hash in ${metadata.name} (${found.length})`, part ?? '']);
      for (const [, part] of text.matchAll(/"(?:d|p|q|dp|dq|qi)":"([A-Za-z0-9_-]{40,})"/g))
        found.push([`private key in ${metadata.name} (${found.length})`, part ?? '']);
      if (/^(clientSecret|sessionSecret)$/.test(key)) found.push([`${key} of ${metadata.name}`, text]);
      if (key === 'cookieKeys')
        for (const one of JSON.parse(text) as string[]) found.push([`cookie key (${found.length})`, one]);
    }
  }
  for (const what of ['hash in', 'private key in', 'clientSecret', 'sessionSecret', 'cookie key'])
    expect(
      found.some(([name]) => name.startsWith(what)),
      what,
    ).toBe(true);
  return found;
}
