import { createServer, type Server, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../../../hack/ports.ts';
import { atEnd } from '../../../../testing/at-end.ts';
import { servicesInMemory } from '../_fleet.ts';

/** A controller in memory that dials services at a default router, whose listeners are servers of the test. */
const first = await freePort();
const RANGE = { BRIDGE_PORTS_RANGE: `${first}-${first + 20}` };
const on = servicesInMemory(1, { ...RANGE, SKERRY_DIAL_SERVICES: 'true' });
const { service, send } = on;

const external = {
  ...{ type: 'external', resource: 'db.example', targetPort: 5432 },
  ...{ servicePort: 80, clusterType: 'ClusterIP' },
};
const reachable = (name: string) => service(name)?.status?.conditions?.find(({ type }) => type === 'Reachable');
const soon = <T>(read: () => T) => expect.poll(read, { timeout: 15_000 });
const writes = () =>
  [...on.fleet.cluster.writes].reduce((sum, [verb, count]) => sum + (/ services/.test(verb) ? count : 0), 0);

/** Listens at a port as a router does, which closes a client when it reaches no server. */
async function listen(port: number, reaches: { server: boolean }): Promise<{ server: Server; dialed: () => number }> {
  let dialed = 0;
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    dialed++;
    open.add(socket.on('error', () => {}).resume());
    if (reaches.server) socket.write('hello');
    else socket.end();
  });
  await new Promise<void>((resolve) => void server.listen(port, '127.0.0.1', resolve));
  atEnd(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return { server, dialed: () => dialed };
}

/** Changes the backend: a reason to dial at once. */
const edit = (name: string, targetPort: number) => send('PATCH', `/services/${name}`, { targetPort });
/** Time passes so fast that no status waits for others to be merged with. */
function haste(): Disposable {
  const timer = setInterval(() => {
    on.fleet.time.now += 10_000;
  }, 2);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

async function create(name: string): Promise<number> {
  expect((await send('POST', '/services', { name, ...external })).status).toBe(201);
  return service(name)?.status?.bridgePort ?? 0;
}

describe('the condition Reachable of a service', () => {
  test('says why a client of the default router reaches no server, and follows what it reaches', async () => {
    await send('PUT', '/router', { host: '127.0.0.1' });
    const passing = haste();
    const port = await create('db');
    await soon(() => reachable('db')).toMatchObject({ status: 'False', reason: 'DialRefused' });
    const reaches = { server: false };
    const { dialed } = await listen(port, reaches);
    await edit('db', 1);
    await soon(() => reachable('db')).toMatchObject({ status: 'False', reason: 'DialClosed' });
    expect(reachable('db')?.message).toBe(
      `127.0.0.1 port ${port}: accepted and closed at once: no server answers behind the routers`,
    );
    reaches.server = true;
    await edit('db', 2);
    await soon(() => reachable('db')).toMatchObject({ status: 'True', reason: 'BackendAnswers' });
    expect(service('db')?.status).toMatchObject({ provisioningStatus: 'ready' });
    passing[Symbol.dispose]();
    await on.fleet.settle();
    const before = [dialed(), writes()];
    await on.fleet.nextTerm();
    // The next leader dials by itself, and finds what its predecessor wrote down.
    await soon(dialed).toBeGreaterThan(before[0] ?? 0);
    await on.fleet.settle();
    expect(writes()).toBe(before[1]);
    expect(reachable('db')).toMatchObject({ status: 'True' });
  }, 60_000);

  test('is absent without a default router, and for a service that has no port', async () => {
    await create('db');
    await send('POST', '/services', { ...external, name: 'lost', type: 'agent', resource: 'nobody' });
    await on.fleet.settle();
    expect([reachable('db'), reachable('lost')]).toEqual([undefined, undefined]);
  });
});

describe('without SKERRY_DIAL_SERVICES', () => {
  const off = servicesInMemory(1, RANGE);

  test('nothing dials a service, and the condition is absent', async () => {
    await off.send('PUT', '/router', { host: '127.0.0.1' });
    await off.send('POST', '/services', { name: 'db', ...external });
    const port = off.service('db')?.status?.bridgePort ?? 0;
    const { dialed } = await listen(port, { server: true });
    await off.send('PATCH', '/services/db', { targetPort: 1 });
    await off.fleet.nextTerm();
    expect(off.service('db')?.status?.conditions?.map(({ type }) => type)).not.toContain('Reachable');
    expect(dialed()).toBe(0);
  });
});
