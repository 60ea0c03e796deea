import { expect, test } from 'vitest';
import { startInMemoryController } from '../testing/in-memory-controller.ts';

test.each([
  ['a silent node whose next report is not due is RUNNING with its first poll', 40_000, ['poll']],
  ['a silent node whose reports are missing is RUNNING with its first report', 160_000, ['poll', 'report']],
] as const)('%s', async (_, silentMs, contacts) => {
  await using fleet = await startInMemoryController(1, { waitSeconds: 1 });
  const { cluster, node, settle, time } = fleet;
  const state = () => node(0).status?.daemonStatus;
  time.now += silentMs;
  // The edit causes a reconcile at once.
  cluster.edit(node(0), ({ metadata }) => {
    metadata.annotations = { touched: 'true' };
  });
  await expect.poll(state).toBe('UNKNOWN');

  for (const contact of contacts) {
    await settle();
    expect(state()).toBe('UNKNOWN');
    fleet[contact](node(0));
  }
  await expect.poll(state).toBe('RUNNING');
});

test('a fleet that returns before it was written UNKNOWN does not delay a later silence', async () => {
  await using fleet = await startInMemoryController(30, { waitSeconds: 1 });
  const { cluster, node, poll, stores, time } = fleet;
  const others = Array.from({ length: 30 }, (_, i) => i + 1);
  const look = (i: number) =>
    cluster.edit(node(i), ({ metadata }) => {
      metadata.annotations = { touched: `${time.now}` };
    });
  const silent = () => stores.nodes.list().filter(({ status }) => status?.daemonStatus === 'UNKNOWN').length;
  time.now += 500;
  poll(node(0));
  time.now += 30_600;
  others.forEach(look);
  await expect.poll(silent).toBe(1);
  for (const i of others) poll(node(i));
  await expect.poll(silent).toBe(0);
  await fleet.settle();

  // The turn of the last of the others would be later than this.
  time.now += 1_000;
  look(0);
  await expect.poll(() => node(0).status?.daemonStatus).toBe('UNKNOWN');
});

test('every write of a status says when the node was last heard, and a contact alone causes none', async () => {
  await using fleet = await startInMemoryController(1);
  const { cluster, node, poll, report, settle, time } = fleet;
  const written = () => [...cluster.writes.values()].reduce((sum, count) => sum + count, 0);
  time.now += 60_000;
  const before = written();
  poll(node(0));
  await settle();
  expect(written()).toBe(before);
  report(node(0), 'RESTARTING');
  await expect.poll(() => node(0).status?.lastSeenTime).toBe(new Date(time.now).toISOString());
});
