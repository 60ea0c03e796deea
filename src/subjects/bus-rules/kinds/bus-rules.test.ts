import { beforeEach, describe, expect, test } from 'vitest';
import type { KindObject } from '../../../kinds/object.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { RESERVED_ACCOUNT_RULES, RESERVED_USER_RULES } from '../rules/reserved-rules.ts';

const deps = createMemoryDependencies();
const { signal } = new AbortController();
const exist = async (kind: 'BusAccountRule' | 'BusUserRule', rules: readonly { name: string; spec: object }[]) => {
  const objects = kind === 'BusAccountRule' ? deps.busAccountRules : deps.busUserRules;
  for (const { name, spec } of rules)
    await objects.create(
      { apiVersion: 'skerry.dev/v3', kind, metadata: { name }, spec } as KindObject as never,
      signal,
    );
};
await exist('BusAccountRule', RESERVED_ACCOUNT_RULES);
await exist('BusUserRule', RESERVED_USER_RULES);
const client = await serveInMemory({ deps });
const [admin, developer, viewer] = [client.as('admin'), client.as('developer'), client.as('viewer')];

interface Case {
  group: string;
  kind: string;
  part: string;
  reserved: readonly { name: string }[];
  /** a member, its value, and the same in the spelling of a token */
  member: Record<string, unknown>;
  alias: Record<string, unknown>;
  /** another member */
  other: Record<string, unknown>;
}
const CASES: Case[] = [
  {
    group: 'account-rules',
    kind: 'BusAccountRule',
    part: 'busAccountRule',
    reserved: RESERVED_ACCOUNT_RULES,
    member: { maxConnections: 3 },
    alias: { limits: { conn: 3 } },
    other: { pubAllow: ['a.>'] },
  },
  {
    group: 'user-rules',
    kind: 'BusUserRule',
    part: 'busUserRule',
    reserved: RESERVED_USER_RULES,
    member: { pubDeny: ['a'] },
    alias: { pub: { deny: ['a'] } },
    other: { maxPayload: '1k' },
  },
];
let serial = 0;

describe.each(CASES)('$kind over REST', ({ group, kind, part, reserved, member, alias, other }) => {
  let name: string;
  const at = () => `/bus/${group}/${encodeURIComponent(name)}`;
  const fileAt = () => `/bus/${group}/yaml/${encodeURIComponent(name)}`;
  const form = (document: object) => ({ form: { part, text: JSON.stringify(document) } });
  const file = (spec: object, called = name) => form({ apiVersion: 'any/v1', kind, metadata: { name: called }, spec });
  beforeEach(() => {
    name = `Rule ${++serial} für Räume`;
  });

  test('creates a rule, lists it among the reserved ones, and deletes it', async () => {
    const made = await admin.post(`/bus/${group}`, { json: { name, ...member, ...other } });
    expect([made.status, made.body]).toEqual([
      201,
      { uuid: expect.any(String), name, ...member, ...other, isSystem: false },
    ]);
    const { rules } = (await viewer.get(`/bus/${group}`)).body;
    expect(rules).toContainEqual(made.body);
    const ofSystem = rules.filter((rule: { isSystem: boolean }) => rule.isSystem);
    expect(ofSystem.map((rule: { name: string }) => rule.name).sort()).toEqual(
      reserved.map((rule) => rule.name).sort(),
    );
    expect((await viewer.get(at())).body).toEqual(made.body);
    expect((await admin.delete(at())).status).toBe(204);
    expect((await admin.get(at())).status).toBe(404);
  });

  test('takes the spelling of a token, and shows the member of the rule', async () => {
    expect((await admin.post(`/bus/${group}`, { json: { name, ...alias } })).body).toMatchObject(member);
    expect((await admin.patch(at(), { json: { ...other } })).body).toMatchObject({ ...member, ...other });
  });

  test('refuses both spellings of one member', async () => {
    const { status, body } = await admin.post(`/bus/${group}`, { json: { name, ...member, ...alias } });
    expect([status, body.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect(body.message).toMatch(/^[a-zA-Z.]+: is another spelling of [a-zA-Z.]+; give one of them$/);
  });

  test('merges a JSON change, which removes members that are null', async () => {
    await admin.post(`/bus/${group}`, { json: { name, ...member } });
    expect((await admin.patch(at(), { json: other })).body).toMatchObject({ ...member, ...other });
    const gone = Object.fromEntries(Object.keys(member).map((key) => [key, null]));
    const { status, body } = await admin.patch(at(), { json: gone });
    expect([status, body]).toEqual([200, { uuid: expect.any(String), name, ...other, isSystem: false }]);
  });

  test('changes nothing where a read is sent back', async () => {
    const made = await admin.post(`/bus/${group}`, { json: { name, ...member } });
    const { status, body } = await admin.patch(at(), { json: made.body });
    expect([status, body]).toEqual([200, made.body]);
  });

  test('replaces a rule by a file', async () => {
    const made = await admin.post(`/bus/${group}/yaml`, file(member));
    expect([made.status, made.body]).toEqual([201, { uuid: expect.any(String), name, ...member, isSystem: false }]);
    const { status, body } = await admin.patch(fileAt(), file(other));
    expect([status, body]).toEqual([200, { uuid: made.body.uuid, name, ...other, isSystem: false }]);
  });

  test.each([
    [
      'another name than the path',
      () => file(member, 'other'),
      /^metadata.name: "other"; must equal the name in the path/,
    ],
    ['another kind', () => form({ kind: 'Application', metadata: { name }, spec: member }), /^kind: "Application"/],
    ['no metadata', () => form({ kind, spec: member }), /^metadata: is required/],
    ['no spec', () => form({ kind, metadata: { name } }), /^spec: is required/],
  ])('refuses a file with %s', async (_, sent, message) => {
    await admin.post(`/bus/${group}`, { json: { name, ...member } });
    const { status, body } = await admin.patch(fileAt(), sent());
    expect([status, body.message]).toEqual([400, expect.stringMatching(message)]);
  });

  test.each([
    ['no name', { ...member }, 'name: is required'],
    ['a name that is too long', { name: 'x'.repeat(256) }, 'name: '],
    ['an unknown member', { name: 'x', pubAlow: ['a'] }, 'unknown field "pubAlow"'],
    [
      'an empty list',
      { name: 'x', pubAllow: [] },
      'pubAllow: must not be empty: servers take an empty list for all; leave it out, or deny [">"] to forbid all',
    ],
    [
      'two letters behind bytes',
      { name: 'x', maxData: '10gb' },
      'maxData: "10gb" is not valid: must be an integer, -1, or a number with one letter of k, m, g and t',
    ],
    [
      'a number beyond 64 bits',
      { name: 'x', maxSubscriptions: 1e19 },
      'maxSubscriptions: 10000000000000000000 is not valid: ',
    ],
    ['a subject with a space', { name: 'x', pubAllow: ['a b'] }, 'pubAllow[0]: "a b" is not valid: must be a subject'],
    [
      'a character above U+00FF',
      { name: 'x', description: 'teplota ž' },
      'description: "teplota ž" is not valid: must be text of characters up to U+00FF',
    ],
    ['a claim to belong to the system', { name: 'x', isSystem: true }, 'unknown field "isSystem"'],
  ])('refuses a body with %s', async (_, json, message) => {
    const { status, body } = await admin.post(`/bus/${group}`, { json });
    expect([status, body.message]).toEqual([400, expect.stringContaining(message)]);
  });

  test('refuses a name that exists', async () => {
    await admin.post(`/bus/${group}`, { json: { name, ...member } });
    expect((await admin.post(`/bus/${group}`, { json: { name } })).status).toBe(409);
  });

  test('answers 404 for a rule that does not exist', async () => {
    const calls = [admin.patch(at(), { json: other }), admin.delete(at()), admin.patch(fileAt(), file(other))];
    for (const { status, body } of await Promise.all(calls))
      expect([status, body.code]).toEqual([404, expect.stringMatching(/^BUS_(ACCOUNT|USER)_RULE_NOT_FOUND$/)]);
  });

  test.each(reserved)('keeps $name as it is', async (rule) => {
    const own = `/bus/${group}/${rule.name}`;
    const before = (await admin.get(own)).body;
    const answers = await Promise.all([
      admin.post(`/bus/${group}`, { json: { name: rule.name } }),
      admin.post(`/bus/${group}/yaml`, file(member, rule.name)),
      admin.patch(own, { json: other }),
      admin.patch(`/bus/${group}/yaml/${rule.name}`, file(other, rule.name)),
      admin.delete(own),
    ]);
    expect(answers.map(({ status, body }) => [status, body.code])).toEqual(
      answers.map(() => [400, 'BUS_RULE_RESERVED']),
    );
    expect((await admin.get(own)).body).toEqual(before);
    expect(before.isSystem).toBe(true);
  });

  test('is written by developers and not by viewers', async () => {
    expect((await developer.post(`/bus/${group}`, { json: { name } })).status).toBe(201);
    expect((await viewer.patch(at(), { json: other })).status).toBe(403);
  });
});

test('a rule that no bus server accepts is refused with the field', async () => {
  const account = await admin.post('/bus/account-rules', {
    json: { name: 'bad', limits: { exports: 0 }, exports: [{ type: 'stream', subject: 'a' }] },
  });
  expect([account.status, account.body.code, account.body.message]).toEqual([
    400,
    'BUS_RULE_INVALID',
    'exports: has 1 items, and maxExports is 0',
  ]);
  const user = await admin.post('/bus/user-rules', { json: { name: 'bad', locale: 'Nowhere' } });
  expect([user.status, user.body.message]).toEqual([
    400,
    'timesLocation: "Nowhere" is no name of a time zone, such as Europe/Berlin',
  ]);
});
