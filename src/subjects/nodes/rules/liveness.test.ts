import { describe, expect, it, test } from 'vitest';
import { at, MINUTE, makeNode, SECOND, T0 } from '../_make.ts';
import { daemonState, liveness, type Signs, silenceLimit, silentAt } from './liveness.ts';

describe('silenceLimit', () => {
  test.each([
    ['the limit is three reports at the default frequency of 10 s', {}, undefined, undefined, 30],
    ['the limit is three reports at the frequency of the spec', { statusFrequency: 20 }, undefined, undefined, 60],
    ['the limit is three reports at the frequency of the machine when the spec has none', {}, 40, undefined, 120],
    ['the frequency of the spec applies when it is the slower one', { statusFrequency: 60 }, 10, undefined, 180],
    ['the frequency of the machine applies when it is the slower one', { statusFrequency: 10 }, 60, undefined, 180],
    ['the limit is at least 30 s', { statusFrequency: 1 }, undefined, undefined, 30],
    ['the limit is at least 30 s longer than the long poll', {}, undefined, 60, 90],
    ['a shorter long poll does not lower the limit', { statusFrequency: 60 }, undefined, 60, 180],
    ['a frequency of 0 counts as absent', { statusFrequency: 0 }, undefined, undefined, 30],
  ])('%s', (_, spec, statusFrequency, waitSeconds, seconds) => {
    const node = makeNode({ spec, status: { config: { statusFrequency } } });
    expect(silenceLimit(node, waitSeconds)).toBe(seconds * SECOND);
  });
});

const LONG_AGO = T0 - 60 * MINUTE;
const contact = (contactAt: number, more: Partial<Signs> = {}): Signs => ({ contactAt, waitSeconds: 0, ...more });
const seen = { lastSeenTime: at(T0 - 2 * MINUTE), daemonStatus: 'RUNNING' };

describe('liveness', () => {
  test.each<[string, [Parameters<typeof makeNode>[0], Signs | undefined, number], ReturnType<typeof liveness>]>([
    ['a node whose identity no agent has is never live', [{}, undefined, LONG_AGO], 'never'],
    [
      'a node that is NOT_PROVISIONED is never live',
      [{ status: { daemonStatus: 'NOT_PROVISIONED' } }, undefined, LONG_AGO],
      'never',
    ],
    ['a node is live at its first contact', [{}, contact(T0), LONG_AGO], 'live'],
    ['a node with a contact within the limit is live', [{ status: seen }, contact(T0 - 29 * SECOND), LONG_AGO], 'live'],
    [
      'a node whose last contact is one limit ago is silent',
      [{ status: seen }, contact(T0 - 30 * SECOND), LONG_AGO],
      'silent',
    ],
    [
      'a long poll is a sign of life for as long as it may last',
      [{ status: seen }, contact(T0 - 80 * SECOND, { waitSeconds: 60 }), LONG_AGO],
      'live',
    ],
    [
      'a node without contact is live until the leader has led for one limit',
      [{ status: seen }, undefined, T0 - 29 * SECOND],
      'live',
    ],
    [
      'a node without contact for one limit since the leader began to lead is silent',
      [{ status: seen }, undefined, T0 - 30 * SECOND],
      'silent',
    ],
    [
      'a node that is stored as UNKNOWN is silent for a new leader at once',
      [{ status: { ...seen, daemonStatus: 'UNKNOWN' } }, undefined, T0],
      'silent',
    ],
    ['a contact ends silence', [{ status: { ...seen, daemonStatus: 'UNKNOWN' } }, contact(T0), LONG_AGO], 'live'],
    [
      'a node that polls and has not reported for 150 s is silent',
      [{ status: seen }, contact(T0, { reportedAt: T0 - 150 * SECOND }), LONG_AGO],
      'silent',
    ],
    [
      'a node that polls and reported 149 s ago is live, since one report may be lost',
      [{ status: seen }, contact(T0, { reportedAt: T0 - 149 * SECOND }), LONG_AGO],
      'live',
    ],
    [
      'a machine that reports every five minutes is live 14 minutes after its report',
      [
        { status: { ...seen, config: { statusFrequency: 300 } } },
        contact(T0, { reportedAt: T0 - 14 * MINUTE }),
        LONG_AGO,
      ],
      'live',
    ],
    [
      'a node that polls and never reported since it was provisioned is silent',
      [{ status: { ...seen, provisionedTime: at(T0 - 150 * SECOND) } }, contact(T0), LONG_AGO],
      'silent',
    ],
    [
      'a node that polls and has not reported is live until the leader has led for one limit',
      [{ status: { ...seen, provisionedTime: at(LONG_AGO) } }, contact(T0), T0 - 149 * SECOND],
      'live',
    ],
    [
      'a poll does not end a stored silence of reports',
      [{ status: { ...seen, provisionedTime: at(LONG_AGO), daemonStatus: 'UNKNOWN' } }, contact(T0), T0],
      'silent',
    ],
    [
      'a report ends a stored silence of reports',
      [
        { status: { ...seen, provisionedTime: at(LONG_AGO), daemonStatus: 'UNKNOWN' } },
        contact(T0, { reportedAt: T0 }),
        T0,
      ],
      'live',
    ],
    [
      'a provisioned node without any contact is silent',
      [{ status: { provisionedTime: at(LONG_AGO) } }, undefined, LONG_AGO],
      'silent',
    ],
    [
      'a node whose agent gave up the identity is never live',
      [{ status: { ...seen, daemonStatus: 'DEPROVISIONED' } }, undefined, LONG_AGO],
      'never',
    ],
    [
      'a node whose agent reports that it gives up the identity is never live',
      [{ status: seen }, contact(T0, { report: { daemonStatus: 'DEPROVISIONED' } }), LONG_AGO],
      'never',
    ],
    [
      'a node whose identity another agent took is live',
      [
        { status: { ...seen, daemonStatus: 'DEPROVISIONED' } },
        contact(T0, { report: { daemonStatus: 'RUNNING' } }),
        LONG_AGO,
      ],
      'live',
    ],
  ])('%s', (_, [overrides, signs, listeningSince], want) => {
    expect(liveness(makeNode(overrides), signs, T0, listeningSince)).toBe(want);
  });

  it('turns from live to silent at the time that silentAt gives', () => {
    const node = makeNode({ status: seen });
    const moment = silentAt(node, contact(T0), LONG_AGO) as number;
    expect(moment).toBe(T0 + 30 * SECOND);
    expect(liveness(node, contact(T0), moment - 1, LONG_AGO)).toBe('live');
    expect(liveness(node, contact(T0), moment, LONG_AGO)).toBe('silent');
  });

  it('silentAt is undefined for a node whose identity no agent has', () => {
    expect(silentAt(makeNode(), undefined, LONG_AGO)).toBeUndefined();
  });
});

describe('daemonState', () => {
  test.each([
    ['the reported state precedes the stored one', 'RUNNING', 'STOPPED', 'live', 'STOPPED'],
    ['the stored state applies until the first report to this leader', 'WARNING', undefined, 'live', 'WARNING'],
    ['contact alone ends silence', 'UNKNOWN', undefined, 'live', 'RUNNING'],
    ['a silent node is UNKNOWN, whatever it reported last', 'RUNNING', 'RUNNING', 'silent', 'UNKNOWN'],
    ['a live agent is never UNKNOWN', 'RUNNING', 'UNKNOWN', 'live', 'WARNING'],
    ['a node without a first agent is NOT_PROVISIONED', undefined, undefined, 'never', 'NOT_PROVISIONED'],
    ['a DEPROVISIONED node stays DEPROVISIONED', 'DEPROVISIONED', undefined, 'never', 'DEPROVISIONED'],
  ] as const)('%s', (_, stored, reported, alive, want) => {
    const node = makeNode({ status: { daemonStatus: stored } });
    expect(daemonState(node, { report: { daemonStatus: reported } }, alive)).toBe(want);
  });
});
