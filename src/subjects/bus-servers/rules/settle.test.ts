import { describe, expect, test } from 'vitest';
import { accountClaims } from '../../bus-rules/rules/tokens/claims.ts';
import { settleToken } from './settle.ts';

interface Given {
  iat: number;
  revoked?: readonly string[];
  keys?: readonly string[];
}

/** A token of which nobody here checks the signature. */
function token({ iat, revoked = [], keys = [] }: Given): string {
  const claims = accountClaims({
    ...{ operator: 'O', key: 'A', name: 'pumps', rule: {}, iat, signingKeys: keys },
    revocations: Object.fromEntries(revoked.map((user) => [user, iat])),
  });
  return `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`;
}

describe('servers are to have', () => {
  const cases: [
    title: string,
    wanted: Given | undefined,
    found: Given[],
    counts: Given | undefined,
    adopts: Given[],
  ][] = [
    ['the wanted token where no server has one', { iat: 1 }, [], { iat: 1 }, []],
    ['the wanted token where a server has an older one', { iat: 2 }, [{ iat: 1 }], { iat: 2 }, []],
    [
      'the token of a server that is later, after a restore of the datastore',
      { iat: 1 },
      [{ iat: 2 }],
      { iat: 2 },
      [{ iat: 2 }],
    ],
    [
      'the latest token of several servers, whose later ones are adopted',
      { iat: 2 },
      [{ iat: 1 }, { iat: 3 }, { iat: 4 }],
      { iat: 4 },
      [{ iat: 3 }, { iat: 4 }],
    ],
    [
      'the wanted token that was signed before a revocation was read back, which is adopted',
      { iat: 3 },
      [{ iat: 2, revoked: ['U'] }],
      { iat: 3 },
      [{ iat: 2, revoked: ['U'] }],
    ],
    [
      'the wanted token without the revocations of a signing key that ended',
      { iat: 3, keys: ['B'] },
      [{ iat: 2, revoked: ['U'], keys: ['A', 'B'] }],
      { iat: 3, keys: ['B'] },
      [],
    ],
    ['the wanted token that revokes more', { iat: 3, revoked: ['U'] }, [{ iat: 2 }], { iat: 3, revoked: ['U'] }, []],
    [
      'the token of a server where the datastore does not know the account',
      undefined,
      [{ iat: 1 }, { iat: 2 }],
      { iat: 2 },
      [],
    ],
    ['no token where nobody has one', undefined, [], undefined, []],
  ];
  test.each(cases)('%s', (_, wanted, found, counts, adopts) => {
    const settled = settleToken(wanted && token(wanted), found.map(token));
    expect(settled.token).toBe(counts && token(counts));
    expect(settled.adopts ?? []).toEqual(adopts.map(token));
  });

  test('the wanted token where a server has something that is no token', () => {
    expect(settleToken(token({ iat: 1 }), ['nonsense'])).toEqual({ token: token({ iat: 1 }) });
  });
});
