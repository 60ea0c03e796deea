import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startNatsServer } from '../../../../../hack/nats.ts';
import { freePort } from '../../../../../hack/ports.ts';
import { atEnd } from '../../../../../testing/at-end.ts';
import { type ChainAccount, makeChain, nowSeconds } from '../../../../../testing/bus-chain.ts';
import { pub, speakBus, speakMqtt } from '../../../../../testing/bus-protocol.ts';
import { temporaryFolder } from '../../../../../testing/temporary-folder.ts';
import type { BusAccountRuleSpec, BusUserRuleSpec } from '../../../../api/v3/index.ts';
import { makeNkey, signJwt } from '../../../../signer/nkeys.ts';
import { hasStore } from '../store.ts';

/** Each field of a rule acts at a real nats-server: one client is admitted, one is stopped. */

const dir = temporaryFolder();
const tokens = join(dir, 'tokens');
mkdirSync(tokens);
const chain = await makeChain();
const system = await chain.account('SYS');
const keep = async (account: ChainAccount, token: string) =>
  writeFileSync(join(tokens, `${account.publicKey}.jwt`), token);
await keep(system, await system.token());
const [web, leaf, monitor, mqtt] = [await freePort(), await freePort(), await freePort(), await freePort()];
const server = await startNatsServer({
  dir,
  config: [
    'server_name: "fields"',
    `operator: ${chain.token}`,
    `system_account: ${system.publicKey}`,
    `resolver: { type: full, dir: "${tokens}", allow_delete: false, interval: "2m" }`,
    `jetstream: { store_dir: "${join(dir, 'store')}", max_mem: 64MB, max_file: 64MB }`,
    `websocket: { listen: "127.0.0.1:${web}", no_tls: true }`,
    `leafnodes: { listen: "127.0.0.1:${leaf}" }`,
    `mqtt: { listen: "127.0.0.1:${mqtt}" }`,
    `http: "127.0.0.1:${monitor}"`,
    'max_control_line: 256KB',
  ],
});
atEnd(() => server.stop());

/** An account with this rule that the server knows. */
async function account(rule: BusAccountRuleSpec = {}, options: Parameters<ChainAccount['token']>[1] = {}) {
  const made = await chain.account('plant');
  await keep(made, await made.token(rule, options));
  return made;
}

type Client = Awaited<ReturnType<typeof speakBus>>;
type Given = { user?: BusUserRuleSpec; account?: BusAccountRuleSpec };
type Way = { isSigned?: boolean; carrier?: 'tcp' | 'ws' };
const AUTHORIZATION = "-ERR 'Authorization Violation'";

async function client({ user, account: rule }: Given): Promise<Client> {
  const of = await account(rule);
  return speakBus(server.port, { as: await of.user(user) });
}

const greetingOf = async (of: ChainAccount, rule: BusUserRuleSpec, { carrier = 'tcp', ...way }: Way = {}) =>
  (await speakBus(carrier === 'ws' ? web : server.port, { as: await of.user(rule), carrier, ...way })).greeting;

describe('a client is admitted or refused by', () => {
  const now = new Date();
  /** The time of day in a zone, some hours from now, as hh:mm:ss. */
  const at = (hours: number, timeZone: string) =>
    new Intl.DateTimeFormat('en-GB', { timeZone, timeStyle: 'medium' }).format(
      new Date(now.getTime() + hours * 3_600_000),
    );
  const around = (hours: number, zone: string) => [{ start: at(hours - 2, zone), end: at(hours + 2, zone) }];

  test.each<{ field: string; admits: BusUserRuleSpec; refuses: BusUserRuleSpec; way?: Way; admitted?: Way }>([
    { field: 'bearerToken', admits: { bearerToken: true }, refuses: {}, way: { isSigned: false } },
    { field: 'proxyRequired', admits: { proxyRequired: false }, refuses: { proxyRequired: true } },
    {
      field: 'allowedConnectionTypes STANDARD',
      admits: { allowedConnectionTypes: ['STANDARD'] },
      refuses: { allowedConnectionTypes: ['WEBSOCKET', 'MQTT', 'LEAFNODE', 'IN_PROCESS'] },
    },
    {
      field: 'allowedConnectionTypes WEBSOCKET',
      admits: { allowedConnectionTypes: ['WEBSOCKET'] },
      refuses: { allowedConnectionTypes: ['STANDARD'] },
      way: { carrier: 'ws' },
    },
    { field: 'src as a network', admits: { src: ['127.0.0.0/8'] }, refuses: { src: ['10.0.0.0/8', '::/0'] } },
    { field: 'src as an address', admits: { src: ['10.0.0.1', '127.0.0.1'] }, refuses: { src: ['127.0.0.2'] } },
    {
      field: 'times',
      admits: { times: around(0, 'UTC'), timesLocation: 'UTC' },
      refuses: { times: around(8, 'UTC'), timesLocation: 'UTC' },
    },
    {
      field: 'timesLocation',
      admits: { times: around(0, 'Asia/Tokyo'), timesLocation: 'Asia/Tokyo' },
      refuses: { times: around(0, 'Asia/Tokyo'), timesLocation: 'America/Bogota' },
    },
  ])('$field', async ({ admits, refuses, way }) => {
    const of = await account();
    expect(await greetingOf(of, admits, way)).toEqual([]);
    expect(await greetingOf(of, refuses, way)).toEqual([AUTHORIZATION, 'END']);
  });

  test('disallowBearer of its account', async () => {
    const rule = { bearerToken: true };
    expect(await greetingOf(await account(), rule, { isSigned: false })).toEqual([]);
    expect(await greetingOf(await account({ disallowBearer: true }), rule, { isSigned: false })).toEqual([
      AUTHORIZATION,
      'END',
    ]);
  });

  test('maxConnections of its account', async () => {
    const of = await account({ maxConnections: 1 });
    expect(await greetingOf(of, {})).toEqual([]);
    expect(await greetingOf(of, {})).toEqual(["-ERR 'maximum account active connections exceeded'", 'END']);
  });

  test('the end of its token', async () => {
    const of = await account();
    const [lasting, ended] = [
      await of.user({}, { exp: nowSeconds() + 60 }),
      await of.user({}, { exp: nowSeconds() - 1 }),
    ];
    expect((await speakBus(server.port, { as: lasting })).greeting).toEqual([]);
    expect((await speakBus(server.port, { as: ended })).greeting).toEqual([AUTHORIZATION, 'END']);
  });

  test('the revocations of its account', async () => {
    const made = await chain.account('plant');
    const iat = nowSeconds();
    const [stays, goes, later] = [
      await made.user(),
      await made.user({}, { iat }),
      await made.user({}, { iat: iat + 1 }),
    ];
    await keep(made, await made.token({}, { revocations: { [goes.publicKey]: iat, [later.publicKey]: iat } }));
    const greetings = [stays, goes, later].map(async (as) => (await speakBus(server.port, { as })).greeting);
    expect(await Promise.all(greetings)).toEqual([[], [AUTHORIZATION, 'END'], []]);
  });

  test('a signing key of its account', async () => {
    const [signer, stranger] = [await makeNkey('account'), await makeNkey('account')];
    const of = await account({}, { signingKeys: [signer.publicKey] });
    const users = [await of.user({}, { signer }), await of.user({}, { signer: stranger })];
    const greetings = users.map(async (as) => (await speakBus(server.port, { as })).greeting);
    expect(await Promise.all(greetings)).toEqual([[], [AUTHORIZATION, 'END']]);
  });
});

/** What a leaf server says first; the answer of the server. */
async function leafGreeting(of: ChainAccount, rule: BusUserRuleSpec, isWeb = false) {
  const peer = await makeNkey('user');
  const connect = { name: 'edge', server_id: peer.publicKey, version: '2.15.2', headers: true };
  const way = isWeb ? ({ carrier: 'ws', path: '/leafnode' } as const) : {};
  const { greeting } = await speakBus(isWeb ? web : leaf, { as: await of.user(rule), connect, ...way });
  return greeting.filter((line) => line.startsWith('-ERR') || line === 'END');
}

describe('a leaf server is admitted or refused by', () => {
  test.each(['LEAFNODE', 'LEAFNODE_WS'] as const)('allowedConnectionTypes %s', async (type) => {
    const of = await account();
    const isWeb = type === 'LEAFNODE_WS';
    expect(await leafGreeting(of, { allowedConnectionTypes: [type] }, isWeb)).toEqual([]);
    expect(await leafGreeting(of, { allowedConnectionTypes: ['STANDARD', 'WEBSOCKET'] }, isWeb)).toContain('END');
  });
  test('maxLeafNodeConnections of its account', async () => {
    expect(await leafGreeting(await account({ maxLeafNodeConnections: 1 }), {})).toEqual([]);
    expect(await leafGreeting(await account({ maxLeafNodeConnections: 0 }), {})).toContain('END');
  });
});

describe('a device is admitted or refused by', () => {
  const STORE = { memStorage: -1, diskStorage: -1 };
  const ADMITTED = 0;
  const NOT_AUTHORIZED = 5;
  const bearer = { bearerToken: true };

  test.each([
    ['MQTT', 'tcp'],
    ['MQTT_WS', 'ws'],
  ] as const)('allowedConnectionTypes %s', async (type, carrier) => {
    const of = await account(STORE);
    const port = carrier === 'ws' ? web : mqtt;
    expect(await speakMqtt(port, await of.user({ ...bearer, allowedConnectionTypes: [type] }), carrier)).toBe(ADMITTED);
    const others = ['STANDARD', 'WEBSOCKET', carrier === 'ws' ? 'MQTT' : 'MQTT_WS'] as const;
    expect(await speakMqtt(port, await of.user({ ...bearer, allowedConnectionTypes: [...others] }), carrier)).toBe(
      NOT_AUTHORIZED,
    );
  });

  test('bearerToken', async () => {
    const of = await account(STORE);
    expect(await speakMqtt(mqtt, await of.user({}, { isBearer: true }))).toBe(ADMITTED);
    expect(await speakMqtt(mqtt, await of.user({}))).toBe(NOT_AUTHORIZED);
  });

  test.each<[string, BusAccountRuleSpec, number | 'END']>([
    ['a store', { diskStorage: '1m' }, ADMITTED],
    ['a store in one tier', { tieredLimits: { R1: { memStorage: 0 } } }, ADMITTED],
    ['no store', {}, 'END'],
    ['a store of nothing', { memStorage: 0, diskStorage: '0k' }, 'END'],
    ['a tier of nothing', { tieredLimits: { R1: { memStorage: 0, diskStorage: 0 } } }, 'END'],
  ])('its account, which has %s', async (_, rule, answer) => {
    expect(await speakMqtt(mqtt, await (await account(rule)).user(bearer))).toBe(answer);
    expect(hasStore(rule)).toBe(answer === ADMITTED);
  });
});

describe('a client may and may not', () => {
  const publishes = (subject: string) => `-ERR 'Permissions Violation for Publish to "${subject}"'`;
  const subscribes = (subject: string, queue = '') =>
    `-ERR 'Permissions Violation for Subscription to "${subject}"${queue && ` using queue "${queue}"`}'`;
  const sub = (subject: string, id: number, queue = '') => `SUB ${subject} ${queue && `${queue} `}${id}`;
  const own = { pubAllow: ['other'] };

  test.each<{ field: string; given: Given; may: string[]; mayNot: string[]; refusal: string }>([
    {
      field: 'pubAllow',
      given: { user: { pubAllow: ['a.*'] } },
      may: [pub('a.b')],
      mayNot: [pub('b')],
      refusal: publishes('b'),
    },
    {
      field: 'pubDeny',
      given: { user: { pubDeny: ['a.>'] } },
      may: [pub('b')],
      mayNot: [pub('a.b')],
      refusal: publishes('a.b'),
    },
    {
      field: 'pubDeny, which wins over pubAllow',
      given: { user: { pubAllow: ['a.>'], pubDeny: ['a.b'] } },
      may: [pub('a.c')],
      mayNot: [pub('a.b')],
      refusal: publishes('a.b'),
    },
    {
      field: 'pubDeny of everything',
      given: { user: { pubDeny: ['>'] } },
      may: [sub('a', 1)],
      mayNot: [pub('a')],
      refusal: publishes('a'),
    },
    {
      field: 'subAllow',
      given: { user: { subAllow: ['a.>'] } },
      may: [sub('a.b', 1)],
      mayNot: [sub('b', 2)],
      refusal: subscribes('b'),
    },
    {
      field: 'subDeny',
      given: { user: { subDeny: ['a'] } },
      may: [sub('b', 1)],
      mayNot: [sub('a', 2)],
      refusal: subscribes('a'),
    },
    {
      field: 'subAllow with a queue group',
      given: { user: { subAllow: ['a workers'] } },
      may: [sub('a', 1, 'workers')],
      mayNot: [sub('a', 2, 'others')],
      refusal: subscribes('a', 'others'),
    },
    {
      field: 'default permissions of the account',
      given: { account: { pubAllow: ['a'], subAllow: ['b'] } },
      may: [pub('a'), sub('b', 1)],
      mayNot: [pub('b')],
      refusal: publishes('b'),
    },
    {
      field: 'permissions of its own, which the defaults of the account do not add to',
      given: { account: { subAllow: ['b'] }, user: own },
      may: [pub('other'), sub('a', 1)],
      mayNot: [pub('b')],
      refusal: publishes('b'),
    },
    {
      field: 'maxSubscriptions',
      given: { user: { maxSubscriptions: 1 } },
      may: [sub('a', 1)],
      mayNot: [sub('b', 2)],
      refusal: "-ERR 'maximum subscriptions exceeded'",
    },
    {
      field: 'maxSubscriptions of the account',
      given: { account: { maxSubscriptions: 1 } },
      may: [sub('a', 1)],
      mayNot: [sub('b', 2)],
      refusal: "-ERR 'maximum subscriptions exceeded'",
    },
    {
      field: 'maxPayload',
      given: { user: { maxPayload: '1k' } },
      may: [pub('a', 'x'.repeat(1_024))],
      mayNot: [pub('a', 'x'.repeat(1_025))],
      refusal: "-ERR 'Maximum Payload Violation'",
    },
    {
      field: 'maxMsgPayload of the account',
      given: { account: { maxMsgPayload: 4 } },
      may: [pub('a', 'four')],
      mayNot: [pub('a', 'fives')],
      refusal: "-ERR 'Maximum Payload Violation'",
    },
  ])('$field', async ({ given, may, mayNot, refusal }) => {
    const one = await client(given);
    expect(await one.send(...may)).toEqual([]);
    expect(await one.send(...mayNot)).toContain(refusal);
  });

  test.each([
    ['as many replies as respMax says', { respMax: 1 }, [[], [publishes('inbox.1')]]],
    ['more replies where respMax says so', { respMax: 2 }, [[], []]],
    ['replies within respTtl', { respMax: 2, respTtl: 60_000_000_000 }, [[], []]],
    ['no reply later than respTtl', { respMax: 2, respTtl: 1 }, [[publishes('inbox.1')], [publishes('inbox.1')]]],
    ['no reply without both', {}, [[publishes('inbox.1')], [publishes('inbox.1')]]],
  ])('send %s', async (_, rule, expected) => {
    const of = await account();
    const answering = await speakBus(server.port, {
      as: await of.user({ ...rule, pubDeny: ['>'], subAllow: ['ask'] }),
    });
    const asking = await speakBus(server.port, { as: await of.user() });
    await answering.send(sub('ask', 1));
    await asking.send(sub('inbox.1', 1), pub('ask', 'question', 'inbox.1'));
    await answering.next('question');
    const replies = [await answering.send(pub('inbox.1', 'one')), await answering.send(pub('inbox.1', 'two'))];
    expect(replies).toEqual(expected);
  });

  test('connect with the largest rule, whose token is longer than a control line by default', async () => {
    const subjects = (of: string) => Array.from({ length: 64 }, (_, i) => `${of}.${i}.`.padEnd(255, 'x'));
    const largest = {
      ...{ pubAllow: subjects('a'), pubDeny: subjects('b'), subAllow: subjects('c'), subDeny: subjects('d') },
      ...{
        src: Array.from({ length: 64 }, () => '127.0.0.0/8'),
        tags: Array.from({ length: 64 }, (_, i) => `${i}`.padEnd(255, 't')),
      },
    };
    const one = await client({ user: largest });
    expect(await one.send(pub('a.1.'.padEnd(255, 'x')))).toEqual([]);
    expect(await one.send(pub('z'))).toEqual([publishes('z')]);
  });
});

/** The answer of the server to a request with a JSON body. */
async function ask(one: Client, subject: string, body: object) {
  const inbox = '_INBOX.x';
  const lines = await one.send(`SUB ${inbox} 9`, pub(subject, JSON.stringify(body), inbox), 'UNSUB 9 1');
  const answer = lines.find((line) => line.startsWith('{')) ?? (await one.next('{"'));
  return (JSON.parse(answer) as { error?: { description: string } }).error?.description ?? 'done';
}

describe('the store of an account', () => {
  let serial = 0;
  const stream = (more: object, subject = `s${++serial}`) => ({
    name: subject.toUpperCase(),
    subjects: [subject],
    ...more,
  });
  const create = (one: Client, config: { name: string }) => ask(one, `$JS.API.STREAM.CREATE.${config.name}`, config);
  const [memory, file] = [{ storage: 'memory' }, { storage: 'file' }];

  test.each<{ field: string; rule: BusAccountRuleSpec; may: object[]; mayNot: object; refusal: RegExp }>([
    {
      field: 'memStorage',
      rule: { memStorage: '1k' },
      may: [{ ...memory, max_bytes: 1_024 }],
      mayNot: { ...memory, max_bytes: 2_048 },
      refusal: /insufficient memory/,
    },
    {
      field: 'memStorage 0',
      rule: { memStorage: 0 },
      may: [file],
      mayNot: memory,
      refusal: /insufficient memory|not enabled|no JetStream/,
    },
    {
      field: 'diskStorage',
      rule: { diskStorage: '1k' },
      may: [{ ...file, max_bytes: 1_024 }],
      mayNot: { ...file, max_bytes: 2_048 },
      refusal: /insufficient storage/,
    },
    { field: 'diskStorage 0', rule: { diskStorage: 0 }, may: [memory], mayNot: file, refusal: /insufficient storage/ },
    {
      field: 'streams',
      rule: { streams: 1 },
      may: [memory],
      mayNot: memory,
      refusal: /maximum number of streams reached/,
    },
    {
      field: 'memMaxStreamBytes',
      rule: { memMaxStreamBytes: '1k' },
      may: [{ ...memory, max_bytes: 1_024 }],
      mayNot: { ...memory, max_bytes: 1_025 },
      refusal: /stream max bytes exceeds account limit/,
    },
    {
      field: 'diskMaxStreamBytes',
      rule: { diskMaxStreamBytes: '1k' },
      may: [{ ...file, max_bytes: 1_024 }],
      mayNot: { ...file, max_bytes: 1_025 },
      refusal: /stream max bytes exceeds account limit/,
    },
    {
      field: 'maxBytesRequired',
      rule: { maxBytesRequired: true },
      may: [{ ...memory, max_bytes: 1_024 }],
      mayNot: memory,
      refusal: /account requires a stream config to have max bytes set/,
    },
    {
      field: 'tieredLimits',
      rule: { tieredLimits: { R1: { streams: 1 } } },
      may: [memory],
      mayNot: memory,
      refusal: /maximum number of streams reached/,
    },
  ])('is bounded by $field', async ({ rule, may, mayNot, refusal }) => {
    const one = await client({ account: rule });
    for (const config of may) expect(await create(one, stream(config))).toBe('done');
    expect(await create(one, stream(mayNot))).toMatch(refusal);
  });

  test('does not exist without a store limit', async () => {
    expect(await create(await client({}), stream(memory))).toMatch(/JetStream not enabled for account/);
  });

  test.each<{ field: string; rule: BusAccountRuleSpec; mayNot: object; refusal: RegExp }>([
    { field: 'consumer', rule: { consumer: 1 }, mayNot: {}, refusal: /maximum consumers limit reached/ },
    {
      field: 'maxAckPending',
      rule: { maxAckPending: 10 },
      mayNot: { max_ack_pending: 11 },
      refusal: /consumer max ack pending exceeds|max_ack_pending/,
    },
  ])('bounds consumers by $field', async ({ rule, mayNot, refusal }) => {
    const one = await client({ account: rule });
    const { name } = stream({});
    await create(one, { name, subjects: [name], ...memory } as { name: string });
    const consume = (called: string, more: object) =>
      ask(one, `$JS.API.CONSUMER.CREATE.${name}.${called}`, {
        stream_name: name,
        config: { durable_name: called, ack_policy: 'explicit', max_ack_pending: 10, ...more },
        action: 'create',
      });
    expect(await consume('first', {})).toBe('done');
    expect(await consume('second', mayNot)).toMatch(refusal);
  });
});

describe('between accounts', () => {
  interface Shared {
    exports: NonNullable<BusAccountRuleSpec['exports']>;
    imports: (exporter: ChainAccount, importer: ChainAccount) => Promise<NonNullable<BusAccountRuleSpec['imports']>>;
  }
  async function share({ exports, imports }: Shared) {
    const [exporter, importer] = [await chain.account('exporter'), await chain.account('importer')];
    await keep(exporter, await exporter.token({ exports }));
    await keep(importer, await importer.token({ imports: await imports(exporter, importer) }));
    const connect = async (of: ChainAccount) => speakBus(server.port, { as: await of.user() });
    return { exporter: await connect(exporter), importer: await connect(importer), importing: importer };
  }
  const from =
    (subject: string, more = {}) =>
    async (exporter: ChainAccount) => [{ type: 'stream' as const, subject, account: exporter.publicKey, ...more }];
  const activated = (subject: string, sign: boolean) => async (exporter: ChainAccount, importer: ChainAccount) => {
    const nats = { type: 'activation', version: 2, subject, kind: 'stream' };
    const claims = { jti: 'x', iat: nowSeconds(), iss: exporter.publicKey, sub: importer.publicKey, name: 'a', nats };
    const token = sign ? { token: await signJwt(claims, exporter.seed) } : {};
    return [{ type: 'stream' as const, subject, account: exporter.publicKey, ...token }];
  };
  const streams = (subject: string, more = {}) => [{ type: 'stream' as const, subject, ...more }];

  test.each<{ field: string; shared: Shared; heard: string; unheard: string; as?: string }>([
    {
      field: 'a stream that it exports',
      shared: { exports: streams('news.>'), imports: from('news.>') },
      heard: 'news.a',
      unheard: 'olds.a',
    },
    {
      field: 'the part that is imported',
      shared: { exports: streams('news.>'), imports: from('news.a') },
      heard: 'news.a',
      unheard: 'news.b',
    },
    {
      field: 'the local subject',
      shared: { exports: streams('news.*'), imports: from('news.*', { local_subject: 'far.$1' }) },
      heard: 'news.a',
      unheard: 'olds.a',
      as: 'far.a',
    },
    {
      field: 'an activation token',
      shared: { exports: streams('news.a', { token_req: true }), imports: activated('news.a', true) },
      heard: 'news.a',
      unheard: 'olds.a',
    },
  ])('messages arrive by $field', async ({ shared, heard, unheard, as = heard }) => {
    const { exporter, importer } = await share(shared);
    await importer.send('SUB > 1');
    await exporter.send(pub(unheard, 'no'), pub(heard, 'yes'));
    const line = await importer.next('MSG');
    expect(line).toContain(`MSG ${as} 1 3`);
  });

  test('nothing arrives without the activation token that an export asks for', async () => {
    const { exporter, importer } = await share({
      exports: [...streams('news.a', { token_req: true }), ...streams('free')],
      imports: async (...accounts) => [
        ...(await activated('news.a', false)(...accounts)),
        ...(await from('free')(accounts[0])),
      ],
    });
    await importer.send('SUB > 1');
    await exporter.send(pub('news.a', 'no'), pub('free', 'yes'));
    expect(await importer.next('MSG')).toContain('MSG free 1 3');
  });

  const service = (subject: string, more = {}) => [{ type: 'service' as const, subject, ...more }];
  const asks =
    (subject: string, more = {}) =>
    async (exporter: ChainAccount) => [{ type: 'service' as const, subject, account: exporter.publicKey, ...more }];
  test.each<{ field: string; response_type?: 'Singleton' | 'Stream' | 'Chunked'; second: boolean }>([
    { field: 'one reply by default', second: false },
    { field: 'many replies with response_type Stream', response_type: 'Stream', second: true },
  ])('a service sends $field', async ({ response_type, second }) => {
    const { exporter, importer } = await share({
      exports: service('ask', response_type && { response_type }),
      imports: asks('ask'),
    });
    await exporter.send('SUB ask 1');
    await importer.send('SUB inbox 1', 'SUB end 2', pub('ask', 'question', 'inbox'));
    const [, , , reply = ''] = (await exporter.next('MSG ask')).split(' ');
    await exporter.next('question');
    await exporter.send(pub(reply, 'one'));
    await importer.next('one');
    await exporter.send(pub(reply, 'two'));
    expect((await importer.send(pub('end', 'end'))).includes('two')).toBe(second);
  });

  test('account_token_position lets an account import its own part alone', async () => {
    const own = async (exporter: ChainAccount, importer: ChainAccount) =>
      from(`news.${importer.publicKey}.x`)(exporter);
    const other = async (exporter: ChainAccount) => from(`news.${exporter.publicKey}.x`)(exporter);
    for (const [imports, arrives] of [
      [own, true],
      [other, false],
    ] as const) {
      const { exporter, importer, importing } = await share({
        exports: [...streams('news.*.x', { account_token_position: 2 }), ...streams('free')],
        imports: async (...accounts) => [...(await imports(...accounts)), ...(await from('free')(accounts[0]))],
      });
      await importer.send('SUB > 1');
      await exporter.send(pub(`news.${importing.publicKey}.x`, 'own'), pub('free', 'end'));
      expect(await importer.next('MSG')).toContain(arrives ? 'MSG news.' : 'MSG free ');
    }
  });

  test('share shows the exporter who asks', async () => {
    for (const isShared of [true, false]) {
      const { exporter, importer } = await share({
        exports: service('ask'),
        imports: asks('ask', { share: isShared }),
      });
      await exporter.send('SUB ask 1');
      await importer.send(pub('ask', 'question', 'inbox'));
      const line = await exporter.next('Nats-Request-Info');
      expect(line.includes('"host":"127.0.0.1"')).toBe(isShared);
    }
  });
});

test('tags are shown by the monitoring of the server', async () => {
  const one = await client({ user: { tags: ['floor:2'] } });
  await one.send();
  const { connections } = (await (await fetch(`http://127.0.0.1:${monitor}/connz?auth=1`)).json()) as {
    connections: { tags?: string[] }[];
  };
  expect(connections.flatMap(({ tags = [] }) => tags)).toContain('floor:2');
});
