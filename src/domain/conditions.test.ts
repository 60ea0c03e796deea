import { describe, expect, it, test } from 'vitest';
import type { Condition } from '../api/meta.ts';
import { conditionsOf, joined, kstatus, type Statement, shortened } from './conditions.ts';

const EARLIER = '2026-01-01T00:00:00.000Z';
const NOW = '2026-01-02T00:00:00.000Z';
const frame = (kind: 'Application' | 'EdgeNode' | 'Registry', previous?: Condition[], now = NOW) => ({
  kind,
  generation: 7,
  previous,
  now,
});
const find = (conditions: readonly Condition[], type: string) => conditions.find((c) => c.type === type);
const fields = (status: Statement['status']): Statement => ({ status, reason: 'Fields', message: 'gpsMode' });

describe('kstatus', () => {
  test.each([
    ['done: ready, nothing going on', 'done', 'True', 'False', 'False'],
    ['working: not ready, reconciling', 'working', 'False', 'True', 'False'],
    ['stalled: not ready, and it stays so', 'stalled', 'False', 'False', 'True'],
    ['unknown: neither ready nor not', 'unknown', 'Unknown', 'False', 'False'],
  ] as const)('%s', (_, is, Ready, Reconciling, Stalled) => {
    const said = kstatus({ is, reason: 'AgentStarting', message: 'why' });
    expect([said.Ready.status, said.Reconciling.status, said.Stalled.status]).toEqual([Ready, Reconciling, Stalled]);
    expect(said.Ready).toMatchObject({ reason: 'AgentStarting', message: 'why' });
  });
});

describe('conditionsOf', () => {
  const done = kstatus({ is: 'done', reason: 'AgentRunning', message: 'runs' });

  it('writes them in the order of the table, each about the current generation', () => {
    const written = conditionsOf(frame('EdgeNode'), { NotSupportedYet: fields('True'), ...done });
    expect(written.map(({ type }) => type)).toEqual(['Ready', 'Reconciling', 'Stalled', 'NotSupportedYet']);
    expect(new Set(written.map(({ observedGeneration }) => observedGeneration))).toEqual(new Set([7]));
  });

  it('leaves out what a kind does not have', () => {
    expect(conditionsOf(frame('Registry'), { ...done, NotSupportedYet: fields('True') })).toHaveLength(3);
  });

  it('leaves out abnormal conditions that are not true', () => {
    expect(conditionsOf(frame('Application'), { NotSupportedYet: fields('False') })).toEqual([]);
  });

  it('shows Admitted also when it is false', () => {
    const said = { Admitted: { status: 'False', reason: 'PortTaken', message: '80' } } as const;
    expect(conditionsOf(frame('Application'), said)).toHaveLength(1);
  });

  it('keeps the transition time while the status stays, though reason and message change', () => {
    const working = kstatus({ is: 'working', reason: 'AgentStarting', message: 'starts' });
    const stalled = kstatus({ is: 'stalled', reason: 'Deprovisioned', message: 'gone' });
    const after = conditionsOf(frame('EdgeNode', conditionsOf(frame('EdgeNode', [], EARLIER), working)), stalled);
    expect(find(after, 'Ready')).toMatchObject({ reason: 'Deprovisioned', lastTransitionTime: EARLIER });
    expect(find(after, 'Stalled')).toMatchObject({ status: 'True', lastTransitionTime: NOW });
  });

  it('equals the stored ones when nothing changed', () => {
    const before = conditionsOf(frame('EdgeNode', [], EARLIER), done);
    expect(conditionsOf(frame('EdgeNode', before), done)).toEqual(before);
  });

  it('shortens long messages', () => {
    const said = { Ready: { status: 'False', reason: 'AgentWarning', message: 'x'.repeat(40_000) } } as const;
    expect(conditionsOf(frame('EdgeNode'), said)[0]?.message).toHaveLength(2048);
  });
});

it('joins messages sorted and each once', () => {
  expect(joined(['b', 'a', 'b'])).toBe('a; b');
});

describe('shortened', () => {
  test.each([
    ['keeps what fits', 'abcd', 4, 'abcd'],
    ['says that something is missing', 'abcdefgh', 6, 'abc...'],
    ['replaces half a pair, as the API server would', 'a\ud83d', 5, 'a\ufffd'],
    ['leaves no half of a pair at the cut', 'ab🙂defgh', 6, 'ab\ufffd...'],
  ])('%s', (_, text, longest, want) => {
    expect(shortened(text, longest)).toBe(want);
  });
});
