import { describe, expect, test } from 'vitest';
import { readTokens } from '../../../../../hack/bus-tokens.ts';
import { makeChain, nowSeconds } from '../../../../../testing/bus-chain.ts';
import type { BusAccountRuleSpec, BusUserRuleSpec } from '../../../../api/v3/index.ts';
import { makeNkey, signJwt } from '../../../../signer/nkeys.ts';
import { RESERVED_ACCOUNT_RULES, RESERVED_USER_RULES } from '../reserved-rules.ts';
import { accountRuleVerdict } from '../rule-verdict.ts';
import { operatorClaims } from './claims.ts';
import { credentials } from './credentials.ts';
import { decodeToken } from './decode.ts';

/** Tokens of our encoder as github.com/nats-io/jwt, the library of the servers, reads and judges them. */

const chain = await makeChain();
const account = await chain.account('Überwachung 監視');
const other = await chain.account('other');

/** An import or an export. */
type Share = NonNullable<BusAccountRuleSpec['imports']>[number] & NonNullable<BusAccountRuleSpec['exports']>[number];
const stream = (subject: string, more: object = {}) => ({ type: 'stream', subject, ...more }) as Share;
const service = (subject: string, more: object = {}) => ({ type: 'service', subject, ...more }) as Share;

/** Every member of an account rule, each with a value that the library keeps when it writes the claims again. */
const wholeAccount: BusAccountRuleSpec = {
  ...{ description: 'Für alle', infoUrl: 'https://example.com/a%20b', maxConnections: 1, maxLeafNodeConnections: 2 },
  ...{
    maxSubscriptions: 3,
    maxImports: 4,
    maxExports: 5,
    maxData: '6k',
    maxMsgPayload: 7,
    exportsAllowWildcards: true,
  },
  ...{ disallowBearer: true, pubAllow: ['a.*'], pubDeny: ['b'], subAllow: ['c q'], subDeny: ['>'], respMax: 8 },
  ...{ respTtl: 9, memStorage: '10m', diskStorage: '11g', streams: 12, consumer: 13, maxAckPending: 14 },
  ...{ memMaxStreamBytes: 15, diskMaxStreamBytes: 16, maxBytesRequired: true },
  imports: [
    stream('a.*.>', { account: other.publicKey, name: 'news', local_subject: 'far.$1.>' }),
    service('ask', { account: other.publicKey, share: true }),
  ],
  exports: [
    service('ask.*', { name: 'ask', response_type: 'Chunked', account_token_position: 2, token_req: true }),
    stream('news.>', { description: 'News', info_url: 'https://example.com' }),
  ],
};
const wholeUser: BusUserRuleSpec = {
  ...{ description: 'not in the token', maxSubscriptions: 1, maxData: '2k', maxPayload: 3, bearerToken: true },
  ...{ proxyRequired: true, allowedConnectionTypes: ['STANDARD', 'MQTT_WS'], src: ['10.0.0.1', '::1', '10.0.0.0/8'] },
  ...{ times: [{ start: '08:00:00', end: '17:00:00' }], timesLocation: 'Europe/Berlin', pubAllow: ['a.*'] },
  ...{ pubDeny: ['b'], subAllow: ['c q'], subDeny: ['>'], respMax: 4, respTtl: 5, tags: ['x', 'é'] },
};

const [signing, revoked] = [await makeNkey('account'), await makeNkey('user')];
const options = { signingKeys: [signing.publicKey], revocations: { [revoked.publicKey]: nowSeconds() } };

test('the whole of an operator, an account and a user is read as it was written, and each signed the next one', async () => {
  const system = operatorClaims({
    ...{ key: chain.operator.publicKey, name: 'skerry-operator', iat: 1, systemAccount: account.publicKey },
  });
  const operator = await signJwt(system, chain.operator.seed);
  const ofAccount = await account.token(wholeAccount, options);
  const user = await account.user(wholeUser, { exp: nowSeconds() + 60, name: 'leser' });
  const bySigningKey = await account.user({}, { signer: signing });
  const tokens = [operator, ofAccount, user.token, bySigningKey.token];
  const answers = await readTokens([
    { token: operator, issuer: operator },
    { token: ofAccount, issuer: operator },
    { token: user.token, issuer: ofAccount },
    { token: bySigningKey.token, issuer: ofAccount },
  ]);
  for (const [index, answer] of answers.entries()) {
    expect(answer).toMatchObject({ issues: [], isSigned: true });
    expect(pruned(answer.claims)).toEqual(decodeToken(tokens[index] as string));
  }
});

/** Objects without members that the library writes for an absent one. */
function pruned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(pruned);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([key, member]) => [key, pruned(member)] as const);
  return Object.fromEntries(members.filter(([, one]) => !isEmpty(one)));
}
const isEmpty = (value: unknown) => typeof value === 'object' && value !== null && Object.keys(value).length === 0;

test('an account with tiers is read as it was written', async () => {
  const token = await account.token({ tieredLimits: { R1: { diskStorage: '1g', streams: 2 }, R3: { memStorage: 1 } } });
  const [answer] = await readTokens([{ token, issuer: chain.token }]);
  expect(answer).toMatchObject({ issues: [], isSigned: true });
  expect(pruned(answer?.claims)).toEqual(decodeToken(token));
});

test.each(RESERVED_ACCOUNT_RULES)('the account rule $name is valid for the library', async ({ spec }) => {
  const [answer] = await readTokens([{ token: await account.token(spec), issuer: chain.token }]);
  expect(answer).toMatchObject({ issues: [], isSigned: true });
});

test.each(RESERVED_USER_RULES)('the user rule $name is valid for the library', async ({ spec }) => {
  const issuer = await account.token();
  const [answer] = await readTokens([{ token: (await account.user(spec)).token, issuer }]);
  expect(answer).toMatchObject({ issues: [], isSigned: true });
});

test('a file of credentials has the token and the seed', async () => {
  const user = await account.user();
  const file = credentials(user.token, user.seed);
  const [answer] = await readTokens([{ credentials: file, issuer: await account.token() }]);
  expect(answer).toMatchObject({ issues: [], isSigned: true, publicKey: user.publicKey });
  expect(answer?.claims?.sub).toBe(user.publicKey);
});

test('another account did not sign a user', async () => {
  const user = await account.user();
  const [answer] = await readTokens([{ token: user.token, issuer: await other.token() }]);
  expect(answer).toMatchObject({ issues: [], isSigned: false });
});

test('a changed token is refused by the library', async () => {
  const [header, payload = '', signature] = (await account.token()).split('.');
  const changed = Buffer.from(payload, 'base64url').toString().replace('"conn":-1', '"conn":99');
  const [answer] = await readTokens([
    { token: `${header}.${Buffer.from(changed).toString('base64url')}.${signature}` },
  ]);
  expect(answer?.error).toContain('signature');
});

describe('the library and our rules refuse', () => {
  const from = { account: other.publicKey };
  test.each<[string, BusAccountRuleSpec]>([
    ['a url without a scheme', { infoUrl: 'example.com' }],
    ['a url with an escape that is not finished', { infoUrl: 'https://a.b/%zz' }],
    ['more imports than maxImports', { maxImports: 0, imports: [stream('a', from)] }],
    ['more exports than maxExports', { maxExports: 0, exports: [stream('a')] }],
    ['wildcards that exports may not have', { maxExports: 1, exportsAllowWildcards: false, exports: [stream('a.*')] }],
    ['replies of a stream', { exports: [stream('a', { response_type: 'Stream' })] }],
    ['an account token that is no wildcard', { exports: [stream('a.*', { account_token_position: 1 })] }],
    ['an account token beyond the subject', { exports: [stream('a.*', { account_token_position: 3 })] }],
    ['an account token without wildcards', { exports: [stream('a', { account_token_position: 1 })] }],
    ['exports that overlap', { exports: [stream('a.*'), stream('a.b')] }],
    ['services that overlap', { imports: [service('a.*', from), service('b.*', { ...from, local_subject: 'a.$1' })] }],
    ['a stream that shares who asks', { imports: [stream('a', { ...from, share: true })] }],
    ['a local subject that loses a wildcard', { imports: [stream('a.*', { ...from, local_subject: 'b' })] }],
    [
      'a local subject that names a wildcard too many',
      { imports: [stream('a.*', { ...from, local_subject: 'b.$2' })] },
    ],
    ['a local subject that does not end in >', { imports: [stream('a.>', { ...from, local_subject: 'b' })] }],
  ])('%s', async (_, rule) => {
    const [answer] = await readTokens([{ token: await account.token(rule) }]);
    expect(answer?.issues).not.toEqual([]);
    expect(accountRuleVerdict(rule)).toMatchObject({ status: 400 });
  });
});

describe('an activation token of an import', () => {
  test('is valid for the library in the account that it is for, and left out elsewhere', async () => {
    const nats = { type: 'activation', version: 2, subject: 'news.>', kind: 'stream' };
    const claims = { jti: 'x', iat: nowSeconds(), iss: other.publicKey, sub: account.publicKey, name: 'a', nats };
    const imports = [stream('news.a', { account: other.publicKey, token: await signJwt(claims, other.seed) })];
    expect(accountRuleVerdict({ imports })).toBeUndefined();
    const third = await chain.account('third');
    const answers = await readTokens([
      { token: await account.token({ imports }) },
      { token: await third.token({ imports }) },
    ]);
    expect(answers.map(({ issues, claims: read }) => [issues, Array.isArray(read?.nats.imports)])).toEqual([
      [[], true],
      [[], false],
    ]);
  });
});
