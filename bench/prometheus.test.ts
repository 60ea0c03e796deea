import { expect, test } from 'vitest';
import { samplesOf, sumOf } from './prometheus.ts';

const PAGE = `# HELP requests_total Requests by verb.
# TYPE requests_total counter
requests_total{verb="GET",path="/a{b}"} 3
requests_total{verb="PUT",path="a \\"b\\" c"} 2
requests_total_created 12
requests_total 1e3 1712345678
other_requests_total{verb="PUT"} 7
`;

test('samples of exactly one metric are parsed, also with brackets and quotes in labels', () => {
  expect(samplesOf(PAGE, 'requests_total')).toEqual([
    { name: 'requests_total', labels: { verb: 'GET', path: '/a{b}' }, value: 3 },
    { name: 'requests_total', labels: { verb: 'PUT', path: 'a "b" c' }, value: 2 },
    { name: 'requests_total', labels: {}, value: 1000 },
  ]);
});

test('a counter is summed over the label sets that match', () => {
  expect(sumOf(PAGE, 'requests_total')).toBe(1005);
  expect(sumOf(PAGE, 'requests_total', ({ verb }) => verb === 'PUT')).toBe(2);
  expect(sumOf(PAGE, 'no_such_metric')).toBe(0);
});
