import { expect, test } from 'vitest';
import { presentSigningKey, rotated, type SigningKey } from './signing-keys.ts';

const key = (kid: string, signsFrom = 0): SigningKey => ({ kid, privateJwk: { kty: 'RSA' }, signsFrom });
const DAY = 86_400_000;

test('a new key signs a minute after it was published, and no sooner than ten seconds after a replica saw it', () => {
  const keys = rotated([key('old')], { kid: 'new', privateJwk: { kty: 'RSA' } }, 1_000, DAY);
  const at = (now: number, seenAt = 1_000) => presentSigningKey(keys, now, (kid) => (kid === 'new' ? seenAt : 0))?.kid;
  expect([at(60_999), at(61_000), at(61_000, 51_001), at(61_001, 51_001)]).toEqual(['old', 'new', 'old', 'new']);
});

test('the first key signs at once', () => {
  expect(presentSigningKey([key('first', 5_000)], 5_000, () => 5_000)?.kid).toBe('first');
});

test('a former key stays until its last token has ended', () => {
  const once = rotated([key('a')], { kid: 'b', privateJwk: { kty: 'RSA' } }, 0, DAY);
  const kids = (now: number) => rotated(once, { kid: 'c', privateJwk: { kty: 'RSA' } }, now, DAY).map(({ kid }) => kid);
  expect(kids(60_000 + DAY - 1)).toEqual(['a', 'b', 'c']);
  expect(kids(60_000 + DAY)).toEqual(['b', 'c']);
});
