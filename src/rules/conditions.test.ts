import { describe, expect, it, test } from 'vitest';
import type { Condition } from '../api/meta.ts';
import { applicationResource, edgeNodeResource, registryResource } from '../api/v3/index.ts';
import { conditionsOf, cut, type Findings, joined, kstatus } from './conditions.ts';

const EARLIER = '2026-01-01T00:00:00.000Z';
const NOW = '2026-01-02T00:00:00.000Z';
const object = (conditions?: Condition[]) => ({ metadata: { generation: 7 }, status: { conditions } });
const find = (conditions: readonly Condition[], type: string) => conditions.find((c) => c.type === type);

describe('kstatus', () => {
  test.each([
    ['done: Ready, not Reconciling', 'done', 'True', 'False', 'False'],
    ['working: not Ready, Reconciling', 'working', 'False', 'True', 'False'],
    ['stalled: not Ready, Stalled', 'stalled', 'False', 'False', 'True'],
    ['waiting: not Ready, neither Reconciling nor Stalled', 'waiting', 'False', 'False', 'False'],
    ['unknown: Ready is Unknown', 'unknown', 'Unknown', 'False', 'False'],
  ] as const)('%s', (_, is, Ready, Reconciling, Stalled) => {
    const findings = kstatus({ is, reason: 'AgentStarting', message: 'why' });
    expect([findings.Ready.status, findings.Reconciling.status, findings.Stalled.status]).toEqual([
      Ready,
      Reconciling,
      Stalled,
    ]);
    expect(findings.Ready).toMatchObject({ reason: 'AgentStarting', message: 'why' });
  });
});

describe('conditionsOf', () => {
  it('has the conditions in the order of the table, each about the current generation', () => {
    const findings: Findings = {
      NotSupportedYet: { status: 'True', reason: 'Fields', message: 'gpsMode' },
      ...kstatus({ is: 'done', reason: 'AgentRunning' }),
    };
    const written = conditionsOf(edgeNodeResource, object(), findings, NOW);
    expect(written.map(({ type }) => type)).toEqual(['Ready', 'Reconciling', 'Stalled', 'NotSupportedYet']);
    expect(new Set(written.map(({ observedGeneration }) => observedGeneration))).toEqual(new Set([7]));
  });

  it('leaves out conditions that the kind does not have, and abnormal conditions that are not True', () => {
    const findings: Findings = {
      ...kstatus({ is: 'done', reason: 'Usable' }),
      DuplicateAgent: { status: 'True', reason: 'DuplicateAgent' },
      NotSupportedYet: { status: 'False', reason: 'Fields' },
    };
    expect(conditionsOf(registryResource, object(), findings, NOW)).toHaveLength(3);
    expect(find(conditionsOf(applicationResource, object(), findings, NOW), 'NotSupportedYet')).toBeUndefined();
  });

  it('has Admitted also when it is False', () => {
    const findings: Findings = { Admitted: { status: 'False', reason: 'PortTaken' } };
    expect(conditionsOf(applicationResource, object(), findings, NOW)).toHaveLength(1);
  });

  it('keeps the transition time while only reason and message change', () => {
    const before = conditionsOf(
      edgeNodeResource,
      object(),
      kstatus({ is: 'working', reason: 'AgentStarting' }),
      EARLIER,
    );
    const after = conditionsOf(
      edgeNodeResource,
      object(before),
      kstatus({ is: 'stalled', reason: 'Deprovisioned' }),
      NOW,
    );
    expect(find(after, 'Ready')).toMatchObject({ reason: 'Deprovisioned', lastTransitionTime: EARLIER });
    expect(find(after, 'Stalled')).toMatchObject({ status: 'True', lastTransitionTime: NOW });
  });

  it('equals the stored conditions when nothing changed', () => {
    const findings = kstatus({ is: 'done', reason: 'AgentRunning', message: 'runs' });
    const before = conditionsOf(edgeNodeResource, object(), findings, EARLIER);
    expect(conditionsOf(edgeNodeResource, object(before), findings, NOW)).toEqual(before);
  });

  it('cuts long messages', () => {
    const findings: Findings = { Ready: { status: 'False', reason: 'AgentWarning', message: 'x'.repeat(40_000) } };
    expect(conditionsOf(edgeNodeResource, object(), findings, NOW)[0]?.message).toHaveLength(2048);
  });
});

it('joined messages are sorted and without duplicates', () => {
  expect(joined(['b', 'a', 'b'])).toBe('a; b');
});

describe('cut', () => {
  test.each([
    ['keeps a text that fits', 'abc', 3, 'abc'],
    ['counts code points, not UTF-16 units', '🙂🙂🙂', 2, '🙂🙂'],
    ['keeps as many code points as fit although their units do not', '🙂🙂', 2, '🙂🙂'],
    ['replaces half a pair, as the API server would', 'a\ud83d', 5, 'a\ufffd'],
    ['gives an empty text when nothing fits', 'abc', 0, ''],
  ])('%s', (_, text, max, want) => {
    expect(cut(text, max)).toBe(want);
  });
});
