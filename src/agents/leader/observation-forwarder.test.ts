import { expect, test } from 'vitest';
import { mergeReport } from '../../domain/index.ts';
import { silentLog } from '../../kube/mod.ts';
import { makeClock } from '../_util.ts';
import type { NodeNews } from '../dependencies.ts';
import { LeaderError } from './leader-error.ts';
import { createNews } from './observation-forwarder.ts';
import { createObservations } from './observations.ts';

/** A follower whose leader takes what `takes` says, by real JSON. */
function startFollower(takes: (batch: readonly NodeNews[]) => boolean) {
  const clock = makeClock();
  const sent: (readonly NodeNews[])[] = [];
  const told = new Map<string, NodeNews>();
  const counted: string[] = [];
  const news = createNews({
    leadership: { isLeading: false, leaderAddress: 'leader:1' },
    link: {
      async send(batch) {
        sent.push(batch);
        if (!takes(batch)) throw new LeaderError('REFUSED', 'leader:1 answered 413');
        for (const one of batch) told.set(one.uuid, one);
        return { term: 't' };
      },
      live: async () => new Map(),
    },
    observations: createObservations(mergeReport),
    mergeReport,
    clock,
    log: silentLog,
    metrics: { agent: (what) => void counted.push(what) },
  });
  const report = (uuid: string, version: string) =>
    news.hear({ uuid, contactAt: clock.wall(), holdSeconds: 0, report: { version }, reportedAt: clock.wall() });
  return { clock, news, sent, told, counted, report };
}

test('what the leader refuses is found, left out and counted, and the other nodes are heard', async () => {
  const { clock, news, sent, told, counted, report } = startFollower(
    (batch) => !batch.some(({ report }) => report?.version === 'bad'),
  );
  for (let i = 0; i < 51; i++) report(`node-${i}`, i === 20 ? 'bad' : 'good');
  await clock.advance(10_000);
  expect(told.size).toBe(51);
  expect([...told.values()].filter(({ report }) => report?.version === 'good')).toHaveLength(50);
  expect(told.get('node-20')?.report).toBeUndefined();
  expect(counted.filter((what) => what === 'news-refused')).toHaveLength(1);
  // The agent is asked for a whole report, and what was refused is not sent again.
  expect(news.hasReport('node-20')).toBe(false);
  const before = sent.length;
  expect(before).toBeLessThan(20);
  await clock.advance(60_000);
  expect(sent).toHaveLength(before);
  report('node-20', 'good again');
  await clock.advance(1_000);
  expect(told.get('node-20')?.report).toEqual({ version: 'good again' });
});

test('a batch is no longer than the leader takes, however much each node says', async () => {
  const { clock, sent, told, report } = startFollower(() => true);
  for (let i = 0; i < 40; i++) report(`node-${i}`, 'x'.repeat(2 ** 20));
  await clock.advance(10_000);
  expect(told.size).toBe(40);
  expect(Math.max(...sent.map((batch) => JSON.stringify(batch).length))).toBeLessThan(5 * 2 ** 20);
});
