import { describe, expect, test } from 'vitest';
import { NAMESPACE, startInMemoryController } from '../testing/in-memory-controller.ts';
import type { Application, EdgeNode } from './api/v3/index.ts';
import { nodeUuid } from './rules/identity.ts';
import { v3Name } from './rules/names.ts';
import type { MicroserviceStatus } from './wire/agent.ts';

/** Two nodes with an application of two microservices each, and a spare node; the first application moves. */
async function setUp(options: Parameters<typeof startInMemoryController>[1] = {}) {
  const fleet = await startInMemoryController(2, options);
  const { stores, cluster, report, node } = fleet;
  const desired = (of: EdgeNode) => fleet.desired(nodeUuid(of));
  const application = (i = 0) => stores.applications.get(NAMESPACE, `line-${i}`) as Application;
  const ready = (i = 0) => application(i).status?.conditions?.find(({ type }) => type === 'Ready');
  const elsewhere = () => application().status?.conditions?.find(({ type }) => type === 'MayRunElsewhere');
  const uuids = (application().spec.microservices ?? []).map(({ uuid = '' }) => uuid);
  return {
    ...fleet,
    desired,
    application,
    ready,
    elsewhere,
    uuids,
    move: (to: EdgeNode, i = 0) =>
      cluster.edit(application(i), ({ spec }) => {
        for (const entry of spec.microservices ?? []) entry.agent = { name: v3Name(to) };
      }),
    /** The node reports its own, and that these containers are in this state. */
    has: (of: EdgeNode, status: MicroserviceStatus['status'], list?: string) =>
      report(
        of,
        'RUNNING',
        uuids.map((id) => ({ id, status, containerId: `c-${id}` })),
        list,
      ),
    /** What the node is to do about the microservices of the first application: the reason of each hold, or run. */
    async does(of: EdgeNode) {
      await fleet.settle();
      const own = (desired(of)?.microservices ?? []).filter(({ uuid }) => uuids.includes(uuid));
      return [...new Set(own.map((one) => ('hold' in one ? one.reason : 'run')))].join();
    },
    listOf: (of: EdgeNode) => desired(of)?.digests.microserviceList ?? '',
    a: () => node(0),
    c: () => fleet.spare,
  };
}

describe('a microservice that moves', () => {
  test('starts on its new node when the former one has reported, by a list of after the move, that it stopped it', async () => {
    await using fleet = await setUp();
    const { a, c, move, does, has, report, ready, application, listOf } = fleet;
    const before = listOf(a());
    move(c());
    expect(await does(c())).toBe('MovingFromNode');
    expect(await does(a())).toBe('');
    expect(ready()).toMatchObject({ status: 'False', reason: 'MovingFromNode' });
    expect(ready()?.message).toContain(`waits until the node "${v3Name(a())}" has stopped it`);

    // a report that was under way before the move says nothing about it
    report(a(), 'RUNNING', [], before);
    expect(await does(c())).toBe('MovingFromNode');
    for (const state of ['RUNNING', 'STOPPING', 'UNKNOWN', 'FAILED'] as const) {
      has(a(), state);
      expect(await does(c())).toBe('MovingFromNode');
      expect(ready()?.message).toContain(`${v3Name(a())} reports ${state}`);
    }
    has(a(), 'STOPPED');
    expect(await does(c())).toBe('run');
    expect(application().status?.microservices?.some(({ formerNodes }) => formerNodes)).toBe(false);
    report(fleet.c());
    await fleet.settle();
    expect(ready()).toMatchObject({ status: 'True', reason: 'AllRunning' });
    expect(application().status?.microservices?.map(({ name }) => name)).toEqual(['part-0', 'part-1']);
    // the list of the former node is the one that it was again
    expect(listOf(a())).toHaveLength(16);
  });

  test('waits for a node that was sent it and has not reported it yet', async () => {
    await using fleet = await setUp();
    const { a, c, move, does, report, spare } = fleet;
    const empty = fleet.listOf(spare);
    move(c());
    await fleet.settle();
    report(a());
    expect(await does(c())).toBe('run');
    // the spare node has it on its list and has not said anything of it
    move(a());
    expect(await does(a())).toBe('MovingFromNode');
    report(spare, 'RUNNING', [], empty);
    expect(await does(a())).toBe('MovingFromNode');
    report(spare);
    expect(await does(a())).toBe('run');
  });

  test('waits for each node of a chain that may have it, and for none that was never to start it', async () => {
    await using fleet = await setUp();
    const { a, c, node, move, does, report, has } = fleet;
    move(node(1));
    move(c());
    expect(await does(c())).toBe('MovingFromNode');
    has(a(), 'STOPPED');
    report(node(1));
    expect(await does(c())).toBe('run');
    // back before the former node was told: it keeps what it has
    move(a());
    await fleet.settle();
    move(c());
    expect(await does(c())).toBe('MovingFromNode');
    report(a());
    expect(await does(c())).toBe('run');
  });

  test('that is created and moved at once is not started twice', async () => {
    await using fleet = await setUp();
    const { a, c, cluster, rest, stores, desired } = fleet;
    const body = (to: EdgeNode) => ({
      name: 'quick',
      microservices: [{ name: 'one', nodeUuid: nodeUuid(to), images: [{ containerImage: 'plant/one:1', archId: 1 }] }],
    });
    expect(await rest('POST', '/application', body(a()))).toBe(201);
    const [quick] = stores.applications.byIndex('name', 'quick');
    cluster.edit(quick as Application, ({ spec }) => {
      for (const entry of spec.microservices ?? []) entry.agent = { uuid: nodeUuid(c()) };
    });
    await fleet.settle();
    expect(desired(c())?.microservices).toMatchObject([{ reason: 'MovingFromNode' }]);
  });

  test('that is renamed and moved in one edit is not started twice', async () => {
    await using fleet = await setUp();
    const { a, c, cluster, application, does, report } = fleet;
    cluster.edit(application(), ({ spec }) => {
      for (const entry of spec.microservices ?? []) {
        entry.name = `new-${entry.name}`;
        entry.agent = { name: v3Name(c()) };
      }
    });
    expect(await does(c())).toBe('MovingFromNode');
    report(a());
    expect(await does(c())).toBe('run');
  });

  test('exchanges its node with another one that has the same ports', async () => {
    await using fleet = await setUp();
    const { a, node, move, has, report, ready, desired } = fleet;
    move(node(1), 0);
    move(a(), 1);
    await fleet.settle();
    for (const each of [a(), node(1)])
      expect(desired(each)?.microservices).toMatchObject(Array(2).fill({ reason: 'MovingFromNode' }));
    has(a(), 'STOPPED');
    report(
      node(1),
      'RUNNING',
      (fleet.application(1).spec.microservices ?? []).map(({ uuid = '' }) => ({ id: uuid, status: 'STOPPED' })),
    );
    await fleet.settle();
    for (const each of [a(), node(1)]) report(each);
    await fleet.settle();
    for (const each of [a(), node(1)]) report(each);
    await fleet.settle();
    expect([ready(0)?.reason, ready(1)?.reason]).toEqual(['AllRunning', 'AllRunning']);
  });

  test('is deleted only when its former node has removed it', async () => {
    await using fleet = await setUp();
    const { a, c, move, has, report, rest, stores } = fleet;
    move(c());
    await fleet.settle();
    has(a(), 'STOPPING');
    expect(await rest('DELETE', '/application/line-0')).toBe(204);
    await fleet.settle();
    expect(stores.applications.get(NAMESPACE, 'line-0')).toBeDefined();
    report(a());
    await expect.poll(() => stores.applications.get(NAMESPACE, 'line-0')).toBeUndefined();
  });

  test('is moved over REST, which is refused neither before nor during the move', async () => {
    await using fleet = await setUp();
    const { a, c, rest, does, report, uuids } = fleet;
    for (const to of [c(), a(), c()])
      for (const uuid of uuids)
        expect(await rest('PATCH', `/microservices/${uuid}`, { nodeUuid: nodeUuid(to) })).toBeLessThan(300);
    expect(await does(c())).toBe('MovingFromNode');
    report(a());
    expect(await does(c())).toBe('run');
  });
});

describe('a microservice that moves from a node that is not heard', () => {
  /** Moves it from a silent node, and starts it on the spare one. */
  async function leaveSilent() {
    const fleet = await setUp({ waitSeconds: 1 });
    const { a, c, cluster, time, report, node, move, settle } = fleet;
    time.now += 160_000;
    for (const each of [node(1), c()]) report(each);
    cluster.edit(a(), ({ metadata }) => {
      metadata.annotations = { touched: 'true' };
    });
    await expect.poll(() => a().status?.daemonStatus).toBe('UNKNOWN');
    move(c());
    await settle();
    return fleet;
  }

  test('starts at once, and the application says where it may still run until that node has reported', async () => {
    await using fleet = await leaveSilent();
    const { a, c, does, report, has, ready, elsewhere, application, settle } = fleet;
    expect(await does(c())).toBe('run');
    report(c());
    await settle();
    expect(ready()).toMatchObject({ status: 'True', reason: 'AllRunning' });
    expect(elsewhere()).toMatchObject({ status: 'True', reason: 'NodeUnreachable' });
    expect(elsewhere()?.message).toContain(`may still run on the node "${v3Name(a())}"`);

    // it is heard again, with the container that it still has
    has(a(), 'RUNNING', 'stale');
    await expect.poll(() => elsewhere()?.reason).toBe('Removing');
    expect(await does(c())).toBe('run');
    expect(await does(a())).toBe('');
    expect(ready()).toMatchObject({ status: 'True', reason: 'AllRunning' });
    expect(application().status?.microservices?.map(({ state, node }) => [state, node])).toEqual(
      Array(2).fill(['RUNNING', v3Name(c())]),
    );
    has(a(), 'STOPPED');
    await expect.poll(elsewhere).toBeUndefined();
    expect(ready()?.status).toBe('True');
  });

  test('starts when the former node falls silent during the move, or is deleted', async () => {
    await using fleet = await setUp({ waitSeconds: 1 });
    const { a, c, cluster, time, report, node, move, does, elsewhere, stores } = fleet;
    move(c());
    expect(await does(c())).toBe('MovingFromNode');
    time.now += 160_000;
    for (const each of [node(1), c()]) report(each);
    cluster.edit(a(), ({ metadata }) => {
      metadata.annotations = { touched: 'true' };
    });
    await expect.poll(() => elsewhere()?.reason).toBe('NodeUnreachable');
    expect(await does(c())).toBe('run');
    stores.nodes.remove({ ...a(), metadata: { ...a().metadata, resourceVersion: '9999999' } });
    await expect.poll(() => elsewhere()?.reason).toBe('FormerNodeGone');
    expect(await does(c())).toBe('run');
  });
});
