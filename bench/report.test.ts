import { expect, test } from 'vitest';
import type { Benchmark } from './benchmark.ts';
import { budgetText, comparison, figuresOf, merge, type Result, shown, table } from './report.ts';

const benchmark: Benchmark = {
  name: 'poll',
  about: '',
  rows: {
    cpu: { what: 'CPU of a poll', unit: 'CPU-ms', budget: { atMost: 0.4 }, baseline: '26-30' },
    rate: { what: 'polls', unit: '/s' },
    late: { what: 'not taken', unit: 'ms', budget: { atMost: 1 } },
  },
  run: async () => ({ figures: {} }),
};
const result = (name: string, more: Partial<Result> = {}): Result => ({
  benchmark: name,
  about: '',
  length: 'usual',
  conditions: {} as Result['conditions'],
  seconds: 1,
  figures: [],
  notes: [],
  ...more,
});

test('figures are compared with the budgets of their rows, and a row without a measured figure is left out', () => {
  const figures = figuresOf(benchmark, { figures: { cpu: 0.5, rate: 1204.4, late: Number.NaN } });
  expect(figures).toEqual([
    { id: 'poll.cpu', ...benchmark.rows.cpu, value: 0.5, kept: false },
    { id: 'poll.rate', ...benchmark.rows.rate, value: 1204.4 },
  ]);
});

test('a later run replaces the benchmarks that it measured and leaves the others', () => {
  const before = { results: [result('poll', { seconds: 1 }), result('apply', { seconds: 2 })] };
  const after = merge(before, [result('poll', { seconds: 9 }), result('idle')], ['idle', 'poll', 'apply']);
  expect(after.results.map(({ benchmark, seconds }) => [benchmark, seconds])).toEqual([
    ['idle', 1],
    ['poll', 9],
    ['apply', 2],
  ]);
});

test('a skipped benchmark keeps its earlier result', () => {
  const measured = result('poll', { figures: figuresOf(benchmark, { figures: { cpu: 0.3 } }) });
  const skipped = result('poll', { skipped: 'not here' });
  expect(merge({ results: [measured] }, [skipped], ['poll']).results).toEqual([measured]);
  expect(merge({ results: [] }, [skipped], ['poll']).results).toEqual([skipped]);
});

test.each([
  [0.0382, 'ms', '0.038 ms'],
  [0.5, 'CPU-ms', '0.5 CPU-ms'],
  [12.345, 'ms', '12.3 ms'],
  [1204.4, '/s', '1,204 /s'],
  [0, '', '0'],
] as const)('%d %s is shown with three significant digits', (value, unit, want) => {
  expect(shown({ value, unit })).toBe(want);
});

test('the table has missed budgets and skipped and failed benchmarks', () => {
  const figures = figuresOf(benchmark, { figures: { cpu: 0.5, rate: 1204.4 } });
  const text = table([
    result('poll', { figures }),
    result('up', { skipped: 'no engine' }),
    result('x', { failed: 'y' }),
  ]);
  expect(text).toBe(
    [
      '                   measured  budget',
      'poll',
      '  CPU of a poll  0.5 CPU-ms  <= 0.4 CPU-ms  MISSED',
      '  polls            1,204 /s',
      'up',
      '  skipped: no engine',
      'x',
      '  FAILED: y',
      '',
    ].join('\n'),
  );
});

test('budgets are written as limits', () => {
  expect(budgetText({ unit: 'nodes/s', budget: { atLeast: 200 } })).toBe('>= 200 nodes/s');
  expect(budgetText({ unit: '', budget: { exactly: 1 } })).toBe('1');
  expect(budgetText({ unit: 'ms' })).toBe('');
});

test('a comparison has the ratio of each figure that both versions have, and says what its budget calls worse', () => {
  const of = (figures: Record<string, number>) => [result('poll', { figures: figuresOf(benchmark, { figures }) })];
  const lines = comparison(of({ cpu: 0.2, rate: 1000 }), of({ cpu: 0.3, rate: 500, late: 1 })).split('\n');
  expect(lines.map((line) => line.trimEnd().replace(/ {2,}/g, ' | '))).toEqual([
    ' | before | now | ratio',
    'poll.cpu: CPU of a poll | 0.2 CPU-ms | 0.3 CPU-ms | 1.50 | WORSE',
    'poll.rate: polls | 1,000 /s | 500 /s | 0.50',
    '',
  ]);
  expect(comparison(of({ cpu: 0.3 }), of({ cpu: 0.2 }))).toMatch(/0\.67 +better$/m);
  expect(comparison(of({ cpu: 0.3 }), of({ cpu: 0.31 }))).toMatch(/1\.03$/m);
  expect(comparison(of({ late: 0 }), of({ late: 1 }))).toMatch(/WORSE$/m);
});

test('a comparison says what one version did not measure, and why', () => {
  const failed = [result('poll', { failed: 'no answer\n at x' })];
  expect(
    comparison(failed, [result('poll', { skipped: 'no engine' })])
      .split('\n')
      .slice(1),
  ).toEqual(['poll before FAILED: no answer', 'poll now skipped: no engine', '']);
});
