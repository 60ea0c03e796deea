import { createPublicKey, type JsonWebKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { newKey, publicPart } from './identity.ts';
import { signingKey, signToken, verifyToken } from './token.ts';

const key = newKey();
const publicKey = createPublicKey({ key: publicPart(key) as JsonWebKey, format: 'jwk' });
const claims = { sub: 's', iss: 'i', aud: ['a'], tokenUse: 'u' };
const token = signToken(signingKey(key), claims, 1000, 60);
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const [header = '', body = '', signature = ''] = token.split('.');

test('what was signed is read again, with times and an id of its own', () => {
  expect(verifyToken(token, publicKey, 1000)).toMatchObject({ ...claims, iat: 1000, nbf: 1000, exp: 1060 });
  expect(verifyToken(token, publicKey, 1000)?.jti).not.toBe(
    verifyToken(signToken(signingKey(key), claims, 1000, 60), publicKey, 1000)?.jti,
  );
});

const refused: Record<string, [string, number?]> = {
  'one that has expired': [token, 1060],
  'one that is not valid yet': [token, 900],
  'one without a signature': [`${encode({ alg: 'none' })}.${body}.`],
  'one that says none and is signed': [`${encode({ alg: 'none' })}.${body}.${signature}`],
  'one whose claims were changed': [`${header}.${encode({ ...claims, sub: 'other', exp: 9999 })}.${signature}`],
  'one of another key': [signToken(signingKey(newKey()), claims, 1000, 60)],
  'one with too many parts': [`${token}.x`],
  nonsense: ['x.y.z'],
  nothing: [''],
};
for (const [name, [text, now = 1000]] of Object.entries(refused))
  test(`refused: ${name}`, () => expect(verifyToken(text, publicKey, now)).toBeUndefined());
