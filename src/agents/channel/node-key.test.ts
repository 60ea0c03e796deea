import { expect, test } from 'vitest';
import { mayReplace } from './node-key.ts';

const MINUTE = 60_000;

test('a key of before an upgrade, sent again, does not take back an identity that a former version gave with a later key', () => {
  const former = { provisionedAt: 10 * MINUTE, keyIssuedAt: 0 };
  const key = { keyIssuedAt: 5 * MINUTE, keyExpiresAt: 25 * MINUTE, isFirstUse: false };
  expect(mayReplace({ ...former, keyExpiresAt: 29 * MINUTE }, key)).toBe(false);
  expect(mayReplace({ ...former, keyExpiresAt: 25 * MINUTE }, key)).toBe(true);
  expect(mayReplace({ ...former, keyExpiresAt: 24 * MINUTE }, { ...key, isFirstUse: true })).toBe(true);
});
