import { expect, test } from 'vitest';
import { silentLog } from '../../lib/log.ts';
import type { LeaderState } from '../../replicas/channel.ts';
import { LeaderError } from '../../replicas/leader-error.ts';
import { mergeReport } from '../../subjects/nodes/rules/report.ts';
import { makeClock } from '../_util.ts';
import type { ObservationDelta } from '../channel/dependencies.ts';
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

/** Two replicas, whose messages to the leader arrive when the test lets them. */
function startReplicas(leading: 0 | 1) {
  const clock = makeClock();
  const leader = { at: leading, id: 'first' };
  const held: (() => void)[] = [];
  const replicas = [0, 1].map((at) => {
    const observations = createObservations(mergeReport);
    const leadership: LeaderState = {
      get isLeading() {
        return leader.at === at;
      },
      leaderAddress: 'leader:1',
    };
    const send = (batch: readonly ObservationDelta[]) =>
      new Promise<{ leadershipId: string }>((resolve) => {
        held.push(() => {
          const to = replicas[leader.at];
          to?.forwarder.settle();
          for (const one of structuredClone(batch)) to?.observations.observe(one);
          resolve({ leadershipId: leader.id });
        });
      });
    const forwarder = createObservationForwarder({
      leadership,
      leader: { send, currentValues: async () => new Map() },
      ...{ observations, mergeReport, clock, log: silentLog },
    });
    return { observations, forwarder };
  });
  return {
    clock,
    /** This replica sends the agent a list with this revision. */
    async list(at: number, revision: string) {
      await clock.advance(10);
      const listedAt = clock.wall();
      const sentRevisions = { m: { revision, imageId: revision, rebuildCount: 0, at: listedAt } };
      replicas[at]?.forwarder.observe({ uuid: 'n', contactAt: listedAt, waitSeconds: 0, sentRevisions, listedAt });
      return listedAt;
    },
    async arrive() {
      await clock.advance(1_000);
      while (held.length > 0) {
        held.shift()?.();
        await clock.advance(1_000);
      }
    },
    lead(at: 0 | 1) {
      Object.assign(leader, { at, id: 'second' });
      for (const { forwarder } of replicas)
        forwarder.observe({ uuid: 'another node', contactAt: clock.wall(), waitSeconds: 0 });
    },
    sent: () => replicas[leader.at]?.observations.get('n')?.sentRevisions.m,
  };
}

const arrivals = ['at once', 'after all', 'after a change of leader'] as const;

test.each([0, 1].flatMap((leading) => arrivals.map((when) => ({ leading, when }))))(
  'the leader knows which list an agent was sent last, whichever replica sent it: $when, $leading leads',
  async ({ leading, when }) => {
    // Every sequence of five lists, each of one of two replicas and with one of two revisions.
    for (let sequence = 0; sequence < 4 ** 5; sequence += 3) {
      const scene = startReplicas(leading as 0 | 1);
      let current: { revision: string; at: number } | undefined;
      for (let i = 0; i < 5; i++) {
        const step = Math.floor(sequence / 4 ** i) % 4;
        const revision = step < 2 ? 'a' : 'b';
        const at = await scene.list(step % 2, revision);
        if (current?.revision !== revision) current = { revision, at };
        if (when === 'at once') await scene.arrive();
      }
      if (when === 'after a change of leader') scene.lead(leading === 0 ? 1 : 0);
      await scene.arrive();
      const { revision, at } = scene.sent() ?? {};
      expect({ sequence, revision }).toEqual({ sequence, revision: current?.revision });
      // Never earlier than it was sent: the container of another revision would be taken for its own.
      expect(at).toBeGreaterThanOrEqual(current?.at ?? 0);
    }
  },
);
