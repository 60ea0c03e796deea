import { expect, test } from 'vitest';
import { type Lease, mayTake, startElection } from './lease.ts';

const lease = (holderIdentity: string | undefined, leaseDurationSeconds = 15): Lease => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: 'leader', namespace: 'test' },
  spec: { ...(holderIdentity === undefined ? {} : { holderIdentity }), leaseDurationSeconds },
});

const cases: Record<string, { lease: Lease | undefined; elapsedMs: number; want: boolean }> = {
  'no lease at all': { lease: undefined, elapsedMs: 0, want: true },
  'a released lease': { lease: lease(''), elapsedMs: 0, want: true },
  'a lease without holder': { lease: lease(undefined), elapsedMs: 0, want: true },
  'a held lease, just seen': { lease: lease('other'), elapsedMs: 0, want: false },
  'a held lease, nearly run out': { lease: lease('other'), elapsedMs: 14_999, want: false },
  'a held lease, run out since we saw it': { lease: lease('other'), elapsedMs: 15_000, want: true },
  'a held lease, by its own duration': { lease: lease('other', 60), elapsedMs: 59_999, want: false },
};

test.each(Object.entries(cases))('%s may be taken or not', (_name, { lease, elapsedMs, want }) => {
  expect(mayTake(lease, 5_000, 5_000 + elapsedMs)).toBe(want);
});

test('times that would let two lead are refused', () => {
  const times = { durationMs: 10_000, renewDeadlineMs: 10_000, retryMs: 1_000 };
  expect(() => startElection({ times } as never)).toThrow(RangeError);
});
