import { describe, expect, test } from 'vitest';
import { BOUNDS } from '../../../../api/bounds.ts';
import type { BusAccountRuleSpec } from '../../../../api/v3/index.ts';
import { makeNkey, signJwt } from '../../../../signer/nkeys.ts';
import { MOST_KEPT_REVOCATIONS, MOST_REVOCATIONS } from '../../../bus-accounts/rules/signing-keys.ts';
import { accountClaims, operatorClaims, userClaims } from './claims.ts';
import { credentials } from './credentials.ts';
import { decodeToken } from './decode.ts';

/** `max_control_line` of our servers, and `max_payload` of nats-server by default. */
const MOST_CONTROL_LINE = 256 * 1_024;
const MOST_PAYLOAD = 1_024 * 1_024;
const MOST_SECRET = 1_024 * 1_024;

const ACCOUNT = { operator: 'O', key: 'A', name: 'plant', revocations: {}, iat: 1_000 };
const USER = { account: 'A', key: 'U', name: 'reader', iat: 1_000 };
const account = (rule: Parameters<typeof accountClaims>[0]['rule']) => accountClaims({ ...ACCOUNT, rule }).nats;
const user = (rule: Parameters<typeof userClaims>[0]['rule'], more = {}) => userClaims({ ...USER, ...more, rule }).nats;

const CORE = {
  subs: -1,
  data: -1,
  payload: -1,
  imports: -1,
  exports: -1,
  wildcards: true,
  conn: -1,
  leaf: -1,
};
const STORE = {
  mem_storage: -1,
  disk_storage: -1,
  streams: -1,
  consumer: -1,
  max_ack_pending: -1,
  mem_max_stream_bytes: -1,
  disk_max_stream_bytes: -1,
};

test('the operator signs itself', () => {
  expect(operatorClaims({ key: 'O', name: 'skerry-operator', iat: 7, systemAccount: 'A' })).toMatchObject({
    iss: 'O',
    sub: 'O',
    name: 'skerry-operator',
    iat: 7,
    nats: { type: 'operator', version: 2, system_account: 'A' },
  });
});

describe('the claims of an account', () => {
  test('have no limit where the rule has none, and no store', () => {
    expect(account({})).toEqual({ type: 'account', version: 2, limits: CORE });
  });

  test.each([
    ['a number', { maxConnections: 3 }, { conn: 3 }],
    ['none at all', { maxLeafNodeConnections: 0 }, { leaf: 0 }],
    ['bytes with a suffix', { maxMsgPayload: '4k', maxData: '1G' }, { payload: 4_096, data: 1_073_741_824 }],
    ['more than servers count', { maxSubscriptions: 2 ** 40 }, { subs: 2 ** 31 - 1 }],
    ['no wildcards', { exportsAllowWildcards: false }, { wildcards: false }],
    ['no bearer tokens', { disallowBearer: true }, { disallow_bearer: true }],
    ['one store limit, which brings the group', { streams: 2 }, { ...STORE, streams: 2 }],
    ['a store of none', { memStorage: 0, diskStorage: '0' }, { ...STORE, mem_storage: 0, disk_storage: 0 }],
    ['a greatest size for each stream', { maxBytesRequired: true }, { ...STORE, max_bytes_required: true }],
    [
      'tiers',
      { tieredLimits: { R1: { diskStorage: '1t' } } },
      { tiered_limits: { R1: { ...STORE, disk_storage: 2 ** 40 } } },
    ],
  ])('have %s as the rule says', (_, rule, limits) => {
    expect(account(rule).limits).toEqual({ ...CORE, ...limits });
  });

  test('have default permissions, imports, exports and revocations', () => {
    const imports = [{ type: 'stream' as const, subject: 'a.>', account: 'A2', local_subject: 'b.>' }];
    const exports = [{ type: 'service' as const, subject: 'ask', response_type: 'Stream' as const }];
    const rule = {
      pubAllow: ['a'],
      subDeny: ['b q'],
      respTtl: 5,
      imports,
      exports,
      description: 'd',
      infoUrl: 'https://a.b',
    };
    const revocations = { UB: 2, UA: 1 };
    expect(accountClaims({ ...ACCOUNT, rule, revocations, signingKeys: ['A3'] }).nats).toEqual({
      type: 'account',
      version: 2,
      limits: CORE,
      default_permissions: { pub: { allow: ['a'] }, sub: { deny: ['b q'] }, resp: { max: 0, ttl: 5 } },
      imports,
      exports,
      signing_keys: ['A3'],
      revocations: { UA: 1, UB: 2 },
      description: 'd',
      info_url: 'https://a.b',
    });
  });

  test('have no member of the rule that only the controller reads', () => {
    const rule = { name: 'n', uuid: 'u', responsePermissions: { maxMsgs: 1 } };
    expect(account(rule)).toEqual({ type: 'account', version: 2, limits: CORE });
  });
});

describe('the claims of a user', () => {
  const NONE = { type: 'user', version: 2, subs: -1, data: -1, payload: -1 };
  test.each<[string, Parameters<typeof user>[0], object, object?]>([
    ['no limit where the rule has none', {}, {}],
    ['its limits', { maxSubscriptions: 1, maxData: '2k', maxPayload: 3 }, { subs: 1, data: 2_048, payload: 3 }],
    [
      'an address as a network',
      { src: ['10.0.0.7', '10.0.0.0/8', '::1'] },
      { src: ['10.0.0.7/32', '10.0.0.0/8', '::1/128'] },
    ],
    [
      'times with their zone',
      { times: [{ start: '08:00:00', end: '17:00:00' }], timesLocation: 'Europe/Berlin' },
      { times: [{ start: '08:00:00', end: '17:00:00' }], times_location: 'Europe/Berlin' },
    ],
    ['permissions', { pubDeny: ['>'], subAllow: ['a', 'b q'] }, { pub: { deny: ['>'] }, sub: { allow: ['a', 'b q'] } }],
    ['replies', { respMax: 3 }, { resp: { max: 3, ttl: 0 } }],
    ['tags', { tags: ['x'] }, { tags: ['x'] }],
    ['a proxy', { proxyRequired: true }, { proxy_required: true }],
    ['a bearer token by the rule', { bearerToken: true }, { bearer_token: true }],
    ['no bearer token for a user who is none', { bearerToken: true }, {}, { isBearer: false }],
    ['MQTT for a bearer', {}, { bearer_token: true, allowed_connection_types: ['MQTT'] }, { isBearer: true }],
    [
      'MQTT for a bearer besides the types of the rule',
      { allowedConnectionTypes: ['STANDARD'] },
      { bearer_token: true, allowed_connection_types: ['MQTT', 'STANDARD'] },
      { isBearer: true },
    ],
    ['the account, where a signing key signs', {}, { issuer_account: 'A' }, { issuer: 'A3' }],
    ['no description', { description: 'd' }, {}],
  ])('have %s', (_, rule, grant, more) => {
    expect(user(rule, more)).toEqual({ ...NONE, ...grant });
  });

  test('have the end at the top level', () => {
    expect(userClaims({ ...USER, rule: {}, exp: 9 })).toMatchObject({ exp: 9, iss: 'A', sub: 'U', name: 'reader' });
  });
});

describe('the id of a token', () => {
  const base = userClaims({ ...USER, rule: {} });
  test('is the same for the same content', () => {
    expect(userClaims({ ...USER, rule: {} }).jti).toBe(base.jti);
  });
  test.each([
    ['rule', { rule: { maxSubscriptions: 1 } }],
    ['time', { rule: {}, iat: 1_001 }],
    ['name', { rule: {}, name: 'writer' }],
    ['end', { rule: {}, exp: 5 }],
  ])('differs with another %s', (_, change) => {
    expect(userClaims({ ...USER, ...change }).jti).not.toBe(base.jti);
  });
});

describe('a token that is read', () => {
  test('may have no name, as the library writes an empty one', () => {
    const { name: _name, jti: _jti, ...claims } = userClaims({ ...USER, rule: {} });
    expect(decodeToken(`a.${encoded(claims)}.c`)).toMatchObject({ name: '', jti: '', sub: 'U' });
  });

  test('has the claims that were signed, in any script', async () => {
    const key = await makeNkey('account');
    const claims = userClaims({
      account: key.publicKey,
      key: 'U',
      name: 'Überwachung 監視',
      iat: 5,
      rule: { tags: ['é'] },
    });
    const token = await signJwt(claims, key.seed);
    expect(decodeToken(token)).toEqual(claims);
  });
  const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  test.each([
    ['is empty', ''],
    ['has no payload', 'a'],
    ['has no signature', `a.${encoded({})}`],
    ['has a payload that is no JSON', 'a.b.c'],
    ['has no claims of the bus', `a.${encoded({ iat: 1, sub: 'x' })}.c`],
    ['has a time that is no number', `a.${encoded({ ...userClaims({ ...USER, rule: {} }), iat: '1' })}.c`],
    ['is longer than a message can be', `a.${'A'.repeat(3_000_000)}.c`],
  ])('%s is none', (_, text) => {
    expect(decodeToken(text)).toBeUndefined();
  });
});

test('a credentials file has the token and the seed as clients find them', () => {
  const sections = credentials('TOKEN', 'SEED').match(/^-{5}BEGIN ([A-Z ]+)-{5}\n(\w+)\n-{6}END \1-{6}$/gm);
  expect(sections).toEqual([
    '-----BEGIN NATS USER JWT-----\nTOKEN\n------END NATS USER JWT------',
    '-----BEGIN USER NKEY SEED-----\nSEED\n------END USER NKEY SEED------',
  ]);
});

test('the tokens of the largest rules fit into a line and a message of the bus', async () => {
  const texts = (count: number, length: number) =>
    Array.from({ length: count }, (_, index) => `${index}.`.padEnd(length, 'é'));
  const subjects = () => texts(64, 255);
  const largest = { pubAllow: subjects(), pubDeny: subjects(), subAllow: subjects(), subDeny: subjects() };
  const user = {
    ...largest,
    tags: subjects(),
    src: texts(64, 43),
    times: Array.from({ length: 32 }, () => ({ start: '00:00:00', end: '00:00:00' })),
  };
  const key = await makeNkey('account');
  const [of, issuer] = [{ key: key.publicKey, name: 'n'.repeat(255), iat: 1 }, key.publicKey];
  const ofUser = await signJwt(userClaims({ ...of, account: issuer, rule: user }), key.seed);
  expect(ofUser.length).toBeLessThan(MOST_CONTROL_LINE - 1_024);
  const share = { type: 'service' as const, name: 'é'.repeat(255), subject: 'é'.repeat(255) };
  const shares = Array.from({ length: 64 }, () => ({ ...share, info_url: 'h'.repeat(2_048) }));
  const account: BusAccountRuleSpec = { ...largest, description: 'é'.repeat(1_024), infoUrl: 'https://example.com' };
  const room = () => BOUNDS.busAccountRuleBytes - Buffer.byteLength(JSON.stringify(account));
  // As many exports as there is room for.
  account.exports = [];
  for (const each of shares) if (room() > 4_096) account.exports.push(each);
  expect(room()).toBeGreaterThan(0);
  const revoked = Array.from({ length: MOST_KEPT_REVOCATIONS + 2 * MOST_REVOCATIONS }, (_, index) =>
    `${index}`.padEnd(56, 'U'),
  );
  const revocations = Object.fromEntries(revoked.map((one) => [one, 2 ** 31]));
  const signingKeys = Array.from({ length: 6 }, () => key.publicKey);
  const claims = accountClaims({ ...of, operator: issuer, rule: account, revocations, signingKeys });
  const ofAccount = await signJwt(claims, key.seed);
  expect(ofAccount.length).toBeLessThan(MOST_PAYLOAD);
  // The Secret has the names of revoked users once more, by the key that signed them.
  expect(ofAccount.length + JSON.stringify(revoked).length + 4_096).toBeLessThan(MOST_SECRET);
});

test('an import stays out of the token of its own account, and of an account that its activation is not for', () => {
  const activation = (sub: string) =>
    `h.${Buffer.from(JSON.stringify({ iss: 'A2', sub, nats: { type: 'activation', subject: 'a', kind: 'stream' } })).toString('base64url')}.s`;
  const from = (account: string, token?: string) => ({
    type: 'stream' as const,
    subject: 'a',
    account,
    ...(token && { token }),
  });
  const kept = [from('A2'), from('A2', activation('A'))];
  const imports = [...kept, from('A'), from('A2', activation('A3')), from('A2', 'none')];
  expect(account({ imports }).imports).toEqual(kept);
});
