import { describe, expect, it, test } from 'vitest';
import { at, MINUTE, makeNode, SECOND, T0 } from './_util.ts';
import { daemonState, liveness, type Signs, silenceLimit, silentAt } from './liveness.ts';

describe('silenceLimit', () => {
  test.each([
    ['three reports of the usual 10 s', {}, undefined, undefined, 30],
    ['three reports as the spec asks', { statusFrequency: 20 }, undefined, undefined, 60],
    ['three reports as the machine says, when the spec asks for nothing', {}, 40, undefined, 120],
    ['the spec counts when it is the slower one', { statusFrequency: 60 }, 10, undefined, 180],
    ['a machine that kept a slower one is not silent', { statusFrequency: 10 }, 60, undefined, 180],
    ['never less than 30 s', { statusFrequency: 1 }, undefined, undefined, 30],
    ['30 s beyond an long poll', {}, undefined, 60, 90],
    ['a short long poll does not shorten the limit', { statusFrequency: 60 }, undefined, 60, 180],
    ['a frequency of 0 is none', { statusFrequency: 0 }, undefined, undefined, 30],
  ])('%s', (_, spec, statusFrequency, hold, seconds) => {
    const node = makeNode({ spec, status: { config: { statusFrequency } } });
    expect(silenceLimit(node, hold)).toBe(seconds * SECOND);
  });
});

const LONG_AGO = T0 - 60 * MINUTE;
const contact = (contactAt: number, more: Partial<Signs> = {}): Signs => ({ contactAt, waitSeconds: 0, ...more });
const seen = { lastSeenTime: at(T0 - 2 * MINUTE), daemonStatus: 'RUNNING' };

describe('liveness', () => {
  test.each<[string, Parameters<typeof makeNode>[0], Signs | undefined, number, ReturnType<typeof liveness>]>([
    ['a node whose identity no agent has', {}, undefined, LONG_AGO, 'never'],
    ['a node that is NOT_PROVISIONED', { status: { daemonStatus: 'NOT_PROVISIONED' } }, undefined, LONG_AGO, 'never'],
    ['a node with its first contact', {}, contact(T0), LONG_AGO, 'live'],
    ['contact within the limit', { status: seen }, contact(T0 - 29 * SECOND), LONG_AGO, 'live'],
    ['contact before the limit', { status: seen }, contact(T0 - 30 * SECOND), LONG_AGO, 'silent'],
    [
      'an long poll is a sign of life for as long as it may last',
      { status: seen },
      contact(T0 - 80 * SECOND, { waitSeconds: 60 }),
      LONG_AGO,
      'live',
    ],
    [
      'no contact, and the process leads for less than one limit',
      { status: seen },
      undefined,
      T0 - 29 * SECOND,
      'live',
    ],
    ['no contact for one limit since the process leads', { status: seen }, undefined, T0 - 30 * SECOND, 'silent'],
    [
      'known as silent: another process that listens changes nothing',
      { status: { ...seen, daemonStatus: 'UNKNOWN' } },
      undefined,
      T0,
      'silent',
    ],
    ['a contact after silence', { status: { ...seen, daemonStatus: 'UNKNOWN' } }, contact(T0), LONG_AGO, 'live'],
    [
      'a poll a moment ago, and no report for two and a half minutes',
      { status: seen },
      contact(T0, { reportedAt: T0 - 150 * SECOND }),
      LONG_AGO,
      'silent',
    ],
    [
      'a report two minutes ago: the next may have been lost',
      { status: seen },
      contact(T0, { reportedAt: T0 - 149 * SECOND }),
      LONG_AGO,
      'live',
    ],
    [
      'a machine that reports every five minutes',
      { status: { ...seen, config: { statusFrequency: 300 } } },
      contact(T0, { reportedAt: T0 - 14 * MINUTE }),
      LONG_AGO,
      'live',
    ],
    [
      'polls, but never a report since it was provisioned',
      { status: { ...seen, provisionedTime: at(T0 - 150 * SECOND) } },
      contact(T0),
      LONG_AGO,
      'silent',
    ],
    [
      'polls, and no report since we listen: we only began',
      { status: { ...seen, provisionedTime: at(LONG_AGO) } },
      contact(T0),
      T0 - 149 * SECOND,
      'live',
    ],
    [
      'silence that was noticed does not end with a poll',
      { status: { ...seen, provisionedTime: at(LONG_AGO), daemonStatus: 'UNKNOWN' } },
      contact(T0),
      T0,
      'silent',
    ],
    [
      'but with a report it does',
      { status: { ...seen, provisionedTime: at(LONG_AGO), daemonStatus: 'UNKNOWN' } },
      contact(T0, { reportedAt: T0 }),
      T0,
      'live',
    ],
    [
      'a provisioned node without any contact',
      { status: { provisionedTime: at(LONG_AGO) } },
      undefined,
      LONG_AGO,
      'silent',
    ],
    [
      'an agent that gave up the identity',
      { status: { ...seen, daemonStatus: 'DEPROVISIONED' } },
      undefined,
      LONG_AGO,
      'never',
    ],
    [
      'says that it gives up its identity',
      { status: seen },
      contact(T0, { report: { daemonStatus: 'DEPROVISIONED' } }),
      LONG_AGO,
      'never',
    ],
    [
      'another agent took the identity',
      { status: { ...seen, daemonStatus: 'DEPROVISIONED' } },
      contact(T0, { report: { daemonStatus: 'RUNNING' } }),
      LONG_AGO,
      'live',
    ],
  ])('%s', (_, overrides, signs, listeningSince, want) => {
    expect(liveness(makeNode(overrides), signs, T0, listeningSince)).toBe(want);
  });

  it('turns silent at the moment that silentAt names', () => {
    const node = makeNode({ status: seen });
    const moment = silentAt(node, contact(T0), LONG_AGO) as number;
    expect(moment).toBe(T0 + 30 * SECOND);
    expect(liveness(node, contact(T0), moment - 1, LONG_AGO)).toBe('live');
    expect(liveness(node, contact(T0), moment, LONG_AGO)).toBe('silent');
  });

  it('is undefined for a node whose identity no agent has', () => {
    expect(silentAt(makeNode(), undefined, LONG_AGO)).toBeUndefined();
  });
});

describe('daemonState', () => {
  test.each([
    ['the reported state', 'RUNNING', 'STOPPED', 'live', 'STOPPED'],
    ['the stored state, until the first report to this leader', 'WARNING', undefined, 'live', 'WARNING'],
    ['contact alone ends silence', 'UNKNOWN', undefined, 'live', 'RUNNING'],
    ['UNKNOWN for a silent node, whatever it reported last', 'RUNNING', 'RUNNING', 'silent', 'UNKNOWN'],
    ['a live agent is never UNKNOWN', 'RUNNING', 'UNKNOWN', 'live', 'WARNING'],
    ['NOT_PROVISIONED before the first agent', undefined, undefined, 'never', 'NOT_PROVISIONED'],
    ['DEPROVISIONED stays', 'DEPROVISIONED', undefined, 'never', 'DEPROVISIONED'],
  ] as const)('%s', (_, stored, reported, alive, want) => {
    const node = makeNode({ status: { daemonStatus: stored } });
    expect(daemonState(node, { report: { daemonStatus: reported } }, alive)).toBe(want);
  });
});
