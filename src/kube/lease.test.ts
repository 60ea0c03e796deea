import { expect, test } from 'vitest';
import { type Lease, mayTake, startElection } from './lease.ts';

const lease = (holderIdentity: string | undefined, leaseDurationSeconds = 15): Lease => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: 'leader', namespace: 'test' },
  spec: { ...(holderIdentity === undefined ? {} : { holderIdentity }), leaseDurationSeconds },
});

const cases: Record<string, { lease: Lease | undefined; elapsedMs: number; want: boolean }> = {
  'may be taken when it does not exist': { lease: undefined, elapsedMs: 0, want: true },
  'may be taken when it was released': { lease: lease(''), elapsedMs: 0, want: true },
  'may be taken when it has no holder': { lease: lease(undefined), elapsedMs: 0, want: true },
  'may not be taken when its renewal was just seen': { lease: lease('other'), elapsedMs: 0, want: false },
  'may not be taken just before it expires': { lease: lease('other'), elapsedMs: 14_999, want: false },
  'may be taken when it has expired': { lease: lease('other'), elapsedMs: 15_000, want: true },
  'may not be taken before the duration in its spec is over': {
    lease: lease('other', 60),
    elapsedMs: 59_999,
    want: false,
  },
};

test.each(Object.entries(cases))('a lease %s', (_name, { lease, elapsedMs, want }) => {
  expect(mayTake(lease, 5_000, 5_000 + elapsedMs)).toBe(want);
});

test('a renew deadline that is not shorter than the lease duration is refused', () => {
  const times = { durationMs: 10_000, renewDeadlineMs: 10_000, retryMs: 1_000 };
  expect(() => startElection({ times } as never)).toThrow(RangeError);
});
