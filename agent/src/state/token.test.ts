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

test('a signed token is verified, and has its claims, times and an id', () => {
  expect(verifyToken(token, publicKey, 1000)).toMatchObject({ ...claims, iat: 1000, nbf: 1000, exp: 1060 });
  expect(verifyToken(token, publicKey, 1000)?.jti).not.toBe(
    verifyToken(signToken(signingKey(key), claims, 1000, 60), publicKey, 1000)?.jti,
  );
});

const refused: Record<string, [string, number?]> = {
  'a token that has expired': [token, 1060],
  'a token that is not valid yet': [token, 900],
  'a token without a signature': [`${encode({ alg: 'none' })}.${body}.`],
  'a token with a signature whose algorithm is none': [`${encode({ alg: 'none' })}.${body}.${signature}`],
  'a token whose claims were changed': [`${header}.${encode({ ...claims, sub: 'other', exp: 9999 })}.${signature}`],
  'a token signed with another key': [signToken(signingKey(newKey()), claims, 1000, 60)],
  'a token with four parts': [`${token}.x`],
  'three parts that are not a token': ['x.y.z'],
  'an empty text': [''],
};
for (const [name, [text, now = 1000]] of Object.entries(refused))
  test(`${name} is refused`, () => expect(verifyToken(text, publicKey, now)).toBeUndefined());
