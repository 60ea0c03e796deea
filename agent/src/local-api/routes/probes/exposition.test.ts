import { expect, test } from 'vitest';
import { Metrics } from './exposition.ts';

const table = {
  hits: { name: 'x_hits_total', type: 'counter', labels: {}, unit: 'hits', help: 'Hits.' },
  falls: { name: 'x_falls_total', type: 'counter', labels: { why: 'cause' }, unit: 'falls', help: 'A \\ and\na line.' },
  depth: { name: 'x_depth', type: 'gauge', labels: {}, unit: 'keys', help: 'Depth.' },
  time: { name: 'x_seconds', type: 'histogram', labels: {}, unit: 'seconds', help: 'Time.', buckets: [0.1, 1] },
} as const;

test('counters without labels begin at 0, and metrics without a value have no samples', () => {
  expect(new Metrics(table).text()).toBe(
    [
      '# HELP x_hits_total Hits.',
      '# TYPE x_hits_total counter',
      'x_hits_total 0',
      '# HELP x_falls_total A \\\\ and\\na line.',
      '# TYPE x_falls_total counter',
      '# HELP x_depth Depth.',
      '# TYPE x_depth gauge',
      '# HELP x_seconds Time.',
      '# TYPE x_seconds histogram',
      '',
    ].join('\n'),
  );
});

test('counters, gauges and histograms have their samples, with labels escaped', () => {
  const metrics = new Metrics(table);
  metrics.add('hits');
  metrics.add('hits', {}, 2);
  metrics.add('falls', { why: 'a "b"\n\\' });
  metrics.set('depth', 7);
  metrics.set('depth', 5);
  for (const seconds of [0.05, 0.5, 3]) metrics.observe('time', seconds);
  const lines = metrics
    .text()
    .split('\n')
    .filter((line) => !line.startsWith('#'));
  expect(lines).toEqual([
    'x_hits_total 3',
    'x_falls_total{why="a \\"b\\"\\n\\\\"} 1',
    'x_depth 5',
    'x_seconds_bucket{le="0.1"} 1',
    'x_seconds_bucket{le="1"} 2',
    'x_seconds_bucket{le="+Inf"} 3',
    'x_seconds_sum 3.55',
    'x_seconds_count 3',
    '',
  ]);
});
