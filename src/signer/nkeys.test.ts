import { createAccount, createOperator, createUser, fromPublic, fromSeed } from 'nkeys.js';
import { describe, expect, test } from 'vitest';
import { isPublicKey, type NkeyKind, readSeed } from '../rules/nkey-text.ts';
import { makeNkey, publicNkey, signJwt } from './nkeys.ts';

const KINDS: [NkeyKind, string, () => ReturnType<typeof createUser>][] = [
  ['operator', 'O', createOperator],
  ['account', 'A', createAccount],
  ['user', 'U', createUser],
];
const bytes = (text: string) => new TextEncoder().encode(text);

describe.each(KINDS)('a key of kind %s', (kind, letter, theirs) => {
  test('is read by nkeys.js with the same public key', async () => {
    const key = await makeNkey(kind);
    expect(fromSeed(bytes(key.seed)).getPublicKey()).toBe(key.publicKey);
    expect(key.publicKey).toMatch(new RegExp(`^${letter}[A-Z2-7]{55}$`));
    expect(key.seed).toMatch(new RegExp(`^S${letter}[A-Z2-7]{56}$`));
  });

  test('has the same public key here and in nkeys.js, which made it', () => {
    const pair = theirs();
    const seed = new TextDecoder().decode(pair.getSeed());
    expect(publicNkey(seed)).toBe(pair.getPublicKey());
    expect(readSeed(seed)?.kind).toBe(kind);
    expect(KINDS.filter(([other]) => isPublicKey(pair.getPublicKey(), other)).map(([other]) => other)).toEqual([kind]);
  });

  test('signs tokens that nkeys.js verifies', async () => {
    const key = await makeNkey(kind);
    const token = await signJwt({ iss: key.publicKey, name: 'Ünit' }, key.seed);
    const [header = '', payload = '', signature = ''] = token.split('.');
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({ typ: 'JWT', alg: 'ed25519-nkey' });
    expect(JSON.parse(Buffer.from(payload, 'base64url').toString())).toEqual({ iss: key.publicKey, name: 'Ünit' });
    const verifier = fromPublic(key.publicKey);
    expect(verifier.verify(bytes(`${header}.${payload}`), Buffer.from(signature, 'base64url'))).toBe(true);
  });
});

test('a token of another issuer is not signed', async () => {
  const [key, other] = [await makeNkey('account'), await makeNkey('account')];
  await expect(signJwt({ iss: other.publicKey }, key.seed)).rejects.toThrow(
    `a token of the issuer ${other.publicKey} cannot be signed with the key ${key.publicKey}`,
  );
});

describe('text that is no seed', () => {
  test.each<[string, (seed: string) => string]>([
    ['that is empty', () => ''],
    ['with a digit that base32 does not have', (seed) => `${seed.slice(0, -1)}1`],
    ['with another letter', (seed) => `${seed.slice(0, 20)}${seed[20] === 'A' ? 'B' : 'A'}${seed.slice(21)}`],
    ['with a letter more', (seed) => `${seed}A`],
    ['in lower case', (seed) => seed.toLowerCase()],
  ])('%s is refused, and the error does not repeat it', async (_, change) => {
    const { seed } = await makeNkey('user');
    const wrong = change(seed);
    expect(() => publicNkey(wrong)).toThrow(/^not a seed of a key of the message bus$/);
  });
});

describe('a public key', () => {
  test('with another letter is none', async () => {
    const { publicKey } = await makeNkey('account');
    const changed = `${publicKey.slice(0, 9)}${publicKey[9] === 'A' ? 'B' : 'A'}${publicKey.slice(10)}`;
    expect([publicKey, changed].map((text) => isPublicKey(text, 'account'))).toEqual([true, false]);
  });
});
