import { beforeEach, describe, expect, test } from 'vitest';
import { NAMESPACE } from '../../../../testing/in-memory-controller.ts';
import { SERVICE_TAG } from '../../../api/names.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { RouterHubEnd } from '../../../rules/router-hub.ts';
import { servicesInMemory } from '../_fleet.ts';

/** A controller in memory: what services say of the routers that listen for them and reach their backends. */
const NODES = 4;
const on = servicesInMemory(NODES);
const { service, send } = on;

const external = { type: 'external', resource: 'db.example', targetPort: 5432 };
const inCluster = { servicePort: 80, clusterType: 'ClusterIP' };
const node = (i: number) => on.fleet.stores.nodes.get(NAMESPACE, `gateway-${i}`) as EdgeNode;
const condition = (name: string, type: string) => service(name)?.status?.conditions?.find((one) => one.type === type);
const listening = (name: string) => condition(name, 'Listening');
const writesOfServices = () =>
  [...on.fleet.cluster.writes].reduce((sum, [verb, count]) => sum + (/ services/.test(verb) ? count : 0), 0);

const create = (name: string, body: object = {}) =>
  send('POST', '/services', { name, ...external, ...inCluster, ...body });

async function edit(i: number, change: (spec: EdgeNode['spec']) => void) {
  on.fleet.cluster.edit(node(i), (copy) => change(copy.spec));
  await on.fleet.settle();
}
/** Nodes with a router and this token. */
const select = async (token: string, ...which: number[]) => {
  for (const i of which)
    await edit(i, (spec) => Object.assign(spec, { routerMode: 'edge', tags: [`${SERVICE_TAG}: ${token}`] }));
};

/** In a moment, once it is the turn of the service. */
const soon = <T>(read: () => T) => expect.poll(read, { timeout: 5_000 });

beforeEach(async () => {
  for (let i = 0; i < NODES; i++)
    on.fleet.cluster.edit(node(i), ({ spec }) => Object.assign(spec, { routerMode: 'none', tags: [] }));
  await on.fleet.settle();
});

interface Said {
  isReached?: boolean;
  isCurrent?: boolean;
  refused?: { name: string; message: string }[];
  notUp?: { name: string; message?: string }[];
  notUpCount?: number;
}
/** The agent of a node reports its router, which has what the node is sent, unless it is said otherwise. */
async function report(i: number, said: Said = {}, files?: string) {
  const of = node(i);
  const digest = files ?? on.fleet.desired(nodeUuid(of))?.digests.systemFiles;
  on.fleet.observe(of, {
    reportedAt: on.fleet.time.now,
    report: {
      ...(digest !== undefined && { systemFiles: { digest } }),
      router: { isReached: true, isCurrent: true, links: [], refused: [], notUp: [], notUpCount: 0, ...said },
    },
  });
  await on.fleet.settle();
}
/** Later than all merging of statuses. */
const later = () => {
  on.fleet.time.now += 10_000;
};

describe('the condition Listening of a service', () => {
  test('counts the default router and the nodes that select the service, and has the words of the first that fails', async () => {
    await select('fast', 0, 1);
    await select('slow', 2);
    await create('db', { tags: ['fast'] });
    for (const i of [0, 1, 2]) await report(i);
    later();
    await report(1, { notUp: [{ name: 'db-listener', message: 'Address already in use' }] });
    await soon(() => service('db')?.status).toMatchObject({ provisioningStatus: 'ready', listeners: { up: 2, of: 3 } });
    await soon(() => listening('db')).toMatchObject({
      ...{ status: 'True', reason: 'RoutersListen' },
      message: '2 of 3 routers listen; gateway-1 does not: its port is taken: Address already in use',
    });
    later();
    await report(1);
    await soon(() => listening('db')?.message).toBe('3 of 3 routers listen');
  });

  test('counts a listener that a long report leaves out as waiting while it waits at the default router', async () => {
    await select('fast', 0);
    await report(0);
    await create('db', { tags: ['fast'] });
    later();
    await report(0);
    await soon(() => service('db')?.status?.listeners).toEqual({ up: 2, of: 2 });
    const { bridgePort } = service('db')?.status ?? {};
    on.hub.of = (name) =>
      name === 'db-listener'
        ? { port: String(bridgePort), problem: { is: 'waiting' } }
        : { port: '5432', host: 'db.example' };
    later();
    on.hub.tell(['db-listener']);
    await soon(() => service('db')?.status?.listeners).toEqual({ up: 1, of: 2 });
    later();
    await report(0, { notUp: [{ name: 'a-listener' }], notUpCount: 300 });
    later();
    on.hub.tell(['db-listener']);
    await soon(() => service('db')?.status?.listeners).toEqual({ up: 0, of: 2 });
  });

  test('says that a router does not have a service yet, until its node reports the files with the service', async () => {
    await select('fast', 0);
    await report(0, {}, 'older');
    await create('db', { tags: ['fast'] });
    await soon(() => listening('db')?.message).toBe(
      '1 of 2 routers listen; gateway-0 does not: it does not have the service yet',
    );
    later();
    await report(0);
    await soon(() => service('db')?.status?.listeners).toEqual({ up: 2, of: 2 });
  });

  test('follows the tags of nodes, and the tags and the end of routers', async () => {
    await create('db', { tags: ['fast'] });
    await create('log', { tags: ['fast'] });
    later();
    await select('fast', 0);
    await report(0);
    later();
    await report(0);
    await soon(() => service('db')?.status?.listeners).toEqual({ up: 2, of: 2 });
    later();
    await report(0, { isReached: false, isCurrent: false });
    await soon(() => listening('db')?.message).toContain('gateway-0 does not: it cannot be reached');
    later();
    await edit(0, (spec) => Object.assign(spec, { routerMode: 'none' }));
    await soon(() => service('log')?.status?.listeners).toEqual({ up: 1, of: 1 });
    later();
    await select('fast', 0);
    await send('PATCH', '/services/log', { tags: ['other'] });
    await soon(() => service('log')?.status?.listeners).toEqual({ up: 1, of: 1 });
    await soon(() => service('db')?.status?.listeners?.of).toBe(2);
  });

  test('is not changed by a node that reports names of services that it is not to have', async () => {
    await select('fast', 0);
    await select('slow', 1);
    await create('db', { tags: ['fast'] });
    await report(0);
    later();
    await report(1, { notUp: [] });
    await on.fleet.settle();
    const before = [JSON.stringify(service('db')?.status), writesOfServices()];
    later();
    const wrong = ['db-listener', 'db-connector', 'nothing-listener', 'x'].map((name) => ({ name, message: 'mine' }));
    await report(1, { notUp: wrong, refused: wrong });
    expect([JSON.stringify(service('db')?.status), writesOfServices()]).toEqual(before);
  });

  test('touches the services alone that a change of a node concerns', async () => {
    for (const name of ['a', 'b', 'c', 'd']) await create(name, { tags: [name] });
    await select('a', 0);
    await report(0);
    later();
    await report(0);
    later();
    const before = writesOfServices();
    await select('b', 0);
    later();
    await report(0);
    await on.fleet.settle();
    // One router less for a; one more for b, which it has a moment later.
    expect(writesOfServices() - before).toBeLessThanOrEqual(3);
    await soon(() => service('a')?.status?.listeners).toEqual({ up: 1, of: 1 });
    await soon(() => service('b')?.status?.listeners).toEqual({ up: 2, of: 2 });
  });

  test('stays as it was when another replica leads, until nodes report to it', async () => {
    await select('fast', 0, 1);
    await create('db', { tags: ['fast'] });
    for (const i of [0, 1]) await report(i);
    later();
    await report(1, { notUp: [{ name: 'db-listener' }] });
    const [status, writes] = [JSON.stringify(service('db')?.status), writesOfServices()];
    await on.fleet.nextTerm();
    expect(JSON.stringify(service('db')?.status)).toBe(status);
    await report(0);
    await report(1, { notUp: [{ name: 'db-listener' }] });
    expect([JSON.stringify(service('db')?.status), writesOfServices()]).toEqual([status, writes]);
    later();
    await report(1);
    await soon(() => service('db')?.status?.listeners).toEqual({ up: 3, of: 3 });
  });
});

describe('a silent node', () => {
  test('makes no service unready, and leaves open whether its router reaches the backends on it', async () => {
    await select('fast', 0, 1);
    await create('db', { tags: ['fast'] });
    await create('ssh', { type: 'agent', resource: 'gateway-1', targetPort: 22 });
    for (const i of [0, 1]) await report(i);
    later();
    for (const i of [0, 1]) await report(i);
    await soon(() => condition('ssh', 'Connected')).toMatchObject({ status: 'True', reason: 'RouterHasConnector' });
    on.fleet.time.now += 3_700_000;
    for (const i of [0, 2, 3]) await report(i);
    later();
    on.fleet.cluster.edit(node(1), (copy) => Object.assign(copy.metadata, { labels: { round: '1' } }));
    await expect.poll(() => node(1).status?.daemonStatus, { timeout: 10_000 }).toBe('UNKNOWN');
    await on.fleet.settle();
    await soon(() => condition('ssh', 'Connected')).toMatchObject({ status: 'Unknown', reason: 'NodeSilent' });
    await soon(() => listening('db')?.message).toBe('2 of 3 routers listen; gateway-1 does not: the node is silent');
    for (const name of ['db', 'ssh']) expect(condition(name, 'Ready')?.status).toBe('True');
  });
});

describe('the condition Connected of a service', () => {
  test('is about the router of the node with the backend, in the words of that router', async () => {
    await select('none', 0);
    await report(0, {}, 'older');
    await create('ssh', { type: 'agent', resource: 'gateway-0', targetPort: 22 });
    await soon(() => condition('ssh', 'Connected')).toMatchObject({ status: 'False', reason: 'NoConnector' });
    later();
    await report(0, { isCurrent: false, refused: [{ name: 'ssh-connector', message: 'no such host' }] });
    await soon(() => condition('ssh', 'Connected')?.message).toBe(
      'the router of gateway-0 lacks the connector: it refuses it: no such host',
    );
    later();
    await report(0);
    await soon(() => condition('ssh', 'Connected')).toMatchObject({ status: 'True', reason: 'RouterHasConnector' });
  });
});

describe('the default router', () => {
  test('keeps a service pending until it has it, and does not when it starts again', async () => {
    const held: { end?: RouterHubEnd; lostAt?: number } = {};
    on.hub.of = () => held.end;
    on.hub.unreachedSince = on.fleet.time.now;
    await create('db');
    const { bridgePort } = service('db')?.status ?? {};
    await soon(() => service('db')?.status).toMatchObject({ provisioningStatus: 'pending' });
    await soon(() => condition('db', 'Ready')).toMatchObject({ reason: 'HubPending' });
    on.hub.of = (name) =>
      name.endsWith('-listener') ? { port: String(bridgePort) } : { port: '5432', host: 'db.example' };
    on.hub.tell(['db-listener']);
    on.hub.unreachedSince = undefined;
    on.hub.tell([]);
    await on.fleet.settle();
    await soon(() => condition('db', 'Ready')).toMatchObject({ status: 'True' });
    later();
    on.hub.unreachedSince = on.fleet.time.now - 40_000;
    on.fleet.cluster.edit(service('db') as never, (copy: { metadata: object }) =>
      Object.assign(copy.metadata, { labels: { round: '1' } }),
    );
    await on.fleet.settle();
    await soon(() => listening('db')).toMatchObject({ status: 'False', reason: 'NoListener' });
    await soon(() => condition('db', 'Ready')).toMatchObject({ status: 'True' });
  });
});
