import { beforeAll, describe, expect, test } from 'vitest';
import type { BusAccountRuleSpec } from '../../../api/v3/index.ts';
import { makeNkey, type Nkey, signJwt } from '../../../signer/nkeys.ts';
import { RESERVED_ACCOUNT_RULES, RESERVED_USER_RULES } from './reserved-rules.ts';
import { accountRuleVerdict, userRuleVerdict } from './rule-verdict.ts';

/** An import or an export. */
type Share = NonNullable<BusAccountRuleSpec['imports']>[number] & NonNullable<BusAccountRuleSpec['exports']>[number];
const ACCOUNT = 'AADQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOPIN';
const stream = (subject: string, more: object = {}) => ({ type: 'stream', subject, ...more }) as Share;
const service = (subject: string, more: object = {}) => ({ type: 'service', subject, ...more }) as Share;
const from = { account: ACCOUNT };

describe('an account rule is accepted', () => {
  test.each<[string, BusAccountRuleSpec]>([
    ['with nothing', {}],
    ['with as many imports as it may have', { maxImports: 1, imports: [stream('a', from)] }],
    ['with a wildcard in an export', { exports: [stream('a.>')] }],
    ['with exports of one subject and two types', { exports: [stream('a'), service('a')] }],
    ['with imports of one service from two accounts', { imports: [service('a', from)] }],
    ['with streams that overlap', { imports: [stream('a.>', from), stream('a.b', from)] }],
    ['with an account token', { exports: [service('ask.*.x', { account_token_position: 2 })] }],
    ['with tiers', { tieredLimits: { R1: { diskStorage: 1 }, R5: {} } }],
    ['with a url', { infoUrl: 'https://example.com:8443/a%20b?c#d' }],
  ])('%s', (_, spec) => {
    expect(accountRuleVerdict(spec)).toBeUndefined();
  });
  test.each(RESERVED_ACCOUNT_RULES)('as $name, which is reserved', ({ spec }) => {
    expect(accountRuleVerdict(spec)).toBeUndefined();
  });
});

const LONG = 'é'.repeat(255);
const LARGE: BusAccountRuleSpec = {
  pubAllow: Array.from({ length: 64 }, () => LONG),
  subAllow: Array.from({ length: 64 }, () => LONG),
  subDeny: Array.from({ length: 64 }, () => LONG),
  exports: Array.from({ length: 64 }, (_, index) =>
    stream(`${index}`.padEnd(255, 'a'), { description: LONG, info_url: `https://example.com/${'a'.repeat(2_000)}` }),
  ),
  imports: Array.from({ length: 64 }, (_, index) => stream(`${index}`, { ...from, token: 'x'.repeat(2_048) })),
};

describe('an account rule is refused', () => {
  test.each<[string, BusAccountRuleSpec, string]>([
    [
      'with more bytes than a Secret has room for, besides revocations',
      LARGE,
      'exports: has 182209 of the 419061 bytes of the rule as JSON; a rule has at most 393216',
    ],
    ['with a url without a scheme', { infoUrl: 'example.com' }, 'infoUrl: "example.com" is no URL'],
    ['with a url without a host', { infoUrl: 'mailto:ann@example.com' }, 'infoUrl: '],
    ['with a url whose escape is not finished', { infoUrl: 'https://a.b/%zz' }, 'infoUrl: '],
    ['with the url of an export', { exports: [stream('a', { info_url: 'x' })] }, 'exports[0].info_url: '],
    [
      'with tiers beside a store limit',
      { tieredLimits: { R1: {} }, streams: 1 },
      'tieredLimits: cannot stand beside streams',
    ],
    ['with an unknown tier', { tieredLimits: { R9: {} } }, 'tieredLimits: "R9" is no tier'],
    [
      'with more imports than it may have',
      { maxImports: 0, imports: [stream('a', from)] },
      'imports: has 1 items, and maxImports is 0',
    ],
    [
      'with more exports than it may have',
      { maxExports: 1, exports: [stream('a'), stream('b')] },
      'exports: has 2 items, and maxExports is 1',
    ],
    [
      'with a wildcard that it may not have',
      { exportsAllowWildcards: false, exports: [stream('a.*')] },
      'exports[0].subject: "a.*" has wildcards',
    ],
    [
      'with replies of a stream',
      { exports: [stream('a', { response_type: 'Stream' })] },
      'exports[0].response_type: "Stream"',
    ],
    [
      'with an account token that is no wildcard',
      { exports: [stream('a.*', { account_token_position: 1 })] },
      'exports[0].account_token_position: 1',
    ],
    [
      'with an account token beyond the subject',
      { exports: [stream('a.*', { account_token_position: 3 })] },
      'exports[0].account_token_position: 3',
    ],
    [
      'with exports that overlap',
      { exports: [stream('a.*'), stream('a.b')] },
      'exports: two items of type stream overlap: "a.*" and "a.b"',
    ],
    [
      'with services that overlap',
      { imports: [service('a.*', from), service('b.*', { ...from, local_subject: 'a.$1' })] },
      'imports: two items of type service overlap',
    ],
    [
      'with a key whose checksum is wrong',
      { imports: [stream('a', { account: `${ACCOUNT.slice(0, -1)}A` })] },
      'imports[0].account: ',
    ],
    [
      'with a stream that shares who asks',
      { imports: [stream('a', { ...from, share: true })] },
      'imports[0].share: is for imports of type service',
    ],
    [
      'with a local subject that loses a wildcard',
      { imports: [stream('a.*', { ...from, local_subject: 'b' })] },
      'imports[0].local_subject: "b" must have each of the 1',
    ],
    [
      'with a token that is none',
      { imports: [stream('a', { ...from, token: 'x.y.z' })] },
      'imports[0].token: is not an activation token',
    ],
  ])('%s', (_, spec, message) => {
    const verdict = accountRuleVerdict(spec);
    expect(verdict).toMatchObject({ status: 400, code: 'BUS_RULE_INVALID', reason: 'BusRuleInvalid' });
    expect(verdict?.message).toContain(message);
    expect(verdict?.message.startsWith(`${verdict.field}: `)).toBe(true);
  });
});

describe('an activation token', () => {
  let exporter: Nkey;
  let signing: Nkey;
  let token: (claims: object, key?: Nkey) => Promise<string>;
  const grant = { type: 'activation', version: 2, subject: 'a.>', kind: 'stream' };
  const judge = async (jwt: string, subject = 'a.b') => {
    const imports = [stream(subject, { account: exporter.publicKey, token: jwt })];
    return accountRuleVerdict({ imports })?.message;
  };
  beforeAll(async () => {
    [exporter, signing] = [await makeNkey('account'), await makeNkey('account')];
    token = (nats, key = exporter) => signJwt({ iss: key.publicKey, sub: ACCOUNT, iat: 1, nats }, key.seed);
  });
  test('is accepted where the exporting account signed it', async () => {
    expect(await judge(await token(grant))).toBeUndefined();
  });
  test('is accepted where a signing key of the exporting account signed it', async () => {
    expect(await judge(await token({ ...grant, issuer_account: exporter.publicKey }, signing))).toBeUndefined();
  });
  test('is refused with a wrong signature, without its text', async () => {
    const jwt = await token(grant);
    const [header, payload] = jwt.split('.');
    const message = await judge(`${header}.${payload}.${Buffer.alloc(64).toString('base64url')}`);
    expect(message).toBe('imports[0].token: is not an activation token with a valid signature');
  });
  test.each([
    ['of another account', async () => judge(await token(grant, signing)), 'is of another account than A'],
    [
      'of another type',
      async () => judge(await token({ ...grant, kind: 'service' })),
      'is for an import of type "service"',
    ],
    ['for another subject', async () => judge(await token(grant), 'b'), 'is for "a.>", which "b" is not within'],
    [
      'that is the token of a user',
      async () => judge(await token({ ...grant, type: 'user' })),
      'is not an activation token',
    ],
  ])('is refused where it is one %s', async (_, verdict, message) => {
    expect(await verdict()).toContain(message);
  });
});

describe('a user rule', () => {
  test.each(RESERVED_USER_RULES)('$name, which is reserved, is accepted', ({ spec }) => {
    expect(userRuleVerdict(spec)).toBeUndefined();
  });
  test.each(['10.0.0.7', '10.0.0.5/8', '0.0.0.0/0', '::1', '2001:db8::/32', '::/0'])(
    'may have the address %s',
    (source) => {
      expect(userRuleVerdict({ src: [source] })).toBeUndefined();
    },
  );
  test.each([
    '10.0.0.256',
    '10.0.0',
    '10.0.0.0/33',
    '::1/129',
    '10.0.0.0/08',
    '010.0.0.1',
    '1.2.3.4/',
    ':::',
    '::1/8/8',
  ])('cannot have the address %s', (source) => {
    const verdict = userRuleVerdict({ src: ['10.0.0.1', source] });
    expect(verdict?.message).toContain(`src[1]: ${JSON.stringify(source)} is neither an IP address nor a CIDR`);
  });
  test.each(['Europe/Berlin', 'UTC', 'Etc/GMT+5', 'America/Argentina/Buenos_Aires', 'Asia/Calcutta'])(
    'may have the zone %s',
    (timesLocation) => {
      expect(userRuleVerdict({ timesLocation })).toBeUndefined();
    },
  );
  test.each([
    ['Berlin', 'is no name of a time zone'],
    ['+01:00', 'is no name of a time zone'],
    ['Local', 'is no name of a time zone'],
    ['../etc/passwd', 'is no name of a time zone'],
    ['europe/berlin', 'must be spelled Europe/Berlin'],
  ])('cannot have the zone %s', (timesLocation, problem) => {
    expect(userRuleVerdict({ timesLocation })?.message).toBe(
      `timesLocation: ${JSON.stringify(timesLocation)} ${problem}${problem.startsWith('is') ? ', such as Europe/Berlin' : ''}`,
    );
  });
});
