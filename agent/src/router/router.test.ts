import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../../hack/ports.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import type { Bridges } from '../../../src/subjects/routers/rules/bridges.ts';
import { routerPairs } from '../../../src/subjects/routers/rules/config.ts';
import { ROUTER_SETS } from '../../../src/wire/router.ts';
import { echoServer, makeRouterTrust, said, startRouter, tcpClient } from '../../../testing/router.ts';
import type { Sent } from '../domain/desired.ts';
import { makeView } from '../supervise/plan/_util.ts';
import { RouterPart } from './router.ts';

const trust = await makeRouterTrust();

/** An agent's part, with the files of a machine in memory. */
function machine() {
  const sets = new Map<string, Map<string, Uint8Array>>();
  let changes = 0;
  const part = new RouterPart({
    clock: systemClock,
    random: () => 0.5,
    log: silentLog,
    read: (set) => sets.get(set),
    changedAt: () => changes,
    changed: () => {},
  });
  const abort = new AbortController();
  const ended = part.run(abort.signal);
  onTestFinished(async () => {
    abort.abort();
    await ended;
  });
  const view = makeView({ isRouter: true, isSystem: true });
  return {
    part,
    look: (views = [view]) =>
      part.look({ microservices: { views: new Map(views.map((one) => [one.uuid, one])) } } as unknown as Pick<
        Sent,
        'microservices'
      >),
    /** Replaces a set, as the system's files do. */
    write(set: string, files: Readonly<Record<string, string>>) {
      changes++;
      sets.set(set, new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)] as const)));
    },
  };
}

type Machine = ReturnType<typeof machine>;

/** A router whose machine has its certificates, and no services. */
async function started() {
  const router = await startRouter(trust, { mode: 'edge' });
  const agent = machine();
  const { ca, cert, key } = trust.agent;
  agent.write(ROUTER_SETS.agent, { 'ca.crt': ca, 'tls.crt': cert, 'tls.key': key });
  const certificates = () => {
    for (const set of [ROUTER_SETS.site, ROUTER_SETS.local])
      agent.write(set, {
        'tls.crt': readFileSync(join(router.certificates, set, 'tls.crt'), 'utf8'),
      });
  };
  certificates();
  const setBridges = (bridges: Partial<Bridges>) => writeConfig(agent, router, bridges);
  setBridges({});
  agent.look();
  await becomesCurrent(agent);
  return { router, agent, setBridges, certificates };
}

function writeConfig(agent: Machine, router: Awaited<ReturnType<typeof startRouter>>, bridges: Partial<Bridges>): void {
  const { id, ports } = router;
  const all = { listeners: [], connectors: [], ...bridges };
  const pairs = routerPairs({
    ...{ id, ports, mode: 'edge', place: 'node', site: { platform: 'docker' }, upstreams: [], bridges: all },
  });
  agent.write(ROUTER_SETS.config, { 'skrouterd.json': JSON.stringify(router.local(pairs)), start: 'a' });
  agent.look();
}

const becomesCurrent = ({ part }: Machine) =>
  expect.poll(() => part.report().router?.isCurrent, { timeout: 10_000 }).toBe(true);

/** A service whose backend is a server of this machine. */
async function echo(name: string) {
  const [port, backend] = [String(await freePort()), String(await echoServer(name))];
  return {
    port: Number(port),
    listener: { name: `${name}-listener`, port, address: name },
    connector: { name: `${name}-connector`, host: '127.0.0.1', port: backend, address: name, processId: name },
  };
}

const answer = async (port: number, text: string) => {
  const socket = await tcpClient(port).catch(() => undefined);
  const reply = await (socket ? said(socket, text).catch(() => undefined) : undefined);
  socket?.destroy();
  return reply;
};

describe('the router on the machine', () => {
  test('gets a service, and loses it, without a restart, and is reported as current from then on', async () => {
    const { agent, setBridges } = await started();
    const pump = await echo('pump');
    setBridges({ listeners: [pump.listener], connectors: [pump.connector] });
    expect(agent.part.report().router?.isCurrent).toBe(false);
    await becomesCurrent(agent);
    await expect.poll(() => answer(pump.port, 'hi')).toBe('pump: hi');
    setBridges({});
    await becomesCurrent(agent);
    await expect
      .poll(() =>
        tcpClient(pump.port).then(
          () => 'open',
          () => 'refused',
        ),
      )
      .toBe('refused');
  });

  test('keeps open connections of a service while others come and a certificate is renewed', async () => {
    const { router, agent, setBridges, certificates } = await started();
    const [pump, fan] = [await echo('pump'), await echo('fan')];
    setBridges({ listeners: [pump.listener], connectors: [pump.connector] });
    await becomesCurrent(agent);
    await expect.poll(() => answer(pump.port, 'hi')).toBe('pump: hi');
    const socket = await tcpClient(pump.port);
    expect(await said(socket, 'one')).toBe('pump: one');
    await trust.write(router.certificates);
    certificates();
    setBridges({
      listeners: [fan.listener, pump.listener],
      connectors: [fan.connector, pump.connector],
    });
    await becomesCurrent(agent);
    await expect.poll(() => answer(fan.port, 'hi')).toBe('fan: hi');
    expect(await said(socket, 'two')).toBe('pump: two');
    socket.destroy();
  });

  test('is behind while it is away, and current again after it starts with an older configuration', async () => {
    const { router, agent, setBridges } = await started();
    const pump = await echo('pump');
    await router.kill();
    await expect.poll(() => agent.part.report().router?.isCurrent).toBe(false);
    setBridges({ listeners: [pump.listener], connectors: [pump.connector] });
    expect(agent.part.problems).toEqual([]);
    await router.start();
    await becomesCurrent(agent);
    await expect.poll(() => answer(pump.port, 'hi')).toBe('pump: hi');
  });

  test('names the listener of a service that no router reaches', async () => {
    const { agent, setBridges } = await started();
    const pump = await echo('pump');
    setBridges({ listeners: [pump.listener] });
    await expect
      .poll(() => agent.part.report().router)
      .toMatchObject({ isCurrent: true, notUp: [{ name: 'pump-listener' }], notUpCount: 1 });
  });

  test('is reported no more once the node has no router', async () => {
    const { agent } = await started();
    agent.look([]);
    expect(agent.part.report()).toEqual({});
    expect(agent.part.problems).toEqual([]);
  });
});

test('the router is neither dialled nor reported before its files are on the machine', () => {
  const agent = machine();
  agent.write(ROUTER_SETS.config, { 'skrouterd.json': 'no list', start: 'a' });
  agent.look();
  expect(agent.part.report()).toEqual({});
});
