import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callEngine } from '../hack/engine-api.ts';
import { secretTexts } from '../hack/stack/hub-certificate.ts';
import { ROUTER_HUB_CERTIFICATES } from '../src/api/names.ts';
import { connectRouter } from '../src/router-client/connection.ts';
import { echoServer, said, tcpClient } from '../testing/router.ts';
import { listeners } from './_listeners.ts';
import { type RouterMachine, type RouterMachines, startRouterMachines } from './_services.ts';
import { until, untilReady } from './_stack.ts';

/**
 * Services over routers on two machines with engines of their own, one of which nobody dials, and the default router. Clients are a container on
 * the first machine, and this process, which dials the default router. ROUTER names the real program; else all routers are our stand-in. The
 * tests build on each other.
 */
let net: RouterMachines;
let first: RouterMachine;
let second: RouterMachine;
/** port of a server in the network of the second machine, and of a container there */
const HOSTED = 9100;
const RAW = 9200;

const ofCluster = { servicePort: 80, clusterType: 'ClusterIP' } as const;
const at = (port: number) => `system-quay-1.router:${port}`;
/** What a new connection of the container on the first machine gets as its answer. */
const fromContainer = async (service: string, id = `${service}-${Math.random()}`) => {
  const { answer, error } = await net.say('caller', id, at(await net.bridgePortOf(service)), 'hi');
  if (answer === undefined) throw new Error(`${service}: ${error}`);
  return answer;
};
/** What a new connection to the default router gets. */
async function fromHub(service: string): Promise<string> {
  const client = await tcpClient(await net.bridgePortOf(service));
  try {
    return await said(client, 'hi');
  } finally {
    client.destroy();
  }
}
const untilAnswered = async (service: string, by: string) => {
  for (const dial of [fromContainer, fromHub])
    await until(`an answer of ${service}`, async () => (await dial(service)) === `${by}: hi`, { intervalMs: 100 });
};

beforeAll(async () => {
  net = await startRouterMachines();
  [first, second] = net.machines;
  await net.set('quay-1', { routerMode: 'edge', tags: ['skerry.dev/service: all'] });
  await net.set('quay-2', { routerMode: 'edge' });
  await net.apply('plant', {
    caller: { node: 'quay-1' },
    bridged: { node: 'quay-2' },
    hosted: { node: 'quay-2', hostPort: HOSTED },
  });
}, 300_000);
afterAll(() => net?.[Symbol.asyncDispose](), 60_000);

test('the router of each machine is ready, and opens the port for clients with a certificate alone', async () => {
  for (const { node } of net.machines) await net.untilRouterReady(node);
  for (const machine of net.machines) {
    const router = await until('the router', () => net.routerOf(machine));
    const { messagingPort } = (await net.stack.node(machine.node))?.spec ?? {};
    expect(listeners(router.State.Pid).filter(({ isLoopback }) => !isLoopback)).toMatchObject([
      { port: messagingPort },
    ]);
    expect(Object.keys(router.HostConfig.PortBindings ?? {})).toEqual([`${messagingPort}/tcp`]);
  }
}, 300_000);

describe('a client in a container of another machine, and one at the default router, reach', () => {
  test('a server in a container on the bridge network, and on the network of the machine', async () => {
    await untilReady(net.stack, 'plant', 120_000);
    const ofPlant = (name: string) => ({ type: 'microservice', resource: `plant/${name}`, ...ofCluster }) as const;
    await net.service('bridged', { ...ofPlant('bridged'), targetPort: 9000 });
    await net.service('hosted', { ...ofPlant('hosted'), targetPort: HOSTED });
    for (const name of ['bridged', 'hosted']) await untilAnswered(name, name);
  }, 180_000);

  test('a server on the machine itself, a host that the default router dials, and a host of its cluster', async () => {
    await using _server = await net.serveOnSecond('raw', RAW);
    const port = await echoServer('outside');
    await net.service('machine', { type: 'agent', resource: 'quay-2', targetPort: RAW, ...ofCluster });
    await net.service('far', { type: 'external', resource: '127.0.0.1', targetPort: port, ...ofCluster });
    await net.service('near', { type: 'cluster', resource: 'localhost', targetPort: port });
    await untilAnswered('machine', 'raw');
    for (const name of ['far', 'near']) await untilAnswered(name, 'outside');
  }, 120_000);
});

test('each service names the routers that serve it, and the topology has the links that routers report', async () => {
  for (const [service, up] of [
    ['bridged', 2],
    ['machine', 2],
    ['far', 2],
  ] as const) {
    const status = async () => {
      const found = await net.statusOf(service);
      const conditions = (found?.conditions ?? []).map(({ type, status }) => [type, status]);
      return { ...Object.fromEntries(conditions), listeners: found?.listeners };
    };
    const listeners = { up, of: up };
    const expected = { Ready: 'True', Connected: 'True', Listening: 'True', listeners };
    await expect.poll(status, { timeout: 60_000, interval: 500 }).toMatchObject(expected);
  }
  const links = async () => {
    const { body } = await net.rest('GET', '/network-topology/router/connections');
    return body.connections.map(({ source, dest }: { source: string; dest: string }) => `${source} ${dest}`).sort();
  };
  const uuids = await Promise.all(net.machines.map(async ({ node }) => (await net.stack.node(node))?.status?.uuid));
  await expect.poll(links, { timeout: 60_000 }).toEqual(uuids.map((uuid) => `${uuid} default-router`).sort());
  for (const { node } of net.machines)
    expect((await net.stack.node(node))?.status?.router?.links).toEqual(['default-router']);
}, 120_000);

/** A connection that stays, with an answer now and then. */
async function keep(service: string): Promise<{ client: Socket; says(by: string): Promise<void> }> {
  const client = await until(`a connection to ${service}`, async () => tcpClient(await net.bridgePortOf(service)));
  return {
    client,
    async says(by) {
      expect(await said(client, 'still')).toBe(`${by}: still`);
    },
  };
}

/** The digest of the certificate that the router of the first machine serves. */
async function servedByFirst(): Promise<string> {
  const port = (await net.stack.node('quay-1'))?.spec.messagingPort ?? 0;
  const socket = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false }).on('error', () => {});
  await once(socket, 'secureConnect');
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}

test('an open connection stays while other services come and go, tags change, and the certificate of its router is renewed', async () => {
  const containers = () => Promise.all(net.machines.map(async (machine) => (await net.routerOf(machine))?.Id));
  const [before, certificate] = [await containers(), await servedByFirst()];
  const kept = await keep('bridged');
  await kept.says('bridged');
  await fromContainer('bridged', 'kept');
  await net.set('quay-1', { host: 'quay-1.example' });
  await net.set('quay-2', { tags: ['skerry.dev/service: all'] });
  const port = await echoServer('x');
  await net.service('passing', { type: 'external', resource: '127.0.0.1', targetPort: port, ...ofCluster });
  await untilAnswered('passing', 'x');
  await net.stack.remove('services', 'passing');
  await until('the router to serve the renewed certificate', async () => (await servedByFirst()) !== certificate);
  for (const { node } of net.machines) await net.untilRouterReady(node);
  await kept.says('bridged');
  expect(await net.say('caller', 'kept', '', 'still')).toEqual({ answer: 'bridged: still', isNew: false });
  kept.client.destroy();
  expect(await containers()).toEqual(before);
}, 120_000);

describe.runIf(process.env.SKERRY_NIGHTLY !== undefined)('through the night', () => {
  test('an open connection stays while the tags of both machines change a hundred times', async () => {
    const containers = () => Promise.all(net.machines.map(async (machine) => (await net.routerOf(machine))?.Id));
    const before = await containers();
    const kept = await keep('bridged');
    for (let i = 0; i < 100; i++) {
      await net.set('quay-1', { tags: ['skerry.dev/service: all', `round: ${i}`] });
      await net.set('quay-2', { tags: [`skerry.dev/service: ${i % 2 ? 'all' : 'none'}`] });
      await kept.says('bridged');
    }
    for (const { node } of net.machines) await net.untilRouterReady(node);
    await untilAnswered('bridged', 'bridged');
    await kept.says('bridged');
    kept.client.destroy();
    expect(await containers()).toEqual(before);
  }, 300_000);

  test('the default router that is edited by hand has its services again within a minute and a half', async () => {
    const { signal } = new AbortController();
    const texts = await secretTexts(net.stack.kube, net.stack.namespace, ROUTER_HUB_CERTIFICATES.agent);
    const { 'ca.crt': ca = '', 'tls.crt': cert = '', 'tls.key': key = '' } = texts;
    const to = { host: '127.0.0.1', port: net.hub.ports.messaging, servername: 'localhost' };
    const router = await connectRouter({ ...to, tls: { ca, cert, key }, name: 'somebody', signal });
    await router.delete({ kind: 'tcpListener', name: 'bridged-listener' }, signal);
    await expect(fromHub('bridged')).rejects.toThrow('ECONNREFUSED');
    await until('the listener to be there again', async () => (await fromHub('bridged')) === 'bridged: hi', {
      timeoutMs: 90_000,
    });
    await router.close();
  }, 120_000);
});

test('connections continue with the next dial after the owner has moved to the other machine, and after its router was killed', async () => {
  const kept = await keep('bridged');
  const ended = once(kept.client, 'close');
  await net.apply('plant', {
    caller: { node: 'quay-1' },
    bridged: { node: 'quay-1' },
    hosted: { node: 'quay-2', hostPort: HOSTED },
  });
  await ended;
  await untilAnswered('bridged', 'bridged');
  const { Id } = await until('the router', () => net.routerOf(first));
  await callEngine(first.engine.url, 'POST', `/containers/${Id}/kill`);
  await until('the router to run again', async () => (await net.routerOf(first))?.State.Pid);
  await untilAnswered('bridged', 'bridged');
  await untilAnswered('hosted', 'hosted');
}, 180_000);

test('no port of a router admits a client without a certificate: neither in plain text nor over TLS', async () => {
  const { messagingPort = 0 } = (await net.stack.node('quay-1'))?.spec ?? {};
  // The program answers before it refuses; whoever is to be admitted is offered a way without a certificate.
  const plain = await net.say('caller', 'plain', at(messagingPort), 'AMQP\u0003\u0001\u0000\u0000');
  expect(plain.answer ?? '').not.toMatch(/ANONYMOUS|PLAIN/);
  const { messaging, edge, interRouter } = net.hub.ports;
  for (const port of [messagingPort, messaging, edge, interRouter]) {
    const socket = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false });
    const received: Buffer[] = [];
    socket.on('data', (chunk) => received.push(chunk)).on('error', () => {});
    socket.write('AMQP\u0003\u0001\u0000\u0000');
    await new Promise((resolve) => socket.once('close', resolve));
    expect(Buffer.concat(received).toString()).not.toContain('AMQP');
  }
});

test('a router that becomes interior, and edge again, is replaced once each time and has its services; none leaves nothing', async () => {
  /** The router of the second machine after its only replacement, once a service is reached over it. */
  const another = async (before: { Id: string }, routerMode: string) => {
    await net.set('quay-2', { routerMode, host: 'quay-2.example' });
    const now = await until('another router', async () => {
      const router = await net.routerOf(second);
      return router && router.Id !== before.Id && router;
    });
    await net.untilRouterReady('quay-2');
    await untilAnswered('hosted', 'hosted');
    expect((await net.routerOf(second))?.Id).toBe(now.Id);
    return now;
  };
  const interior = await another(await until('the router', () => net.routerOf(second)), 'interior');
  const { messagingPort, edgeRouterPort, interRouterPort } = (await net.stack.node('quay-2'))?.spec ?? {};
  const open = listeners(interior.State.Pid, { own: true }).map(({ port }) => port);
  for (const port of [messagingPort, edgeRouterPort, interRouterPort]) expect(open).toContain(port);
  expect((await another(interior, 'edge')).HostConfig.NetworkMode).not.toBe('host');
  await net.set('quay-2', { routerMode: 'none', networkRouter: null, tags: [] });
  await until('no router', async () => (await net.routerOf(second)) === undefined);
  await expect(fromHub('hosted')).rejects.toThrow(/ECONNREFUSED|closed/);
}, 240_000);
