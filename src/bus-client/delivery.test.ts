import { rmSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../hack/ports.ts';
import { busClient, makeBus, startBusServer, type TestAccount, type TestBus } from '../../testing/bus.ts';
import { tlsFiles } from '../../testing/bus-tls.ts';
import { systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { settleToken } from '../subjects/bus-servers/rules/settle.ts';
import { connectBus } from './connection.ts';
import { type DeliveryState, TokenDelivery } from './delivery.ts';

const now = () => Math.floor(Date.now() / 1_000);
const revoked = (...users: readonly { publicKey: string }[]) =>
  Object.fromEntries(users.map(({ publicKey }) => [publicKey, now() + 1]));

/** Delivers the tokens of a map, which a test changes. `adopt` signs anew with the revocations of what was found. */
function deliverTo(bus: TestBus, url: string, accounts: readonly TestAccount[]) {
  const tokens = new Map<string, string>();
  const states: DeliveryState[] = [];
  const adopted: string[] = [];
  const delivery = new TokenDelivery({
    dial: (signal) => connectBus({ servers: [url], creds: bus.admin.creds, name: 'test', signal }),
    wanted: { accounts: () => tokens.keys(), token: (account) => tokens.get(account) },
    settle: settleToken,
    async adopt(account, found) {
      adopted.push(...found);
      const claims = found.map((one) => JSON.parse(Buffer.from(one.split('.')[1] ?? '', 'base64url').toString()));
      const revocations = Object.assign({}, ...claims.map(({ nats }) => nats.revocations));
      const iat = Math.max(...claims.map((one) => one.iat)) + 1;
      set(accounts.find(({ publicKey }) => publicKey === account) as TestAccount, { revocations, iat });
    },
    report: (state) => void states.push(state),
    clock: systemClock,
    random: () => 0.5,
    log: silentLog,
  });
  onTestFinished(() => delivery[Symbol.asyncDispose]());
  function set(account: TestAccount, options: Parameters<TestAccount['token']>[0] = {}) {
    tokens.set(account.publicKey, account.token(options));
    delivery.changed(account.publicKey);
  }
  const isCurrent = () => expect.poll(() => delivery.state.isCurrent, { timeout: 10_000 }).toBe(true);
  return { delivery, tokens, states, adopted, set, isCurrent };
}

const refused = (url: string, user: { publicKey: string; creds: string }) =>
  expect(busClient(url, user)).rejects.toThrow('Authorization');

describe('the delivery of tokens', () => {
  test('brings a server every token when it connects, and each change within 5 s to an open connection', async () => {
    const bus = makeBus();
    const server = await startBusServer(bus);
    const pumps = bus.account('pumps');
    const user = pumps.user('north');
    const to = deliverTo(bus, server.url, [pumps]);
    to.set(pumps);
    await to.isCurrent();
    const client = await busClient(server.url, user);
    const began = performance.now();
    to.set(pumps, { revocations: revoked(user) });
    await client.closed();
    expect(performance.now() - began).toBeLessThan(5_000);
    await refused(server.url, user);
  });

  test('reaches a server that was away: its old files, copied back, let nobody in whom a later token revoked', async () => {
    const bus = makeBus();
    const pumps = bus.account('pumps');
    const user = pumps.user('north');
    const server = await startBusServer(bus);
    const to = deliverTo(bus, server.url, [pumps]);
    to.set(pumps);
    await to.isCurrent();
    const saved = join(server.dir, 'saved');
    await cp(join(server.dir, 'tokens'), saved, { recursive: true });
    to.set(pumps, { revocations: revoked(user) });
    await expect.poll(() => busClient(server.url, user).catch(() => undefined)).toBeUndefined();
    await server.kill();
    rmSync(join(server.dir, 'tokens'), { recursive: true });
    await cp(saved, join(server.dir, 'tokens'), { recursive: true });
    await expect.poll(() => to.delivery.state.server).toBeUndefined();
    await server.start();
    await to.isCurrent();
    await refused(server.url, user);
    expect(to.adopted).toEqual([]);
  });

  test('gives a server whose directory was emptied all tokens again', async () => {
    const bus = makeBus();
    const pumps = bus.account('pumps');
    const user = pumps.user('north');
    const server = await startBusServer(bus);
    const to = deliverTo(bus, server.url, [pumps]);
    to.set(pumps);
    await to.isCurrent();
    await server.kill();
    rmSync(join(server.dir, 'tokens'), { recursive: true });
    await expect.poll(() => to.delivery.state.server).toBeUndefined();
    await server.start();
    await to.isCurrent();
    await busClient(server.url, user);
  });

  test('reads back the tokens of servers, so that a restored datastore undoes no revocation', async () => {
    const bus = makeBus();
    const pumps = bus.account('pumps');
    const [user, other] = [pumps.user('north'), pumps.user('south')];
    const server = await startBusServer(bus);
    const before = deliverTo(bus, server.url, [pumps]);
    before.set(pumps);
    await before.isCurrent();
    const snapshot = new Map(before.tokens);
    before.set(pumps, { revocations: revoked(user) });
    await expect.poll(() => busClient(server.url, user).catch(() => undefined)).toBeUndefined();
    await before.delivery[Symbol.asyncDispose]();
    const after = deliverTo(bus, server.url, [pumps]);
    for (const [account, token] of snapshot) after.tokens.set(account, token);
    await after.isCurrent();
    await expect.poll(() => after.adopted.length).toBe(1);
    await refused(server.url, user);
    await busClient(server.url, other);
    // The next token of the account has the revocation as well.
    const latest = Buffer.from((after.tokens.get(pumps.publicKey) as string).split('.')[1] ?? '', 'base64url');
    expect(latest.toString()).toContain(user.publicKey);
  });

  test('keeps what only the server has: a missing account ends no connection', async () => {
    const bus = makeBus();
    const pumps = bus.account('pumps');
    const server = await startBusServer(bus, { preload: { [pumps.publicKey]: pumps.token() } });
    const client = await busClient(server.url, pumps.user('north'));
    const to = deliverTo(bus, server.url, []);
    await to.isCurrent();
    await client.flush();
    expect(client.isClosed()).toBe(false);
  });

  test('ends no connection when nothing changed, however often it compares', async () => {
    const bus = makeBus();
    const pumps = bus.account('pumps');
    const server = await startBusServer(bus);
    const first = deliverTo(bus, server.url, [pumps]);
    first.set(pumps);
    await first.isCurrent();
    const client = await busClient(server.url, pumps.user('north'));
    for (let i = 0; i < 3; i++) {
      const again = deliverTo(bus, server.url, [pumps]);
      for (const [account, token] of first.tokens) again.tokens.set(account, token);
      await again.isCurrent();
      first.delivery.changed(pumps.publicKey);
    }
    await client.flush();
    expect(client.isClosed()).toBe(false);
  });

  test('says how many accounts a server refuses, and delivers the others', async () => {
    const bus = makeBus();
    const [pumps, fans] = [bus.account('pumps'), bus.account('fans')];
    const server = await startBusServer(bus);
    const to = deliverTo(bus, server.url, [pumps, fans]);
    const [head, body] = pumps.token().split('.');
    to.tokens.set(pumps.publicKey, `${head}.${body}.${'A'.repeat(86)}`);
    to.set(fans);
    to.delivery.changed(pumps.publicKey);
    await expect.poll(() => to.delivery.state).toMatchObject({ isCurrent: false, refused: 1 });
    await busClient(server.url, fans.user('north'));
    to.set(pumps);
    await to.isCurrent();
  });

  test('tries again without end while there is no server', async () => {
    const bus = makeBus();
    const port = await freePort();
    const pumps = bus.account('pumps');
    const to = deliverTo(bus, `nats://127.0.0.1:${port}`, [pumps]);
    to.set(pumps);
    await expect.poll(() => to.states.length).toBe(0);
    const server = await startBusServer(bus, { serverPort: port });
    await to.isCurrent();
    await busClient(server.url, pumps.user('north'));
  });

  test('reaches each member of a cluster, and a member that was away while a user was revoked', async () => {
    const bus = makeBus();
    const ports = [await freePort(), await freePort()];
    const routes = ports.map((port) => `nats://127.0.0.1:${port}`);
    const tls = await tlsFiles();
    const members = await Promise.all(
      ports.map((port) => startBusServer(bus, { cluster: { name: 'hub', port, routes, tls }, isStoreless: true })),
    );
    const [one, two] = members as [(typeof members)[0], (typeof members)[0]];
    const pumps = bus.account('pumps');
    const user = pumps.user('north');
    const [first, second] = [deliverTo(bus, one.url, [pumps]), deliverTo(bus, two.url, [pumps])];
    const both = (token: string) => {
      for (const { tokens, delivery } of [first, second]) {
        tokens.set(pumps.publicKey, token);
        delivery.changed(pumps.publicKey);
      }
    };
    both(pumps.token());
    await first.isCurrent();
    await second.isCurrent();
    await two.kill();
    const client = await busClient(one.url, user);
    both(pumps.token({ revocations: revoked(user) }));
    await client.closed();
    await expect.poll(() => second.delivery.state.server).toBeUndefined();
    await two.start();
    await second.isCurrent();
    await refused(two.url, user);
    await refused(one.url, user);
  });
});
