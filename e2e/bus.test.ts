import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { connectAsync } from 'mqtt';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AUTHORITY_SECRET_PREFIX, SYSTEM_AUTHORITY } from '../src/api/names.ts';
import { withoutTls } from '../testing/bus.ts';
import { type BusMachine, type BusMachines, type Heard, MACHINE, startBusMachines } from './_bus.ts';
import { listeners } from './_listeners.ts';
import { until } from './_stack.ts';

/** The message bus on two machines that are linked without a hub: the bus servers are real. */
let bus: BusMachines;
let first: BusMachine;
let second: BusMachine;

beforeAll(async () => {
  bus = await startBusMachines();
  [first, second] = bus.machines;
  await bus.set(first.node, { busMode: 'server', host: MACHINE });
  await bus.set(second.node, { busMode: 'leaf', upstreamBusServers: [first.node] });
}, 300_000);
afterAll(() => bus?.[Symbol.asyncDispose](), 60_000);

test('containers of one application talk over a leaf and a server on two machines, and another application receives nothing', async () => {
  for (const { node } of bus.machines) await bus.untilBusReady(node);
  await bus.apply('plant', { north: { node: 'gw-1' }, south: { node: 'gw-2' } });
  await bus.apply('shop', { stranger: { node: 'gw-2' } });
  await bus.hears('north', 'south');
  const south = await bus.hears('south', 'north');
  expect(south.server).toBe(`nats://bus.default.svc.bridge.local:${second.ports.server}`);
  const stranger = (await bus.hears('stranger', 'stranger')) as Heard;
  expect(Object.keys(stranger.heard)).toEqual(['stranger']);
}, 300_000);

test('a message arrives once', async () => {
  const [before, sent] = [await bus.heard('north'), await bus.heard('south')];
  await bus.hears('south', 'south', (sent?.heard.south ?? 0) + 20);
  const [after, now] = [await bus.heard('north'), await bus.heard('south')];
  const received = (after?.heard.south ?? 0) - (before?.heard.south ?? 0);
  const published = (now?.heard.south ?? 0) - (sent?.heard.south ?? 0);
  expect(received).toBeLessThan(published * 1.5);
  expect(received).toBeGreaterThan(published * 0.5);
});

test('another rule ends the connection and the former credentials, and the container runs on with its new file', async () => {
  const former = await bus.credsOf('south');
  const before = await bus.heard('south');
  expect(await bus.isLetIn(second, former)).toBe(true);
  await bus.apply('plant', { north: { node: 'gw-1' }, south: { node: 'gw-2', rule: 'default-leaf-user' } });
  await until('the former credentials to be refused on both machines', async () => {
    const [here, there] = [await bus.isLetIn(first, former), await bus.isLetIn(second, former)];
    return !here && !there;
  });
  await bus.apply('plant', { north: { node: 'gw-1' }, south: { node: 'gw-2' } });
  const connected = await until('another connection', async () => {
    const now = await bus.heard('south');
    return now && now.error === '' && now.connects > (before?.connects ?? 0) && now;
  });
  await bus.hears('north', 'south', (await bus.heard('north'))?.heard.south ?? 0);
  expect(connected.started).toBe(before?.started);
  expect(await bus.credsOf('south')).not.toBe(former);
}, 180_000);

test('a server whose agent was away refuses, once it is back, who was revoked meanwhile', async () => {
  const former = await bus.credsOf('north');
  await second.agent.kill();
  await bus.apply('plant', { north: { node: 'gw-1', rule: 'default-leaf-user' }, south: { node: 'gw-2' } });
  await until('the other server to refuse', async () => !(await bus.isLetIn(first, former)));
  expect(await bus.isLetIn(second, former)).toBe(true);
  await second.agent.start();
  await until('the server that was away to refuse', async () => !(await bus.isLetIn(second, former)));
}, 180_000);

test('a device with a token as its password publishes by MQTT over TLS, and hears what a container on another machine says', async () => {
  const answer = await bus.rest('POST', '/bus/accounts/plant/mqtt-bearer', { name: 'valve' });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  const secret = await bus.stack.kube.get<{ data: Record<string, string> }>(
    `/api/v1/namespaces/${bus.stack.namespace}/secrets/${AUTHORITY_SECRET_PREFIX}${SYSTEM_AUTHORITY.busLocal}`,
  );
  const url = `mqtts://127.0.0.1:${first.ports.mqtt}`;
  const options = {
    ...{ username: 'valve', password: answer.body.jwt, connectTimeout: 5_000, reconnectPeriod: 0 },
    ca: Buffer.from(secret?.data['ca.crt'] ?? '', 'base64'),
  };
  await expect(connectAsync(url, { ...options, ca: undefined })).rejects.toThrow(/self-signed|certificate/);
  const password = `${String(answer.body.jwt).slice(0, -4)}AAAA`;
  await expect(connectAsync(url, { ...options, password })).rejects.toThrow('Not authorized');
  const device = await until('the server to know the token', () => connectAsync(url, options).catch(() => undefined));
  try {
    const south = Promise.withResolvers<string>();
    device.on('message', (_, message) => south.resolve(String(message)));
    await device.subscribeAsync('talk/south', { qos: 1 });
    expect(await south.promise).toBe('south');
    await device.publishAsync('talk/valve', 'valve', { qos: 1 });
    const heard = await bus.hears('south', 'valve');
    expect(heard.heard.valve).toBe(1);
    expect((await bus.heard('stranger'))?.heard.valve).toBeUndefined();
    const closed = new Promise<void>((resolve) => device.once('close', () => resolve()));
    expect((await bus.rest('DELETE', '/bus/accounts/plant/mqtt-bearer/valve')).status).toBe(204);
    await closed;
    await expect(connectAsync(url, options)).rejects.toThrow('Not authorized');
  } finally {
    await device.endAsync(true);
  }
}, 120_000);

test('the bus opens the ports of the table in the page of the platform, and no other port of the machine', async () => {
  const page = readFileSync(join(import.meta.dirname, '../docs/resources/platform.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `(bus\w+Port)`, \d+ \| [^|]* \| ([^|]*) \|/gm)];
  for (const machine of bus.machines) {
    const mode = machine === first ? 'server' : 'leaf';
    const spec = (await bus.stack.node(machine.node))?.spec as unknown as Record<string, number>;
    const allowed = rows.filter(([, , modes]) => modes?.includes(mode)).map(([, field = '']) => spec[field]);
    const { State, HostConfig } = await bus.serverOf(machine);
    const published = Object.values(HostConfig.PortBindings).flatMap((some) => some.map((one) => Number(one.HostPort)));
    expect(published.sort()).toEqual([...allowed].sort());
    expect(HostConfig.NetworkMode).not.toBe('host');
    const open = listeners(State.Pid).filter(({ isLoopback }) => !isLoopback);
    expect(open.map(({ port }) => port).sort()).toEqual([...allowed].sort());
  }
});

test('containers of a machine whose server wants TLS of its clients are replaced and connect by TLS, and a client without TLS is not served', async () => {
  await bus.apply('plant', { north: { node: 'gw-1' }, south: { node: 'gw-2' } });
  await bus.hears('south', 'north', (await bus.heard('south'))?.heard.north ?? 0);
  const before = await bus.heard('south');
  await bus.set(second.node, { busClientTls: true });
  const south = await until('a connection by TLS', async () => {
    const now = await bus.heard('south');
    return now?.server.startsWith('tls://') && now.error === '' && now.connects > 0 && now;
  });
  expect(south.server).toBe(`tls://bus.default.svc.bridge.local:${second.ports.server}`);
  expect(south.started).toBeGreaterThan(before?.started ?? 0);
  await bus.hears('south', 'north');
  await bus.hears('north', 'south', (await bus.heard('north'))?.heard.south ?? 0);
  await bus.untilBusReady(second.node);
  expect(await withoutTls(second.ports.server)).toBe('is ended');
  expect(await withoutTls(first.ports.server)).toBe('is answered');
}, 180_000);
