import { expect, test } from 'vitest';
import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusClaims } from '../../bus-rules/rules/tokens/claims.ts';
import { lostKey } from './lost-key.ts';

const account = (system: BusAccount['spec']['system'], status: object = {}): BusAccount =>
  ({ metadata: { name: 'a' }, spec: { name: 'a', system }, status }) as unknown as BusAccount;
const token = (sub: string, iat: number) => ({ sub, iat }) as BusClaims;
const STATUS = { publicKey: 'AK', issuedAt: 10 };
const found = (key: string, iat: number) => ({ key, token: token(key, iat) });

test.each([
  ['a new account has none', account(undefined), undefined, undefined, undefined],
  [
    'the status has it while there is no Secret',
    account(undefined, STATUS),
    undefined,
    undefined,
    { key: 'AK', issuedAt: 10 },
  ],
  [
    'the Secret of an application counts, however old it is',
    account(undefined, STATUS),
    found('AK', 5),
    undefined,
    undefined,
  ],
  ['the Secret of the controller counts likewise', account('controller', STATUS), found('AK', 5), undefined, undefined],
  ['the Secret of the servers counts', account('system', STATUS), found('AK', 10), undefined, undefined],
  [
    'the Secret of the servers counts where the status is behind',
    account('system', STATUS),
    found('AK', 11),
    undefined,
    undefined,
  ],
  [
    'an older Secret of the servers does not',
    account('system', STATUS),
    found('AK', 9),
    undefined,
    { key: 'AK', issuedAt: 10 },
  ],
  [
    'an older Secret of a leaf does not',
    account('leaf', STATUS),
    found('AK', 9),
    undefined,
    { key: 'AK', issuedAt: 10 },
  ],
  [
    'a Secret of the servers without a token does not',
    account('system', STATUS),
    { key: 'AK', token: undefined },
    undefined,
    { key: 'AK', issuedAt: 10 },
  ],
  [
    'a Secret of the servers with another key does not',
    account('system', STATUS),
    found('AX', 20),
    undefined,
    { key: 'AK', issuedAt: 10 },
  ],
  [
    'an account that is made again has what servers are started with',
    account('system'),
    undefined,
    token('AK', 7),
    { key: 'AK', issuedAt: 7 },
  ],
  [
    'a Secret counts although servers are started with a later token, as after a restore of the datastore',
    account('system', STATUS),
    found('AK', 11),
    token('AK', 12),
    undefined,
  ],
  [
    'the status counts before what servers are started with',
    account('system', STATUS),
    undefined,
    token('AX', 12),
    { key: 'AK', issuedAt: 10 },
  ],
])('%s', (_, object, secret, started, expected) => {
  expect(lostKey(object, secret, started)).toEqual(expected);
});
