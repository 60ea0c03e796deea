import { expect, test } from 'vitest';
import { momentOf } from './moment.ts';

const now = Date.parse('2026-05-01T10:00:00Z');

test.for([
  ['90s', '2026-05-01T09:58:30.000Z'],
  ['1h30m', '2026-05-01T08:30:00.000Z'],
  ['1d2h3m4s', '2026-04-30T07:56:56.000Z'],
  ['2026-05-01T08:00:00+01:00', '2026-05-01T07:00:00.000Z'],
  ['soon', undefined],
  ['5', undefined],
  ['1h30', undefined],
  ['999999999d', undefined],
] as const)('%s is %s', ([text, moment]) => {
  expect(momentOf(text, now)).toBe(moment);
});
