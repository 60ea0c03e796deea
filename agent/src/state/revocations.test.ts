import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { memoryIdentity } from './_identity.ts';
import { memoryDatabase } from './database.ts';
import type { IdentityStore } from './identity.ts';
import { LocalTokens } from './local-tokens.ts';
import { loadIdentity } from './own-identity.ts';
import { REVOCATION_LIMIT, revocationListSchema } from './revocations.ts';
import { openRows } from './rows.ts';

/** What the list of revoked tokens says after an end of the process, and what its loss does. */

let folder: string;
let kept: IdentityStore;
beforeEach(() => {
  folder = join(temporaryFolder(), 'tokens');
  kept = memoryIdentity();
});

let wall = Date.UTC(2026, 6, 1);
const clock = { now: () => wall, wall: () => wall };
const subject = 'system:serviceaccount:shop:web';
const claims = { sub: subject, aud: ['a'], tokenUse: 'u' };

function start(): LocalTokens {
  const identity = loadIdentity(kept, memoryDatabase(), silentLog);
  return new LocalTokens({ clock, log: silentLog, identity, rows: openRows(folder, revocationListSchema) });
}

const file = () => join(folder, readdirSync(folder)[0] ?? 'list.json');

/** Tokens of which one is revoked by its id, one by its subject, and one is not. */
function revoked() {
  const tokens = start();
  const [byId, bySubject] = [tokens.issue('a', { ...claims, sub: 'x' }, 3600), tokens.issue('b', claims, 3600)];
  tokens.revoke([{ jti: byId.jti }]);
  tokens.revoke([{ subject }]);
  const valid = tokens.issue('b', claims, 3600);
  return { ended: [byId.token, bySubject.token], valid: valid.token };
}

const judged = (tokens: LocalTokens, { ended, valid }: ReturnType<typeof revoked>) => ({
  ended: ended.map((token) => tokens.verify(token) !== undefined),
  valid: tokens.verify(valid) !== undefined,
});

describe('a revocation', () => {
  test('holds after a start', () => {
    const tokens = revoked();
    expect(judged(start(), tokens)).toEqual({ ended: [false, false], valid: true });
  });

  test('holds after a start whose clock is a day behind, or ahead', () => {
    const tokens = revoked();
    for (const days of [-1, 1, 0]) {
      wall += days * 24 * 3600 * 1000;
      expect(judged(start(), tokens).ended).toEqual([false, false]);
    }
  });

  test('holds after the end of a membership', () => {
    const tokens = revoked();
    const identity = kept.load();
    if (identity) kept.save({ ...identity, node: undefined });
    expect(judged(start(), tokens)).toEqual({ ended: [false, false], valid: true });
  });
});

/** What may happen to the list, each with whether a token that was not revoked is valid after it. */
const LOSSES: Record<string, (text: string) => void> = {
  'that is gone': () => rmSync(folder, { recursive: true }),
  'that is empty': () => writeFileSync(file(), ''),
  'that is cut off': (text) => writeFileSync(file(), text.slice(0, -9)),
  'in which a byte has flipped': (text) => writeFileSync(file(), text.replace('"key"', '"kez"')),
  'that is older than it was': () => {
    const rows = openRows(folder, revocationListSchema);
    const list = rows.all.get('list');
    if (list) rows.save('list', { ...list, subjects: {} });
  },
};
for (const [name, lose] of Object.entries(LOSSES))
  test(`a list ${name} ends all tokens, so that no revoked one is valid again`, () => {
    const tokens = revoked();
    lose(readFileSync(file(), 'utf8'));
    const after = start();
    expect(judged(after, tokens)).toEqual({ ended: [false, false], valid: false });
    // From here on everything is as on a new machine.
    const next = after.issue('b', claims, 3600).token;
    expect(start().verify(next)).toBeDefined();
    expect(judged(start(), tokens).ended).toEqual([false, false]);
  });

test('a lost list ends all tokens also where the new key cannot be saved', () => {
  const tokens = revoked();
  rmSync(folder, { recursive: true });
  const save = kept.save;
  kept.save = () => {
    throw new Error('read-only');
  };
  const after = start();
  expect(judged(after, tokens)).toEqual({ ended: [false, false], valid: false });
  expect(after.verify(after.issue('b', claims, 3600).token)).toBeDefined();
  kept.save = save;
  expect(judged(start(), tokens)).toEqual({ ended: [false, false], valid: false });
});

test('a list that the process could not tell the identity of is not lost', () => {
  const save = kept.save;
  start();
  kept.save = () => {
    throw new Error('read-only');
  };
  const tokens = revoked();
  kept.save = save;
  expect(judged(start(), tokens)).toEqual({ ended: [false, false], valid: true });
});

test('a list that is full ends by another key, and its tokens with the key', () => {
  const tokens = start();
  const { token } = tokens.issue('a', claims, 3600);
  const before = tokens.key.x;
  let told = 0;
  tokens.onRevoked((isRevoked) => {
    if (isRevoked({ sub: 'other', jti: 'other' } as never)) told++;
  });
  const some = (count: number) => Array.from({ length: count }, () => ({ jti: randomUUID() }));
  expect(tokens.revoke(some(REVOCATION_LIMIT))).toBe(false);
  expect(tokens.verify(token)).toBeDefined();
  expect(tokens.revoke(some(1))).toBe(true);
  expect([tokens.key.x === before, tokens.verify(token), told]).toEqual([false, undefined, 1]);
  expect(existsSync(file())).toBe(false);
  expect(start().key.x).toBe(tokens.key.x);
});

test('a token that an earlier process left is listed, and is the one before the next', () => {
  const { token, jti } = start().issue('a', claims, 3600);
  const tokens = start();
  tokens.note('a', token);
  const next = tokens.issue('a', claims, 3600);
  expect(tokens.list().map(({ claims: { jti }, rotatedFrom }) => [jti, rotatedFrom])).toEqual(
    expect.arrayContaining([
      [jti, undefined],
      [next.jti, jti],
    ]),
  );
});

test('a token whose time is over is no longer listed', () => {
  const tokens = start();
  tokens.issue('a', claims, 60);
  wall += 61_000;
  expect(tokens.list()).toEqual([]);
});
