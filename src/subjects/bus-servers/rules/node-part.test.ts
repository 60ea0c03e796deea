import { readFileSync } from 'node:fs';
import type { NatsConnection } from 'nats';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../../../hack/ports.ts';
import {
  busClient,
  makeBus,
  startBusServer,
  type TestAccount,
  type TestUser,
  withoutTls,
} from '../../../../testing/bus.ts';
import { tlsFiles } from '../../../../testing/bus-tls.ts';
import { makeBusLookups } from '../../../../testing/inputs.ts';
import type { EdgeNodeSpec } from '../../../api/v3/index.ts';
import { connectBus } from '../../../bus-client/connection.ts';
import type { PartInputs } from '../../../rules/part.ts';
import { makeNode } from '../../nodes/_make.ts';
import { nodePorts, startNodeServer } from '../_node-server.ts';
import { hubSettings } from './hub.ts';
import { BUS_SERVER } from './node-part.ts';

const FACTS = { hasDefaultRouter: false, isBusEnabled: true };
const { signal } = new AbortController();
const bus = makeBus();
const tls = tlsFiles();

const SYSTEM = bus.account('SYS-leaf-gw-1');
const SYSTEM_TOKEN = SYSTEM.token();
const ADMIN = SYSTEM.user('admin-leaf-gw-1');

interface Given {
  name?: string;
  spec?: Partial<EdgeNodeSpec>;
  /** the accounts of the installation, each with its token */
  accounts?: Readonly<Record<string, { account: TestAccount; token: string; leafUser?: TestUser }>>;
  hub?: { host: string; serverPort: number; leafPort: number } | undefined;
  lost?: readonly string[];
  key?: string;
  operators?: readonly string[];
}

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** What the part is made from on a node whose system account and user exist. */
function inputsOf({ accounts = {}, hub, lost = [], key = 'k'.repeat(32), operators = [bus.operator] }: Given) {
  const all = { 'SYS-leaf-gw-1': { account: SYSTEM, token: SYSTEM_TOKEN }, ...accounts };
  const secrets: Record<string, Record<string, string>> = {
    'skerry-bus-operator': {
      token: base64(operators[0] ?? ''),
      trusted: base64(JSON.stringify(operators.slice(1))),
    },
    'user-system': { creds: base64(ADMIN.creds) },
    ...Object.fromEntries(
      Object.entries(all).map(([name, { token }]) => [`account-${name}`, { token: base64(token) }]),
    ),
    ...Object.fromEntries(
      Object.entries(accounts).flatMap(([name, { leafUser }]) =>
        leafUser ? [[`user-${name}`, { creds: base64(leafUser.creds) }]] : [],
      ),
    ),
  };
  const refs = Object.keys(all).map((name) => ({ name, secret: `account-${name}` }));
  const secret = (name: string) => (lost.includes(name) ? undefined : secrets[name]);
  const inputs: PartInputs = {
    key: () => (lost.includes('key') ? undefined : base64(key)),
    secret,
    upstreamNode: (name) =>
      name === 'gw-9' ? makeNode({ name, spec: { host: 'gw-9.example', busLeafPort: 7000 } }) : undefined,
    bus: makeBusLookups(
      {
        hub: () => hub && { ...hubSettings({ spec: hub }), host: hub.host },
        usersOfNode: () => [
          { name: 'admin', account: 'SYS-leaf-gw-1', secret: 'user-system', isOfSystem: true },
          ...Object.entries(accounts).flatMap(([name, { leafUser }]) =>
            leafUser ? [{ name: 'leaf-gw-1', account: name, secret: `user-${name}` }] : [],
          ),
        ],
        account: (name) => refs.find((one) => one.name === name),
        accounts: () => refs,
      },
      secret,
    ),
  };
  return inputs;
}

function wantsOf({ name = 'gw-1', spec = {}, ...given }: Given) {
  const inputs = inputsOf(given);
  const wants = BUS_SERVER.wants(makeNode({ name, spec }), FACTS);
  const files = wants?.files?.(inputs);
  const config = Object.entries(files?.sets.find(({ name }) => name === 'bus-config')?.files ?? {});
  return {
    wants,
    lacks: files?.lacks,
    files: Object.fromEntries(config.map(([path, content]) => [path, Buffer.from(content, 'base64').toString()])),
  };
}

/** A real server of the node, and what writes the files of another state of it. */
async function startNode(given: Given) {
  const ports = await nodePorts();
  const filesOf = (state: Given) => wantsOf({ ...state, spec: { ...ports, ...given.spec } }).files;
  const server = await startNodeServer(filesOf(given), ports, await tls);
  return { ...server, write: (next: Given) => server.write(filesOf(next)) };
}

/** Publishes until something arrives, and returns all that arrived by when a second message did. */
async function heard(from: NatsConnection, to: NatsConnection, subject: string): Promise<string[]> {
  const got: string[] = [];
  const subscription = to.subscribe(subject, { callback: (_, message) => void got.push(message.string()) });
  await to.flush();
  await expect
    .poll(async () => {
      from.publish(subject, 'again');
      await from.flush();
      return got.length > 0;
    })
    .toBe(true);
  got.length = 0;
  from.publish(subject, 'once');
  from.publish(subject, 'end');
  await expect.poll(() => got).toContain('end');
  subscription.unsubscribe();
  return got.filter((text) => text !== 'again');
}

describe('the server of a node', () => {
  test('links its accounts to the hub by leaf users of their own, and starts with their tokens', async () => {
    const [pumps, fans] = [bus.account('pumps'), bus.account('fans')];
    const tokens = { pumps: pumps.token(), fans: fans.token() };
    const leafPort = await freePort();
    const hub = await startBusServer(bus, {
      preload: { [pumps.publicKey]: tokens.pumps, [fans.publicKey]: tokens.fans },
      leafs: { port: leafPort, tls: await tls },
    });
    const given = (): Given => ({
      hub: { host: '127.0.0.1', serverPort: 1, leafPort },
      accounts: {
        pumps: { account: pumps, token: tokens.pumps, leafUser: pumps.user('leaf-gw-1') },
        fans: { account: fans, token: tokens.fans, leafUser: fans.user('leaf-gw-1') },
      },
    });
    const [here, there] = [await startNode(given()), await startNode({ ...given(), name: 'gw-2' })];
    const [reader, writer] = [await busClient(there.url, pumps.user('b')), await busClient(here.url, pumps.user('a'))];
    const stranger = await busClient(there.url, fans.user('c'));
    const overheard: string[] = [];
    stranger.subscribe('>', { callback: (_, message) => void overheard.push(message.string()) });
    expect(await heard(writer, reader, 'speed')).toEqual(['once', 'end']);
    expect(await heard(await busClient(hub.url, pumps.user('d')), reader, 'speed')).toEqual(['once', 'end']);
    expect(overheard).toEqual([]);
  });

  test('passes a subject that an account imports from another one of the same server once, here and at the hub', async () => {
    const [pumps, fans] = [bus.account('pumps'), bus.account('fans')];
    const shared = { subject: 'speed', type: 'stream', name: 'speed' } as const;
    const tokens = {
      pumps: pumps.token({ rule: { exports: [shared] } }),
      fans: fans.token({ rule: { imports: [{ ...shared, account: pumps.publicKey }] } }),
    };
    const leafPort = await freePort();
    const hub = await startBusServer(bus, {
      preload: { [pumps.publicKey]: tokens.pumps, [fans.publicKey]: tokens.fans },
      leafs: { port: leafPort, tls: await tls },
    });
    const node = await startNode({
      hub: { host: '127.0.0.1', serverPort: 1, leafPort },
      accounts: {
        pumps: { account: pumps, token: tokens.pumps, leafUser: pumps.user('leaf-gw-1') },
        fans: { account: fans, token: tokens.fans, leafUser: fans.user('leaf-gw-1') },
      },
    });
    const writer = await busClient(node.url, pumps.user('a'));
    const [here, there] = [await busClient(node.url, fans.user('b')), await busClient(hub.url, fans.user('c'))];
    // Both links work: another subject of the importer reaches the hub.
    expect(await heard(here, there, 'own')).toEqual(['once', 'end']);
    expect(await heard(writer, await busClient(hub.url, pumps.user('d')), 'speed')).toEqual(['once', 'end']);
    expect(await heard(writer, there, 'speed')).toEqual(['once', 'end']);
    expect(await heard(writer, here, 'speed')).toEqual(['once', 'end']);
  });

  test('keeps a newer token that was pushed when it starts with an older one in its files', async () => {
    const pumps = bus.account('pumps');
    const user = pumps.user('north');
    const older = { account: pumps, token: pumps.token(), leafUser: pumps.user('leaf-gw-1') };
    const node = await startNode({ accounts: { pumps: older } });
    await busClient(node.url, user);
    const connection = await connectBus({ servers: [node.url], creds: ADMIN.creds, name: 'test', signal });
    await connection.push(pumps.token({ revocations: { [user.publicKey]: Math.ceil(Date.now() / 1000) } }), signal);
    await connection.close();
    await node.restart();
    await expect(busClient(node.url, user)).rejects.toThrow('Authorization');
  });

  test('refuses clients without TLS where its node asks for it, and lets the agent in by the certificates that the agent has', async () => {
    const pumps = bus.account('pumps');
    const token = pumps.token();
    const leafPort = await freePort();
    const hub = await startBusServer(bus, {
      preload: { [pumps.publicKey]: token },
      leafs: { port: leafPort, tls: await tls },
    });
    const node = await startNode({
      spec: { busClientTls: true },
      hub: { host: '127.0.0.1', serverPort: 1, leafPort },
      accounts: { pumps: { account: pumps, token, leafUser: pumps.user('leaf-gw-1') } },
    });
    const port = Number(new URL(node.url).port);
    expect(await withoutTls(port)).toBe('is ended');
    const ca = readFileSync((await tls).ca, 'utf8');
    const [here, there] = [await busClient(node.url, pumps.user('a'), ca), await busClient(hub.url, pumps.user('b'))];
    expect(await heard(here, there, 'speed')).toEqual(['once', 'end']);
    expect(await heard(there, here, 'speed')).toEqual(['once', 'end']);
    const options = { servers: [`tls://127.0.0.1:${port}`], tls: { ca }, creds: ADMIN.creds, name: 'test', signal };
    const agent = await connectBus(options);
    await agent.push(pumps.token(), signal);
    await agent.close();
  });

  test('lets in the users of its first account, and of further ones, after a reload that ends no connection', async () => {
    const [pumps, fans] = [bus.account('pumps'), bus.account('fans')];
    const leaf = (account: TestAccount) => ({ account, token: account.token(), leafUser: account.user('leaf-gw-1') });
    const first = { pumps: leaf(pumps) };
    const hub = { host: '127.0.0.1', serverPort: 1, leafPort: await freePort() };
    const node = await startNode({ hub });
    node.write({ accounts: first, hub });
    node.reload();
    const early = pumps.user('a');
    await expect.poll(() => busClient(node.url, early).catch(() => undefined)).toBeDefined();
    const stays = await busClient(node.url, pumps.user('a'));
    node.write({ accounts: { ...first, fans: leaf(fans) }, hub });
    node.reload();
    const user = fans.user('b');
    await expect.poll(() => busClient(node.url, user).catch(() => undefined)).toBeDefined();
    await stays.flush();
    expect(stays.isClosed()).toBe(false);
  });
});

describe('the part of the bus', () => {
  const pumps = bus.account('pumps');
  const account = { account: pumps, token: pumps.token(), leafUser: pumps.user('leaf-gw-1') };
  const hub = { host: 'hub.example', serverPort: 4222, leafPort: 7422 };

  test.each([
    ['while the bus is off', { busMode: 'leaf' }, false],
    ['in mode none', { busMode: 'none' }, true],
  ] as const)('wants nothing %s', (_, spec, isBusEnabled) => {
    expect(BUS_SERVER.wants(makeNode({ spec }), { ...FACTS, isBusEnabled })).toBeUndefined();
  });

  test('publishes the ports for clients and devices, on a server the port for leafs too, and never the port of its monitoring', () => {
    const portsOf = (spec: Partial<EdgeNodeSpec>) =>
      BUS_SERVER.wants(makeNode({ spec }), FACTS)?.entry?.container?.ports?.map(({ external }) => external);
    expect(portsOf({})).toEqual([4222, 8883]);
    expect(portsOf({ busMode: 'server', busServerPort: 4000, busLeafPort: 7000 })).toEqual([4000, 8883, 7000]);
    expect(wantsOf({}).files['server.conf']).toContain('http: "127.0.0.1:8222"');
  });

  test.each([
    ['another size of the store', { spec: { jsStorageSize: '2g' } }],
    ['another port', { spec: { busServerPort: 4999 } }],
    ['another key', { key: 'x'.repeat(32) }],
    ['TLS for clients', { spec: { busClientTls: true } }],
    ['a second operator', { operators: [makeBus().operator, bus.operator] }],
  ] as [string, Given][])('replaces the container for %s', (_, given) => {
    expect(wantsOf(given).files.start).not.toBe(wantsOf({}).files.start);
  });

  test('leaves the container for other accounts, tokens, links and another hub', () => {
    const before = wantsOf({}).files;
    const after = wantsOf({ accounts: { pumps: account }, hub }).files;
    expect(after.start).toBe(before.start);
    expect(after['server.conf']).not.toBe(before['server.conf']);
    const moved = wantsOf({ accounts: { pumps: account }, hub: { ...hub, leafPort: 1 } }).files;
    expect(moved.start).toBe(before.start);
  });

  test.each([
    [{ hub }, 'tls://hub.example:7422'],
    [{ hub, spec: { upstreamBusServers: ['gw-9', 'default-bus-hub'] } }, 'tls://gw-9.example:7000'],
    [{ hub: { ...hub, host: '2001:db8::5' } }, 'tls://[2001:db8::5]:7422'],
  ] as [Given, string][])('with %j links to %s', (given, url) => {
    expect(wantsOf({ ...given, accounts: { pumps: account } }).files['server.conf']).toContain(`"${url}"`);
  });

  test('links nothing while there is no upstream, and keeps the accounts', () => {
    const { files } = wantsOf({ accounts: { pumps: account } });
    expect(files['server.conf']).not.toContain('remotes');
    expect(Object.keys(files).filter((path) => path.startsWith('tokens-')).length).toBeGreaterThan(0);
  });

  test('has the token of each account in one small file, and a change of it in no other one', () => {
    const many = Object.fromEntries(
      Array.from({ length: 40 }, (_, n) => {
        const one = bus.account(`a${n}`);
        return [`a${n}`, { account: one, token: one.token() }];
      }),
    );
    const spec = { busMode: 'server' } as const;
    const before = wantsOf({ spec, accounts: many }).files;
    const [first] = Object.values(many);
    const changed = { ...many, a0: { ...first, token: first?.account.token({ revocations: { '*': 1 } }) ?? '' } };
    const after = wantsOf({ spec, accounts: changed as typeof many }).files;
    const differing = Object.keys(after).filter((path) => after[path] !== before[path] && path.startsWith('tokens-'));
    expect(differing).toHaveLength(1);
    expect(Object.keys(after).filter((path) => path.startsWith('tokens-')).length).toBeGreaterThan(8);
  });

  test('gives the agent the certificates by which it knows its server only where clients need TLS', () => {
    const systemFiles = (spec: Partial<EdgeNodeSpec>) => {
      const own = inputsOf({});
      const ca = { 'ca.crt': base64('CA') };
      const secret = (name: string) => (name === 'skerry-ca-default-bus-local-ca' ? ca : own.secret(name));
      const { sets = [] } =
        BUS_SERVER.wants(makeNode({ name: 'gw-1', spec }), FACTS)?.files?.({ ...own, secret }) ?? {};
      return sets.find(({ name }) => name === 'bus-system')?.files;
    };
    expect(systemFiles({})).toEqual({ 'system.creds': base64(ADMIN.creds) });
    expect(systemFiles({ busClientTls: true })).toEqual({
      'system.creds': base64(ADMIN.creds),
      'ca.crt': base64('CA'),
    });
  });

  test.each([
    ['the operator', 'skerry-bus-operator', 'the operator of the message bus is not made yet'],
    ['its system user', 'user-system', 'the system account of the bus server of this node is not made yet'],
    ['the key of its store', 'key', 'the key of the store of this node is not made yet'],
  ])('says that %s is not made yet, and sends nothing', (_, lost, message) => {
    const { files, lacks } = wantsOf({ lost: [lost] });
    expect(lacks).toEqual({ reason: 'BusNotSetUp', message });
    expect(files).toEqual({});
  });
});
