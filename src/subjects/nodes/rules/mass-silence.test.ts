import { expect, test } from 'vitest';
import { MINUTE, SECOND, T0 } from '../_make.ts';
import { hasEventsOfItsOwn, massSilence, SILENCE_WRITES, type SilenceChange, silenceChange } from './mass-silence.ts';

const limit = 30 * SECOND;
const nodes = (live: number, fell: number, long = 0) => [
  ...Array.from({ length: live }, () => ({ contactAt: T0 - SECOND, limit })),
  ...Array.from({ length: fell }, () => ({ contactAt: T0 - limit, limit })),
  ...Array.from({ length: long }, () => ({ contactAt: T0 - 2 * limit, limit })),
];

test.each([
  ['a live fleet is no mass silence', nodes(100, 0), false],
  ['30 of 100 nodes that fell silent within one limit are no mass silence', nodes(70, 30), false],
  ['31 of 100 nodes that fell silent within one limit are a mass silence', nodes(69, 31), true],
  ['nodes that have been silent for longer than two limits do not count', nodes(10, 3, 100), false],
  [
    '10 of 10 live nodes that fell silent are a mass silence, with 100 more that have long been silent',
    nodes(0, 10, 100),
    true,
  ],
  ['two of two nodes that fell silent are no mass silence', nodes(0, 2), false],
  ['three of three nodes that fell silent are a mass silence', nodes(0, 3), true],
  [
    'nodes with different limits each count by their own limit',
    [...nodes(3, 3), { contactAt: T0 - 2 * MINUTE, limit: 5 * MINUTE }],
    true,
  ],
  ['an empty fleet is no mass silence', [], false],
])('%s', (_, facts, suspected) => {
  expect(massSilence(facts, T0).suspected).toBe(suspected);
});

test('mass silence counts live nodes and nodes that fell silent', () => {
  expect(massSilence(nodes(7, 5, 3), T0)).toEqual({ suspected: true, live: 7, fellSilent: 5 });
});

test.each([
  [false, false, undefined],
  [false, true, 'begins'],
  [true, false, 'ends'],
  [true, true, 'continues'],
])('from stored silence %s to present silence %s, the change is %s', (stored, now, change) => {
  expect(silenceChange(stored, now)).toBe(change);
});

test('the rates of writes that silence causes equal the documented values', () => {
  expect(SILENCE_WRITES).toEqual({
    begins: { perSecond: 20 },
    ends: { perSecond: 40 },
    continues: { everyMs: 10_000 },
  });
});

const calm = { suspected: false, waiting: 0, beganWithout: false };
test.each<[string, SilenceChange | undefined, Partial<typeof calm>, boolean]>([
  ['a silence that begins has an event', 'begins', {}, true],
  ['a silence that begins in mass silence has no event', 'begins', { suspected: true }, false],
  ['a silence that ends has an event', 'ends', {}, true],
  ['a silence that began without an event ends without one', 'ends', { beganWithout: true }, false],
  ['a silence that ends with those of 20 others has an event', 'ends', { waiting: 20 }, true],
  ['a silence that ends with those of more than 20 others has no event', 'ends', { waiting: 21 }, false],
  ['a silence that continues has events', 'continues', { suspected: true, beganWithout: true }, true],
  ['a change that is not about silence has events', undefined, { suspected: true, waiting: 100 }, true],
])('%s', (_, change, circumstances, expected) => {
  expect(hasEventsOfItsOwn(change, { ...calm, ...circumstances })).toBe(expected);
});
