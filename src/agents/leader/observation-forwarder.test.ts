import { expect, test } from 'vitest';
import { mergeReport } from '../../domain/index.ts';
import { silentLog } from '../../kube/mod.ts';
import { makeClock } from '../_util.ts';
import type { ObservationDelta } from '../dependencies.ts';
import { LeaderError } from './leader-error.ts';
import { createObservationForwarder } from './observation-forwarder.ts';
import { createObservations } from './observations.ts';

/** A follower whose leader takes the batches that `takes` accepts. */
function startFollower(takes: (batch: readonly ObservationDelta[]) => boolean) {
  const clock = makeClock();
  const sent: (readonly ObservationDelta[])[] = [];
  const accepted = new Map<string, ObservationDelta>();
  const counted: string[] = [];
  const forwarder = createObservationForwarder({
    leadership: { isLeading: false, leaderAddress: 'leader:1' },
    leader: {
      async send(batch) {
        sent.push(batch);
        if (!takes(batch)) throw new LeaderError('REFUSED', 'leader:1 answered 413');
        for (const one of batch) accepted.set(one.uuid, one);
        return { leadershipId: 't' };
      },
      currentValues: async () => new Map(),
    },
    observations: createObservations(mergeReport),
    mergeReport,
    clock,
    log: silentLog,
    metrics: { agent: (what) => void counted.push(what) },
  });
  const report = (uuid: string, version: string) =>
    forwarder.observe({ uuid, contactAt: clock.wall(), waitSeconds: 0, report: { version }, reportedAt: clock.wall() });
  return { clock, forwarder, sent, accepted, counted, report };
}

test('a delta that the leader refuses is found, left out and counted, and those of other nodes arrive', async () => {
  const { clock, forwarder, sent, accepted, counted, report } = startFollower(
    (batch) => !batch.some(({ report }) => report?.version === 'bad'),
  );
  for (let i = 0; i < 51; i++) report(`node-${i}`, i === 20 ? 'bad' : 'good');
  await clock.advance(10_000);
  expect(accepted.size).toBe(51);
  expect([...accepted.values()].filter(({ report }) => report?.version === 'good')).toHaveLength(50);
  expect(accepted.get('node-20')?.report).toBeUndefined();
  expect(counted.filter((what) => what === 'delta-refused')).toHaveLength(1);
  // The agent is asked for a whole report, and what was refused is not sent again.
  expect(forwarder.hasReport('node-20')).toBe(false);
  const before = sent.length;
  expect(before).toBeLessThan(20);
  await clock.advance(60_000);
  expect(sent).toHaveLength(before);
  report('node-20', 'good again');
  await clock.advance(1_000);
  expect(accepted.get('node-20')?.report).toEqual({ version: 'good again' });
});

test('a batch is no longer than the leader accepts, however large each report is', async () => {
  const { clock, sent, accepted, report } = startFollower(() => true);
  for (let i = 0; i < 40; i++) report(`node-${i}`, 'x'.repeat(2 ** 20));
  await clock.advance(10_000);
  expect(accepted.size).toBe(40);
  expect(Math.max(...sent.map((batch) => JSON.stringify(batch).length))).toBeLessThan(5 * 2 ** 20);
});
