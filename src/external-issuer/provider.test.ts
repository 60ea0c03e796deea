import { beforeEach, describe, expect, test } from 'vitest';
import { CLIENT, clientOf, patient, startProvider, type TestProvider } from './_provider.ts';

/** Logins by password, refreshes, logouts and profiles at a provider, with a real server as the provider. */

let provider: TestProvider;
let client: ReturnType<typeof clientOf>;
/** the forms that came to the token endpoint */
let forms: URLSearchParams[];
let answer: () => unknown;
let status: number;

beforeEach(async () => {
  provider = await startProvider();
  client = clientOf(provider);
  [forms, status] = [[], 200];
  answer = () => ({});
  provider.handle('/token', async (request, response, form) => {
    forms.push(form);
    const basic = Buffer.from(`${CLIENT.clientId}:${encodeURIComponent(CLIENT.clientSecret).replaceAll('%20', '+')}`);
    expect(request.headers.authorization).toBe(`Basic ${basic.toString('base64')}`);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(await answer()));
  });
  return async () => {
    await client[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
  };
});

const answering = (code: number, body: object) => {
  status = code;
  answer = () => body;
};
const pair = async (claims = {}, more = {}) => ({
  access_token: await provider.sign({ groups: ['sre'], ...claims }),
  token_type: 'Bearer',
  ...more,
});

describe('a login by password', () => {
  test('sends name, password, scope and the code, and gives the tokens of the provider', async () => {
    const tokens = await pair({}, { refresh_token: 'r-1' });
    answer = () => tokens;
    expect(await client.password('ann', 'pw', '123456', patient())).toEqual({
      accessToken: tokens.access_token,
      refreshToken: 'r-1',
    });
    expect(Object.fromEntries(forms[0] ?? [])).toMatchObject({
      ...{ grant_type: 'password', username: 'ann', password: 'pw', totp: '123456' },
      scope: 'openid profile email groups offline_access',
    });
  });

  test.each<[string, number, object, object]>([
    ['a wrong password', 400, { error: 'invalid_grant' }, { status: 401, code: 'INVALID_CREDENTIALS' }],
    ['a wrong password as Dex says it', 401, { error: 'access_denied' }, { status: 401, code: 'INVALID_CREDENTIALS' }],
    ['a provider without that form', 400, { error: 'unsupported_grant_type' }, { status: 501 }],
    ['a client that may not', 400, { error: 'unauthorized_client' }, { status: 501 }],
    [
      'a wrong secret of the client',
      401,
      { error: 'invalid_client' },
      { status: 503, message: expect.stringContaining('OIDC_CLIENT_SECRET') },
    ],
    [
      'a client without a scope',
      400,
      { error: 'invalid_scope' },
      { status: 503, message: expect.stringContaining('openid profile email groups offline_access') },
    ],
    ['a provider that fails', 500, {}, { status: 503 }],
    ['a reply without a token', 200, { token_type: 'Bearer' }, { status: 503 }],
    ['an opaque token', 200, { access_token: 'opaque', token_type: 'Bearer' }, { status: 401, code: 'OPAQUE_TOKEN' }],
  ])('with %s is refused with the reason', async (_, code, body, error) => {
    answering(code, body);
    await expect(client.password('ann', 'pw', undefined, patient())).rejects.toMatchObject(error);
  });

  test('is refused with words where the token is for another audience', async () => {
    const tokens = await pair({ aud: 'account' });
    answer = () => tokens;
    await expect(client.password('ann', 'pw', undefined, patient())).rejects.toMatchObject({
      status: 401,
      message: expect.stringContaining('its audience skerry'),
    });
  });

  test('shows nothing of the password, the secret or the reply in its error', async () => {
    answering(500, { secret: 'of the provider' });
    const error = await client.password('ann', 'pass-word', undefined, patient()).catch((one: Error) => one);
    expect(String(error)).not.toMatch(/pass-word|a secret|of the provider/);
  });
});

describe('a refresh', () => {
  test('keeps the refresh token where the provider gives no other', async () => {
    const tokens = await pair();
    answer = () => tokens;
    expect(await client.refresh('r-1', patient())).toEqual({ accessToken: tokens.access_token, refreshToken: 'r-1' });
    const next = await pair({}, { refresh_token: 'r-2' });
    answer = () => next;
    expect(await client.refresh('r-1', patient())).toMatchObject({ refreshToken: 'r-2' });
  });

  test('is 401 when the provider refuses it', async () => {
    answering(400, { error: 'invalid_grant' });
    await expect(client.refresh('r-1', patient())).rejects.toMatchObject({
      status: 401,
      code: 'INVALID_REFRESH_TOKEN',
    });
  });
});

describe('a logout', () => {
  test('revokes both tokens, and succeeds whatever the provider answers', async () => {
    const revoked: string[] = [];
    provider.handle('/revoke', (_, response, form) => {
      revoked.push(`${form.get('token_type_hint')} ${form.get('token')}`);
      response.writeHead(500).end();
    });
    await client.logout({ accessToken: 'a', refreshToken: 'r' });
    expect(revoked.sort()).toEqual(['access_token a', 'refresh_token r']);
    await provider.stop();
    await client.logout({ accessToken: 'a' });
  });

  test('asks for nothing at a provider that revokes nothing', async () => {
    delete provider.metadata.revocation_endpoint;
    await client.logout({ accessToken: 'a' });
    expect(provider.count('/revoke')).toBe(0);
  });
});

describe('a profile', () => {
  const profile = async () => {
    const token = await provider.sign({ groups: ['sre'] });
    const bearer = await client.verify(token, patient());
    if (!bearer) throw new Error('the token is not accepted');
    return client.profile(bearer, token, patient());
  };

  test('is what the provider says of the person', async () => {
    provider.json('/me', () => ({ sub: 'u-1', email: 'ann@x' }));
    expect(await profile()).toEqual({ sub: 'u-1', email: 'ann@x' });
  });

  test('is refused for another subject', async () => {
    provider.json('/me', () => ({ sub: 'u-2', email: 'eve@x' }));
    await expect(profile()).rejects.toMatchObject({ status: 401 });
  });

  test('is made of the token where the provider has no such endpoint', async () => {
    delete provider.metadata.userinfo_endpoint;
    expect(await profile()).toMatchObject({ sub: 'u-1', groups: ['sre'] });
  });

  test('is 503 while the provider is away', async () => {
    provider.handle('/me', (_, response) => response.destroy());
    await expect(profile()).rejects.toMatchObject({ status: 503 });
  });
});

test('a client sends its secret in the form where the provider takes no other', async () => {
  provider.metadata.token_endpoint_auth_methods_supported = ['client_secret_post'];
  const tokens = await pair();
  provider.handle('/token', (request, response, form) => {
    expect(request.headers.authorization).toBeUndefined();
    expect(form.get('client_secret')).toBe(CLIENT.clientSecret);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(tokens));
  });
  expect(await client.password('ann', 'pw', undefined, patient())).toEqual({ accessToken: tokens.access_token });
});
