import { createHmac, generateKeyPairSync, type JsonWebKey, sign } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { SigningKeys } from './contract/keys.ts';
import type { UserFacts } from './contract/users.ts';
import { createTokenVerifier } from './verifier.ts';

/** Tokens that nobody may be let in with, against the verifier of the product and real keys. */
const ISSUER = 'https://controller.example/oidc';
const NOW = 1_800_000_000_000;
const SECONDS = NOW / 1000;
const pairOf = () => generateKeyPairSync('rsa', { modulusLength: 2048 });
const own = pairOf();
const foreign = pairOf();
const publicJwk = { ...own.publicKey.export({ format: 'jwk' }), kid: 'k1', use: 'sig', alg: 'RS256' } as JsonWebKey;
const UUID = '0b2f3f5e-3f0a-4a7e-9c39-6f6f3f0a4a7e';

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const HEADER = { alg: 'RS256', kid: 'k1', typ: 'JWT' };
const CLAIMS = {
  iss: ISSUER,
  aud: 'controller',
  sub: UUID,
  iat: SECONDS - 10,
  exp: SECONDS + 890,
  token_use: 'access',
  preferred_username: 'ann@example.com',
  email: 'ann@example.com',
  groups: ['admin', 'ops'],
};

interface Forgery {
  header?: object;
  claims?: object;
  key?: typeof own.privateKey;
  signature?: (input: string) => string;
}

function tokenOf({ header = HEADER, claims = CLAIMS, key = own.privateKey, signature }: Forgery = {}): string {
  const input = `${part(header)}.${part(claims)}`;
  return `${input}.${signature?.(input) ?? sign('sha256', Buffer.from(input), key).toString('base64url')}`;
}

const without = (name: keyof typeof CLAIMS) =>
  Object.fromEntries(Object.entries(CLAIMS).filter(([key]) => key !== name));
const hmacWith = (secret: string) => (input: string) => createHmac('sha256', secret).update(input).digest('base64url');
const pem = own.publicKey.export({ format: 'pem', type: 'spki' }) as string;

const keys = {
  find: async (kid: string) => (kid === 'k1' ? publicJwk : undefined),
} as Partial<SigningKeys> as SigningKeys;
const FACTS: UserFacts = {
  email: 'ann@example.com',
  name: 'ann@example.com',
  groups: ['ops', 'dev'],
  mustChangePassword: false,
  isBootstrap: false,
  mfaEnabled: false,
  lockedUntil: 0,
  passwordAt: 0,
};

function verifierOf({ facts = FACTS as UserFacts | null, prefix = 'skerry', now = NOW } = {}) {
  let reads = 0;
  let time = now;
  const verifier = createTokenVerifier({
    ...{ issuer: ISSUER, audience: 'controller', keys, prefix },
    users: {
      synced: true,
      facts: (uuid) => (uuid === UUID ? (facts ?? undefined) : undefined),
      byUuid: async () => {
        reads++;
        return undefined;
      },
    },
    presentGroup: (name) => (name === 'platform' ? 'ops' : name),
    now: () => time,
  });
  return {
    verify: (token: string) => verifier.verify(token, new AbortController().signal),
    reads: () => reads,
    at: (later: number) => {
      time = later;
    },
  };
}

const FORGED: Record<string, string> = {
  'alg none': tokenOf({ header: { ...HEADER, alg: 'none' }, signature: () => '' }),
  'alg None with a signature': tokenOf({ header: { ...HEADER, alg: 'None' } }),
  'HS256 with the public key as its secret': tokenOf({ header: { ...HEADER, alg: 'HS256' }, signature: hmacWith(pem) }),
  'HS256 with the modulus as its secret': tokenOf({
    header: { ...HEADER, alg: 'HS256' },
    signature: hmacWith(String(publicJwk.n)),
  }),
  'RS512 of our key': tokenOf({ header: { ...HEADER, alg: 'RS512' } }),
  'PS256 in the header': tokenOf({ header: { ...HEADER, alg: 'PS256' } }),
  'another key': tokenOf({ key: foreign.privateKey }),
  'another key in the header': tokenOf({
    header: { ...HEADER, jwk: foreign.publicKey.export({ format: 'jwk' }) },
    key: foreign.privateKey,
  }),
  'our key, with a jwk in the header': tokenOf({ header: { ...HEADER, jwk: publicJwk } }),
  'a jku': tokenOf({ header: { ...HEADER, jku: 'https://evil.example/jwks' } }),
  'an x5u': tokenOf({ header: { ...HEADER, x5u: 'https://evil.example/x' } }),
  'an x5c': tokenOf({ header: { ...HEADER, x5c: ['AAAA'] } }),
  'a crit': tokenOf({ header: { ...HEADER, crit: ['exp'], exp: 1 } }),
  'b64 false': tokenOf({ header: { ...HEADER, b64: false, crit: ['b64'] } }),
  'a zip': tokenOf({ header: { ...HEADER, zip: 'DEF' } }),
  'an unknown kid': tokenOf({ header: { ...HEADER, kid: 'k2' } }),
  'a kid that is a path': tokenOf({ header: { ...HEADER, kid: '../../etc/passwd' } }),
  'no kid': tokenOf({ header: { alg: 'RS256', typ: 'JWT' } }),
  'a kid that is no text': tokenOf({ header: { ...HEADER, kid: 1 } }),
  'the typ of an access token of others': tokenOf({ header: { ...HEADER, typ: 'at+jwt' } }),
  'the typ of a logout token': tokenOf({ header: { ...HEADER, typ: 'logout+jwt' } }),
  'no signature': tokenOf({ signature: () => '' }),
  'the signature of other claims': tokenOf({
    claims: { ...CLAIMS, groups: ['admin'] },
    signature: () => tokenOf().split('.')[2] ?? '',
  }),
  'another issuer': tokenOf({ claims: { ...CLAIMS, iss: 'https://evil.example/oidc' } }),
  'the issuer with a slash': tokenOf({ claims: { ...CLAIMS, iss: `${ISSUER}/` } }),
  'another audience': tokenOf({ claims: { ...CLAIMS, aud: 'console' } }),
  'no audience': tokenOf({ claims: without('aud') }),
  'an audience in an object': tokenOf({ claims: { ...CLAIMS, aud: { controller: true } } }),
  'token_use refresh': tokenOf({ claims: { ...CLAIMS, token_use: 'refresh', jti: 'a', family_id: 'b' } }),
  'an ID token': tokenOf({ claims: { ...without('token_use'), nonce: 'n' } }),
  'no subject': tokenOf({ claims: without('sub') }),
  'a subject that is no text': tokenOf({ claims: { ...CLAIMS, sub: 7 } }),
  'no expiry': tokenOf({ claims: without('exp') }),
  'an expiry that is text': tokenOf({ claims: { ...CLAIMS, exp: String(SECONDS + 900) } }),
  'an end 61 s ago': tokenOf({ claims: { ...CLAIMS, exp: SECONDS - 61 } }),
  'no time of issue': tokenOf({ claims: without('iat') }),
  'a beginning in 61 s': tokenOf({ claims: { ...CLAIMS, nbf: SECONDS + 61 } }),
  'groups that are text': tokenOf({ claims: { ...CLAIMS, groups: 'admin' } }),
  'a subject that nobody has': tokenOf({ claims: { ...CLAIMS, sub: '00000000-0000-4000-8000-000000000000' } }),
  'four parts': `${tokenOf()}.x`,
  'two parts': tokenOf().split('.').slice(0, 2).join('.'),
  'a header that is no JSON': `x.${part(CLAIMS)}.y`,
  'claims that are a list': `${part(HEADER)}.${part([CLAIMS])}.y`,
  'a padded part': tokenOf().replace('.', '=.'),
  'more than 16 KiB': tokenOf({ claims: { ...CLAIMS, filler: 'x'.repeat(16 * 1024) } }),
  nothing: '',
};

describe('a token is refused with', () => {
  test.each(Object.entries(FORGED))('%s', async (_, token) => {
    expect(await verifierOf().verify(token)).toBeUndefined();
  });
});

describe('a token of ours', () => {
  test('has the prefixed name, and the groups that the user still has', async () => {
    expect(await verifierOf().verify(tokenOf())).toMatchObject({
      user: { name: 'skerry:ann@example.com', uid: UUID, groups: ['skerry:ops', 'system:authenticated'] },
      human: 'ann@example.com',
      door: 'embedded',
      subject: UUID,
      expiresAt: (SECONDS + 890) * 1000,
    });
  });

  test('may name a group by its former name', async () => {
    const token = tokenOf({ claims: { ...CLAIMS, groups: ['platform'] } });
    expect((await verifierOf().verify(token))?.user.groups).toEqual(['skerry:ops', 'system:authenticated']);
  });

  test('has the present name of its user', async () => {
    const facts = { ...FACTS, name: 'ann.new@example.com' };
    expect((await verifierOf({ facts }).verify(tokenOf()))?.user.name).toBe('skerry:ann.new@example.com');
  });

  test('is accepted again without its signature being checked, until it ends', async () => {
    const { verify, at } = verifierOf();
    const token = tokenOf();
    expect(await verify(token)).toBeDefined();
    at(NOW + 890_000 + 59_000);
    expect(await verify(token)).toBeDefined();
    at(NOW + 890_000 + 60_000);
    expect(await verify(token)).toBeUndefined();
  });

  test('is refused without a prefix when the name would be one of the cluster', async () => {
    const facts = { ...FACTS, name: 'system:admin' };
    expect(await verifierOf({ facts, prefix: '' }).verify(tokenOf())).toBeUndefined();
    expect(await verifierOf({ facts }).verify(tokenOf())).toBeDefined();
  });

  test('asks the API server once in five seconds for a user whom the store lacks', async () => {
    const { verify, reads, at } = verifierOf({ facts: null });
    const token = tokenOf();
    for (let i = 0; i < 5; i++) expect(await verify(token)).toBeUndefined();
    expect(reads()).toBe(1);
    at(NOW + 5_001);
    await verify(token);
    expect(reads()).toBe(2);
  });
});

describe('the change of a temporary password is due', () => {
  const gated = tokenOf({ claims: { ...CLAIMS, password_change_required: true } });

  test.each<[string, string, Partial<UserFacts>, string | undefined]>([
    ['while the user has to', tokenOf(), { mustChangePassword: true }, 'PASSWORD_CHANGE_REQUIRED'],
    ['while the token says so and nobody saw a change', gated, {}, 'PASSWORD_CHANGE_REQUIRED'],
    ['no longer once it was changed, with the same token', gated, { passwordAt: NOW }, undefined],
  ])('%s', async (_, token, changes, gate) => {
    expect((await verifierOf({ facts: { ...FACTS, ...changes } }).verify(token))?.gate).toBe(gate);
  });
});
