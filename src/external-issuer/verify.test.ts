import { createHmac } from 'node:crypto';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { clientOf, makeSigningKey, patient, type SignOptions, startProvider, type TestProvider } from './_provider.ts';

/** Which tokens of a provider the controller accepts, with a real server as the provider. */

let provider: TestProvider;
let client: ReturnType<typeof clientOf>;
/** ms by which the controller's clocks are ahead */
let ahead: number;
const clock = {
  now: () => performance.now() + ahead,
  wall: () => Date.now() + ahead,
  after: () => () => {},
};

beforeEach(async () => {
  ahead = 0;
  provider = await startProvider();
  client = clientOf(provider, { clock });
  return async () => {
    await client[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
  };
});

const verify = (token: string) => client.verify(token, patient());
const verified = async (claims: Record<string, unknown> = {}, options: SignOptions = {}) =>
  verify(await provider.sign(claims, options));

describe('an access token of the provider', () => {
  test('names a person with the prefix of the roles, and everybody with a login', async () => {
    expect(await verified({ preferred_username: 'ann', groups: ['SRE'] })).toMatchObject({
      user: { name: 'skerry:ann', uid: 'u-1', groups: ['skerry:sre', 'system:authenticated'] },
      human: 'ann',
      door: 'external',
    });
  });

  test.each<[string, Record<string, unknown>, SignOptions?]>([
    ['of another issuer', { iss: 'https://elsewhere.example' }],
    ['whose issuer has another slash at its end', { iss: 'ISSUER/' }],
    ['for another client', { aud: 'other' }],
    ['for several others', { aud: ['other', 'skerry2'] }],
    ['without an audience', { aud: undefined }],
    ['without a subject', { sub: undefined }],
    ['without an end', { exp: undefined }],
    ['that ended 61 seconds ago', { exp: Math.floor(Date.now() / 1000) - 62 }],
    ['that begins later', { nbf: Math.floor(Date.now() / 1000) + 120 }],
    ['that was issued later', { iat: Math.floor(Date.now() / 1000) + 120 }],
    ['to refresh', { token_use: 'refresh' }],
    ['that is an ID token by token_use', { token_use: 'id' }],
    ['that is a refresh token by typ', { typ: 'Refresh' }],
    ['that is an ID token by typ', { typ: 'ID' }],
    ['that is an offline token by typ', { typ: 'Offline' }],
    ['that logs out', {}, { header: { typ: 'logout+jwt' } }],
    ['that is a proof of possession', {}, { header: { typ: 'dpop+jwt' } }],
    ['with a critical member', {}, { header: { crit: ['b64'], b64: true } }],
    ['that names the place of its key', {}, { header: { jku: 'http://localhost/keys' } }],
    ['that brings a certificate', {}, { header: { x5c: ['AA=='] } }],
    ['of a name with a control character', { preferred_username: 'a\u0000b' }],
    ['of a name that the system has', { preferred_username: 'system:admin' }, {}],
  ])('%s is refused', async (what, claims, options = {}) => {
    if (what.includes('slash')) claims.iss = `${provider.issuer}/`;
    if (what.includes('system')) {
      const bare = await import('./claims.ts');
      expect(bare.personOf({ ...claims, sub: 'u' }, { clientId: 'skerry', prefix: '' })).toBeUndefined();
      return;
    }
    expect(await verified(claims, options)).toBeUndefined();
  });

  test.each([
    ['an audience in a list', { aud: ['other', 'skerry'] }],
    ['the nonce and hash of an ID token', { nonce: 'n', at_hash: 'h' }],
    ['typ Bearer', { typ: 'Bearer' }],
    ['token_use access', { token_use: 'access' }],
    ['an end a minute ago', { exp: Math.floor(Date.now() / 1000) - 30 }],
  ])('with %s is accepted', async (_, claims) => {
    expect(await verified(claims)).toMatchObject({ door: 'external' });
  });

  test('signed by another key of the same id, with none, or with the public key as a secret is refused', async () => {
    const other = { ...(await makeSigningKey('other')), kid: 'first' };
    expect(await verified({}, { by: other })).toBeUndefined();
    const [, payload = ''] = (await provider.sign()).split('.');
    const part = (header: object) => Buffer.from(JSON.stringify(header)).toString('base64url');
    expect(await verify(`${part({ alg: 'none' })}.${payload}.`)).toBeUndefined();
    expect(await verify(`${part({ alg: 'none' })}.${payload}.AA`)).toBeUndefined();
    const head = part({ alg: 'HS256', kid: 'first' });
    const mac = createHmac('sha256', JSON.stringify(provider.key.jwk)).update(`${head}.${payload}`).digest('base64url');
    expect(await verify(`${head}.${payload}.${mac}`)).toBeUndefined();
  });

  test('is accepted by each kind of key', async () => {
    for (const alg of ['PS256', 'ES256', 'ES384', 'EdDSA']) {
      const key = await makeSigningKey(alg, alg);
      provider.use(key);
      ahead += 11_000;
      expect(await verified({}, { by: key }), alg).toBeDefined();
    }
  });

  test('without a key id is verified by the only key of its kind', async () => {
    expect(await verified({}, { header: { kid: undefined } })).toBeDefined();
    const second = await makeSigningKey('second');
    provider.use(second, [provider.key.jwk, second.jwk]);
    ahead += 11_000;
    await verified({}, { by: second });
    expect(await verified({ jti: 'x' }, { by: second, header: { kid: undefined } })).toBeUndefined();
  });
});

describe('groups', () => {
  test.each<[string, Record<string, unknown>, string[]]>([
    [
      'of the client before all others',
      { resource_access: { skerry: { roles: ['A'] } }, roles: ['b'], groups: ['c'] },
      ['a'],
    ],
    ['of roles before groups', { resource_access: { account: { roles: ['x'] } }, roles: ['B'], groups: ['c'] }, ['b']],
    ['of groups', { groups: ['C', 'c', 'd'] }, ['c', 'd']],
    ['that are no list of texts', { groups: ['a', 1, null, ''], roles: 'admin' }, ['a']],
    ['that are absent', { _claim_names: { groups: 'src1' } }, []],
  ])('%s count', async (_, claims, groups) => {
    const { user } = (await verified(claims)) ?? {};
    expect(user?.groups).toEqual([...groups.map((one) => `skerry:${one}`), 'system:authenticated']);
  });
});

describe('the name of a person', () => {
  test.each<[Record<string, unknown>, string]>([
    [{ preferred_username: 'ann', username: 'b', email: 'c@x' }, 'ann'],
    [{ username: 'b', email: 'c@x' }, 'b'],
    [{ email: 'c@x', email_verified: true }, 'c@x'],
    [{ email: 'c@x', email_verified: false }, 'u-1'],
    [{ preferred_username: '', username: 7 }, 'u-1'],
  ])('follows from %j: %s', async (claims, human) => {
    expect(await verified(claims)).toMatchObject({ human, user: { name: `skerry:${human}` } });
  });
});

describe('the keys of the provider', () => {
  test('are fetched once for many tokens, and known tokens ask for nothing', async () => {
    const tokens = await Promise.all(['a', 'b', 'c'].map((jti) => provider.sign({ jti })));
    for (const token of [...tokens, ...tokens]) expect(await verify(token)).toBeDefined();
    expect(provider.count('/keys')).toBe(1);
    expect(provider.count('/.well-known/openid-configuration')).toBe(1);
  });

  test('verify tokens while the provider is away, and its return is found', async () => {
    expect(await verified()).toBeDefined();
    await provider.stop();
    ahead += 3_600_000;
    const now = Math.floor(clock.wall() / 1000);
    expect(await verified({ jti: 'new', iat: now, exp: now + 60 })).toBeDefined();
    const second = await makeSigningKey('second');
    const times = { iat: now, exp: now + 60 };
    await expect(verified(times, { by: second })).rejects.toMatchObject({ status: 503 });
    provider.use(second);
    await provider.start();
    ahead += 11_000;
    expect(await verified(times, { by: second })).toBeDefined();
  });

  test('are asked for, when nobody knows them, every ten seconds at most, whatever tokens come', async () => {
    expect(await verified()).toBeDefined();
    ahead += 11_000;
    const strangers = await Promise.all(Array.from({ length: 20 }, (_, i) => makeSigningKey(`stranger ${i}`, 'ES256')));
    for (const by of strangers) expect(await verified({}, { by })).toBeUndefined();
    expect(provider.count('/keys')).toBe(2);
  });

  test('are forgotten once the provider has withdrawn them', async () => {
    const token = await provider.sign();
    expect(await verify(token)).toBeDefined();
    const next = await makeSigningKey('next');
    provider.use(next);
    ahead += 11_000;
    expect(await verified({}, { by: next })).toBeDefined();
    expect(await verify(token)).toBeUndefined();
  });

  test('are exchanged when tokens of others with the same id come', async () => {
    expect(await verified()).toBeDefined();
    const same = await makeSigningKey('first');
    provider.use(same);
    ahead += 11_000;
    expect(await verified({}, { by: same })).toBeDefined();
  });

  test('are asked for after the limit of an address only, unless they are known', async () => {
    const guesses = { unknown: vi.fn(), wrong: vi.fn() };
    await client.verify(await provider.sign(), patient(), guesses);
    expect(guesses.unknown).toHaveBeenCalledTimes(1);
    await client.verify(await provider.sign({ jti: '2' }), patient(), guesses);
    expect(guesses.unknown).toHaveBeenCalledTimes(1);
    expect(guesses.wrong).not.toHaveBeenCalled();
    await client.verify(await provider.sign({ aud: 'other' }), patient(), guesses);
    expect(guesses.wrong).toHaveBeenCalledTimes(1);
  });
});
