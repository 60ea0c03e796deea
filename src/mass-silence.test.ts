import { expect, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../testing/in-memory-controller.ts';

const NODES = 40;
/** What falls silent before the silence is seen as one of many. */
const BEFORE_SUSPICION = 10;
const SILENT_MS = 40_000;

const states = ({ stores }: InMemoryController) => ({
  nodes: stores.nodes.list().map(({ status }) => status?.daemonStatus),
  ready: stores.applications
    .list()
    .map(({ status }) => status?.conditions?.find(({ type }) => type === 'Ready')?.status),
});

async function until(is: () => boolean): Promise<number> {
  const began = performance.now();
  while (!is()) await new Promise((resolve) => setTimeout(resolve, 5));
  return (performance.now() - began) / 1_000;
}

test('a fleet that falls silent and returns causes one paced write per node and application, and one event', async () => {
  await using fleet = await startInMemoryController(NODES, { waitSeconds: 1 });
  const { cluster, events, time, node, report, stores } = fleet;
  const keys = Array.from({ length: NODES }, (_, i) => node(i).metadata.name);
  const wrote = () => Object.fromEntries(cluster.writes);
  const all = (nodes: string, ready: string) => () => {
    const is = states(fleet);
    return is.nodes.every((state) => state === nodes) && is.ready.every((state) => state === ready);
  };
  // The clock of the controller stands still here, and the clock of the queues advances.
  const passing = setInterval(() => {
    time.now += 10;
  }, 10);

  cluster.writes.clear();
  events.length = 0;
  time.now += SILENT_MS;
  // The edits cause reconciles at once, so that only the turns of the pacer take time.
  for (const key of keys) cluster.edit(stores.nodes.get('plant', key) as never, touch);
  cluster.edit(node(NODES), touch);
  cluster.writes.clear();
  const silent = await until(all('UNKNOWN', 'Unknown'));
  await fleet.settle();
  expect(wrote()).toEqual({ 'replace edgenodes/status': NODES + 1, 'replace applications/status': NODES });
  expect(silent).toBeGreaterThan((NODES / 20) * 0.8);
  expect(events.filter(({ about }) => about === 'MassSilence')).toHaveLength(1);
  expect(events.filter(({ about }) => about === 'Ready').length).toBeLessThanOrEqual(BEFORE_SUSPICION);

  cluster.writes.clear();
  events.length = 0;
  for (let i = 0; i <= NODES; i++) report(node(i));
  await until(all('RUNNING', 'True'));
  await fleet.settle();
  clearInterval(passing);
  expect(wrote()).toEqual({ 'replace edgenodes/status': NODES + 1, 'replace applications/status': NODES });
  expect(events.filter(({ about }) => about === 'Ready').length).toBeLessThanOrEqual(BEFORE_SUSPICION);
});

const touch = ({ metadata }: { metadata: { annotations?: Record<string, string> } }) => {
  metadata.annotations = { touched: 'true' };
};
