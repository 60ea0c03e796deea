import { expect, test } from 'vitest';
import { certificateFigures, certificateState } from './metrics.ts';

const NOW = Date.parse('2026-11-26T12:00:00Z');
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const at = (ms: number) => new Date(NOW + ms).toISOString();
const issued = (from: number, to: number, renewal?: number) => ({
  status: {
    observedGeneration: 1,
    notBefore: at(from),
    notAfter: at(to),
    ...(renewal !== undefined && { renewalTime: at(renewal) }),
  },
});

test.each([
  ['missing', 'without a certificate', { status: { observedGeneration: 1 } }],
  ['missing', 'without a status', {}],
  ['valid', 'before its renewal', issued(-DAY, 90 * DAY, 60 * DAY)],
  ['valid', 'whose renewal was due a moment ago', issued(-60 * DAY, 30 * DAY, -HOUR)],
  ['overdue', 'whose renewal was due two hours ago', issued(-60 * DAY, 30 * DAY, -2 * HOUR)],
  ['valid', 'of another owner with half of its life left', issued(-50 * DAY, 50 * DAY)],
  ['overdue', 'of another owner with a twentieth of its life left', issued(-95 * DAY, 5 * DAY)],
  ['expired', 'that ended a second ago', issued(-90 * DAY, -1_000, -30 * DAY)],
])('it is %s %s', (state, _, object) => {
  expect(certificateState(object, NOW)).toBe(state);
});

test('the figures have every state', () => {
  expect([...certificateFigures([issued(-DAY, DAY), {}], NOW)]).toEqual([
    ['valid', 1],
    ['overdue', 0],
    ['expired', 0],
    ['missing', 1],
  ]);
});
