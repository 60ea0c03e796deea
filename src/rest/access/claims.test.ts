import { expect, test } from 'vitest';
import { unverifiedClaims } from './claims.ts';

const jwt = (claims: unknown) => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`;
const named = { iss: 'https://cluster', sub: 'ann' };
const account = (uid: string) => ({ ...named, 'kubernetes.io': { serviceaccount: { uid } } });

test('tokens of one subject have one subject, whatever else they claim', () => {
  const { subject, expiresAt } = unverifiedClaims(jwt({ ...named, exp: 2 }));
  expect(subject).toMatch(/^.{44}$/);
  expect(expiresAt).toBe(2_000);
  expect(unverifiedClaims(jwt({ ...named, exp: 3 })).subject).toBe(subject);
  const others = [{ ...named, iss: 'https://other' }, { ...named, sub: 'bob' }, account('1'), account('2')];
  expect(new Set([subject, ...others.map((claims) => unverifiedClaims(jwt(claims)).subject)]).size).toBe(5);
});

test.each([
  ['is no JWT', 'abc'],
  ['has two parts', 'a.b'],
  ['has a payload that is no JSON', 'a.b.c'],
  ['claims null', jwt(null)],
  ['claims a list', jwt([1])],
  ['names no issuer', jwt({ sub: 'ann' })],
  ['names a subject that is no text', jwt({ ...named, sub: 1 })],
  ['names a long subject', jwt({ ...named, sub: 'a'.repeat(1_025) })],
  ['names a uid that is no text', jwt({ ...named, 'kubernetes.io': { serviceaccount: { uid: {} } } })],
  ['has a long payload', jwt({ ...named, more: 'a'.repeat(8 * 1024) })],
])('a token that %s names no subject', (_, token) => {
  expect(unverifiedClaims(token).subject).toBeUndefined();
});
