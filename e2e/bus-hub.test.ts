import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { connect, credsAuthenticator, type NatsConnection } from 'nats';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callEngine } from '../hack/engine-api.ts';
import { type BusMachine, type BusMachines, connectAs, startBusMachines } from './_bus.ts';
import { type BusHubOfTest, startHubOfThree } from './_bus-hub.ts';
import { listeners } from './_listeners.ts';
import { Relay } from './_relay.ts';
import { until } from './_stack.ts';

/**
 * The message bus with a hub of three servers: two machines with engines of different kinds, whose bus servers are leafs of it, one cut
 * off for longer than its links wait.
 *
 * With SKERRY_NIGHTLY no packet of the machine passes for ten minutes; else its connections end at once, and so do new ones.
 */
const NIGHTLY = process.env.SKERRY_NIGHTLY !== undefined;
const CUT_MS = NIGHTLY ? 10 * 60_000 : 6_000;
const GUESTS = NIGHTLY ? 20 : 6;
/** Within which servers refuse a revoked user. */
const REVOKED = { timeoutMs: 5_000, intervalMs: 50 };
const execute = promisify(execFile);

let bus: BusMachines;
let hub: BusHubOfTest;
let first: BusMachine;
let second: BusMachine;
/** between the second machine's agent and the controller */
let link: Relay;

beforeAll(async () => {
  bus = await startBusMachines({
    async urlOf(node, url) {
      if (node !== 'gw-2') return url;
      link = await Relay.start({ host: '127.0.0.1', ports: [Number(new URL(url).port)] });
      return `http://127.0.0.1:${link.port}`;
    },
  });
  [first, second] = bus.machines;
  hub = await startHubOfThree(bus.stack);
  for (const { node } of bus.machines) await bus.set(node, { busMode: 'leaf' });
}, 300_000);
afterAll(async () => {
  await hub?.[Symbol.asyncDispose]();
  await bus?.[Symbol.asyncDispose]();
  await link?.[Symbol.asyncDispose]();
}, 60_000);

/** The credentials of a further user of an account, which is created. */
async function user(name: string, account = 'plant'): Promise<string> {
  const path = `/bus/accounts/${account}/users`;
  expect((await bus.rest('POST', path, { name })).status).toBe(201);
  const { status, body } = await bus.rest('GET', `${path}/${name}/creds`);
  expect(status, JSON.stringify(body)).toBe(200);
  return Buffer.from(body.credsBase64, 'base64').toString();
}
const revoke = async (name: string) =>
  expect((await bus.rest('DELETE', `/bus/accounts/plant/users/${name}`)).status).toBe(204);

const localUrl = ({ ports }: BusMachine) => `nats://127.0.0.1:${ports.server}`;

/** A client that connects again by itself. */
const steady = (creds: string): Promise<NatsConnection> =>
  connect({
    servers: hub.url,
    authenticator: credsAuthenticator(new TextEncoder().encode(creds)),
    ...{ maxReconnectAttempts: -1, reconnectTimeWait: 100, waitOnFirstConnect: true },
  });

/** Connects as soon as the server has the token of the account. */
const admitted = (creds: string, url: string) =>
  until(`${url} to let a new user in`, () => connectAs(creds, url).catch(() => undefined));

/** What the server said as it ended a connection. */
async function endOf(client: NatsConnection): Promise<string> {
  const words: string[] = [];
  void (async () => {
    for await (const { type, data } of client.status()) if (String(type) === 'error') words.push(String(data));
  })();
  words.push(String(await client.closed()));
  return words.join();
}

let laptop: string;

test('containers on two leafs of a hub receive from each other, and a container of another application receives nothing', async () => {
  await bus.apply('plant', {
    north: { node: first.node },
    south: { node: second.node },
    west: { node: second.node },
  });
  await bus.apply('shop', { stranger: { node: second.node } });
  for (const { node } of bus.machines) await bus.untilBusReady(node);
  await bus.hears('north', 'south');
  await bus.hears('south', 'north');
  expect(Object.keys((await bus.hears('stranger', 'stranger')).heard)).toEqual(['stranger']);
  laptop = await user('laptop');
}, 300_000);

test('each server of the hub listens at its five ports and no other, and for probes on the machine alone', () => {
  for (const { pid, serverPort, leafPort, mqttPort, clusterPort, httpPort } of hub.members) {
    const open = listeners(pid, { own: true });
    const ports = (isLoopback: boolean) => open.filter((one) => one.isLoopback === isLoopback).map(({ port }) => port);
    expect(ports(false).sort()).toEqual([serverPort, leafPort, mqttPort, clusterPort].sort());
    expect(ports(true)).toEqual([httpPort]);
  }
});

test('a member of the hub that is killed takes no acknowledged message with it, and messages pass between the leafs again', async () => {
  const client = await steady(laptop);
  const jetstream = client.jetstream();
  const manager = await jetstream.jetstreamManager();
  await manager.streams.add({ name: 'orders', subjects: ['orders.>'], num_replicas: 3 });
  const acknowledged = new Set<string>();
  const publish = async (id: number) => {
    const text = `order ${id}`;
    // With the id of the message an attempt after a lost answer adds nothing.
    await until('the stream to take a message', () =>
      jetstream.publish('orders.new', text, { msgID: text, timeout: 1_000 }).catch(() => undefined),
    );
    acknowledged.add(text);
  };
  for (let i = 0; i < 50; i++) await publish(i);
  const leader = (await manager.streams.info('orders')).cluster?.leader ?? '';
  const index = Number(leader.split('-').at(-1));
  await Promise.all([hub.kill(index), ...Array.from({ length: 20 }, (_, i) => publish(50 + i))]);
  for (let i = 70; i < 100; i++) await publish(i);
  const before = await bus.heard('north');
  await bus.hears('north', 'south', before?.heard.south ?? 0);
  await hub.start(index);
  const consumer = await jetstream.consumers.get('orders', { inactive_threshold: 60_000 });
  const found = new Set<string>();
  for await (const message of await consumer.fetch({ max_messages: 100, expires: 30_000 })) found.add(message.string());
  expect(found).toEqual(acknowledged);
  expect((await manager.streams.info('orders')).state.messages).toBe(100);
  await client.close();
}, 180_000);

test('every user that is deleted is disconnected by hub and leaf within 5 s, in the words of a revocation', async () => {
  const names = Array.from({ length: GUESTS }, (_, i) => `guest-${i}`);
  const clients: NatsConnection[] = [];
  const credentials: string[] = [];
  for (const [i, name] of names.entries()) {
    const creds = await user(name);
    credentials.push(creds);
    clients.push(await admitted(creds, i % 2 === 0 ? hub.url : localUrl(first)));
  }
  const ends = clients.map(endOf);
  for (const [i, name] of names.entries()) {
    const client = clients[i] as NatsConnection;
    expect(client.isClosed()).toBe(false);
    await revoke(name);
    await until(`${name} to be disconnected`, async () => client.isClosed(), REVOKED);
    expect(await ends[i]).toMatch(/authentication revoked/i);
  }
  for (const creds of credentials) await expect(connectAs(creds, hub.url)).rejects.toThrow('Authorization');
}, 180_000);

/** Runs iptables in the network of the second machine's bus server: nothing of it outlives the container. */
async function filter(...rule: readonly string[]): Promise<void> {
  const { State } = await bus.serverOf(second);
  await execute('nsenter', ['--target', String(State.Pid), '--net', 'iptables', '--wait', ...rule]);
}

/** No packet passes between the bus server of the second machine and the hub; with resets, both ends know it at once. */
async function cutFromHub(): Promise<void> {
  const target = NIGHTLY ? ['DROP'] : ['REJECT', '--reject-with', 'tcp-reset'];
  const ports = ['--match', 'multiport', '--ports', hub.leafPorts.join()];
  for (const chain of ['INPUT', 'OUTPUT'])
    await filter('--append', chain, '--protocol', 'tcp', ...ports, '--jump', ...target);
}

const busReadyOf = async ({ node }: BusMachine) =>
  (await bus.stack.node(node))?.status?.conditions?.find(({ type }) => type === 'BusReady');

test(
  'a machine that is cut off keeps its containers talking, catches up with a mirrored stream after it, and refuses within 5 s of the first contact of its agent who was revoked meanwhile',
  async () => {
    const guest = await user('guest');
    const [atHub, atLeaf, guestAtHub, guestAtLeaf] = [
      await steady(laptop),
      await admitted(laptop, localUrl(second)),
      await admitted(guest, hub.url),
      await admitted(guest, localUrl(second)),
    ];
    const ends = [guestAtHub, guestAtLeaf].map(endOf);
    const [orders, copies] = [atHub.jetstream(), await atLeaf.jetstreamManager()];
    await copies.streams.add({
      name: 'copy',
      mirror: { name: 'orders', external: { api: `$JS.${hub.domain}.API`, deliver: '' } },
    });
    const isCaughtUp = async () => {
      const { state } = await (await atHub.jetstreamManager()).streams.info('orders');
      return (await copies.streams.info('copy')).state.last_seq === state.last_seq;
    };
    await until('the mirrored stream to have every message', isCaughtUp);

    link.cut(NIGHTLY ? 'silent' : 'closed');
    await cutFromHub();
    const began = performance.now();
    await revoke('guest');
    await until('the hub to disconnect the user', async () => guestAtHub.isClosed(), REVOKED);
    expect(guestAtLeaf.isClosed()).toBe(false);
    for (let i = 0; i < 20; i++) await orders.publish('orders.meanwhile', `${i}`, { timeout: 10_000 });
    await until('the node to say that its machine lacks something', async () => {
      const { status } = (await busReadyOf(second)) ?? {};
      return status !== 'True';
    });
    const cutAt = await bus.heard('south');
    await until(
      'containers of the machine to talk for as long as the cut lasts',
      async () => {
        const now = await bus.heard('south');
        expect(now?.connects).toBe(cutAt?.connects);
        return (now?.heard.west ?? 0) > (cutAt?.heard.west ?? 0) + CUT_MS / 200 && performance.now() - began > CUT_MS;
      },
      { timeoutMs: 3 * CUT_MS },
    );
    const cut = await bus.heard('south');
    expect(cut?.heard.north).toBeLessThan((cutAt?.heard.north ?? 0) + 50);
    expect(await isCaughtUp()).toBe(false);
    expect(await bus.isLetIn(second, guest)).toBe(true);

    await filter('--flush');
    await link.heal();
    await until('the leaf to disconnect the user', async () => guestAtLeaf.isClosed(), REVOKED);
    expect(await bus.isLetIn(second, guest)).toBe(false);
    for (const end of ends) expect(await end).toMatch(/authentication revoked/i);
    await bus.untilBusReady(second.node);
    // A server tries less and less often to read a stream that it does not reach.
    await until('the mirrored stream to catch up', isCaughtUp, { timeoutMs: 180_000 });
    await bus.hears('south', 'north', cut?.heard.north);
    await bus.hears('north', 'south', (await bus.heard('north'))?.heard.south);
    expect((await bus.heard('south'))?.started).toBe(cutAt?.started);
    for (const client of [atHub, atLeaf]) await client.close();
  },
  CUT_MS * 3 + 300_000,
);

test('streams of the hub are made and written while the bus servers of all nodes are off', async () => {
  await bus.set(first.node, { busMode: 'server' });
  await until('the first node to have a server', async () => (await busReadyOf(first))?.status !== 'True');
  await bus.untilBusReady(first.node);
  for (const machine of bus.machines) {
    const { id } = await bus.serverOf(machine);
    await machine.agent.kill();
    await callEngine(machine.engine.url, 'POST', `/containers/${id}/kill`);
  }
  const client = await steady(laptop);
  const jetstream = client.jetstream();
  await (await jetstream.jetstreamManager()).streams.add({ name: 'later', subjects: ['later.>'], num_replicas: 3 });
  expect((await jetstream.publish('later.first', 'whole')).seq).toBe(1);
  await client.close();
}, 180_000);
