import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../hack/paths.ts';
import { renderDocs } from './docs.ts';
import { type Result, readReport } from './report.ts';

const result = (benchmark: string, more: Partial<Result>): Result => ({
  benchmark,
  about: 'what it is about',
  length: 'usual',
  conditions: {
    at: '2026-01-02T03:04:05.000Z',
    cpu: 'A | B',
    cores: 2,
    memory: 8,
    kernel: '6.1',
    node: '24.0.0',
    kubernetes: '1.36.3',
    etcd: '3.6.0',
    load: 0.1,
  },
  seconds: 12,
  figures: [],
  notes: [],
  ...more,
});

test('the page has the figures with their budgets, the conditions and the benchmark of each figure', () => {
  const figures: Result['figures'] = [
    { id: 'poll.cpu', what: 'a poll', unit: 'CPU-ms', value: 0.3, budget: { atMost: 0.4 }, kept: true, baseline: '26' },
  ];
  const text = renderDocs({ results: [result('poll', { figures, notes: ['so many polls'] })] });
  expect(text).toContain('| a poll | 0.3 CPU-ms | <= 0.4 CPU-ms | kept | 26     | `poll`    |');
  expect(text).toContain('2 x A \\| B, 8 GiB');
  expect(text).toContain('- So many polls.');
  expect(text).not.toContain('## Misses');
});

test('the page has misses, failures and skipped benchmarks', () => {
  const figures: Result['figures'] = [
    { id: 'x.y', what: 'a start', unit: 's', value: 9, budget: { atMost: 6 }, kept: false },
  ];
  const text = renderDocs({
    results: [
      result('x', { figures }),
      result('z', { failed: 'it broke\nat line 1' }),
      result('up', { skipped: 'no engine' }),
    ],
  });
  expect(text).toContain('- A start: 9 s instead of <= 6 s. Why is not known yet.');
  expect(text).toContain('- The benchmark `z` failed: it broke');
  expect(text).toContain('up: skipped, no engine');
});

test('the page estimates the cores for a fleet from the cost of one poll and one heartbeat', () => {
  const figure = (id: string, value: number): Result['figures'][0] => ({ id, what: id, unit: 'CPU-ms', value });
  const costs = [figure('poll.cpu', 0.4), figure('heartbeat.cpu', 0.5)];
  expect(renderDocs({ results: [result('poll', { figures: costs })] })).toContain('0.70 cores');
  expect(renderDocs({ results: [result('poll', { figures: costs.slice(1) })] })).not.toContain('cores.');
});

test('the page is refused when there are no figures', () => {
  expect(() => renderDocs({ results: [] })).toThrow('make bench');
});

test('docs/performance.md is what bench/figures.json says', () => {
  const page = readFileSync(join(ROOT, 'docs/performance.md'), 'utf8');
  expect(page).toBe(renderDocs(readReport(join(ROOT, 'bench/figures.json'))));
});
