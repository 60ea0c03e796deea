import { describe, expect, test } from 'vitest';
import { accountRuleBody, userRuleBody } from './rule-aliases.ts';

const limits = {
  ...{
    conn: 1,
    leaf: 2,
    subs: 3,
    imports: 4,
    exports: 5,
    data: 6,
    payload: 7,
    wildcards: false,
    disallow_bearer: true,
  },
  ...{ mem_storage: 8, disk_storage: 9, streams: 10, consumer: 11, max_ack_pending: 12, mem_max_stream_bytes: 13 },
  ...{ disk_max_stream_bytes: 14, max_bytes_required: true },
};
const permissions = {
  pub: { allow: ['a'], deny: ['b'] },
  sub: { allow: ['c'], deny: ['d'] },
  resp: { max: 1, ttl: 2 },
};
const named = { pubAllow: ['a'], pubDeny: ['b'], subAllow: ['c'], subDeny: ['d'], respMax: 1, respTtl: 2 };

describe('the members of a token', () => {
  test('become the members of an account rule', () => {
    const body = {
      name: 'n',
      info_url: 'https://a.b',
      limits,
      default_permissions: permissions,
      tiered_limits: { R1: { mem_storage: 1 } },
      imports: [{ local_subject: 'a' }],
    };
    expect(accountRuleBody(body)).toEqual({
      name: 'n',
      infoUrl: 'https://a.b',
      ...{
        maxConnections: 1,
        maxLeafNodeConnections: 2,
        maxSubscriptions: 3,
        maxImports: 4,
        maxExports: 5,
        maxData: 6,
      },
      ...{ maxMsgPayload: 7, exportsAllowWildcards: false, disallowBearer: true, memStorage: 8, diskStorage: 9 },
      ...{ streams: 10, consumer: 11, maxAckPending: 12, memMaxStreamBytes: 13, diskMaxStreamBytes: 14 },
      maxBytesRequired: true,
      ...named,
      tieredLimits: { R1: { memStorage: 1 } },
      imports: [{ local_subject: 'a' }],
    });
  });

  test('become the members of a user rule', () => {
    const body = { subs: 1, payload: 2, bearer_token: true, proxy_required: true, allowed_connection_types: ['MQTT'] };
    expect(userRuleBody({ ...body, ...permissions, times_location: 'UTC', maxData: 3 })).toEqual({
      ...{
        maxSubscriptions: 1,
        maxPayload: 2,
        bearerToken: true,
        proxyRequired: true,
        allowedConnectionTypes: ['MQTT'],
      },
      ...named,
      timesLocation: 'UTC',
      maxData: 3,
    });
  });
});

test('a member that is null stays null, so that a change removes it', () => {
  expect(accountRuleBody({ limits: { conn: null }, infoUrl: null })).toEqual({ maxConnections: null, infoUrl: null });
});

describe('a body is refused', () => {
  test.each([
    [
      'with two spellings',
      accountRuleBody,
      { maxConnections: 1, limits: { conn: 1 } },
      'limits.conn: is another spelling of maxConnections; give one of them',
    ],
    [
      'with two spellings in the other order',
      userRuleBody,
      { pub: { allow: ['a'] }, pubAllow: ['a'] },
      'pubAllow: is another spelling of pub.allow; give one of them',
    ],
    [
      'with two other spellings',
      userRuleBody,
      { locale: 'UTC', times_location: 'UTC' },
      'times_location: is another spelling of locale; give one of them',
    ],
    [
      'with two spellings in a tier',
      accountRuleBody,
      { tieredLimits: { R1: { memStorage: 1, mem_storage: 1 } } },
      'tieredLimits.R1.mem_storage: is another spelling of tieredLimits.R1.memStorage',
    ],
    [
      'with two spellings of null',
      accountRuleBody,
      { maxConnections: null, limits: { conn: 1 } },
      'limits.conn: is another spelling',
    ],
    ['with an unknown limit', accountRuleBody, { limits: { connections: 1 } }, 'limits.connections: unknown field'],
    ['with limits that are a list', accountRuleBody, { limits: [1] }, 'limits: must be an object'],
    ['with permissions that are null', userRuleBody, { pub: null }, 'pub: must be an object'],
  ])('%s', (_, read, body, message) => {
    expect(() => read(body)).toThrow(message);
  });
});
