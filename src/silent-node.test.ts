import { expect, test } from 'vitest';
import { startFleet } from './_fleet.ts';

test.each([
  ['a node whose reports are still due is back with its first poll', 40_000, ['poll']],
  ['a node whose reports are missing is back with its first report', 160_000, ['poll', 'report']],
] as const)('%s', async (_, silentMs, says) => {
  await using fleet = await startFleet(1, { holdSeconds: 1 });
  const { cluster, node, settle, time } = fleet;
  const state = () => node(0).status?.daemonStatus;
  time.now += silentMs;
  // Whoever is asked about says so at once.
  cluster.edit(node(0), ({ metadata }) => {
    metadata.annotations = { touched: 'true' };
  });
  await expect.poll(state).toBe('UNKNOWN');

  for (const word of says) {
    await settle();
    expect(state()).toBe('UNKNOWN');
    fleet[word](node(0));
  }
  await expect.poll(state).toBe('RUNNING');
});
