/** The value below which a share (0..1) of the samples lies: the nearest rank, so always one of the samples. */
export function percentile(samples: readonly number[], share: number): number {
  if (samples.length === 0) return Number.NaN;
  const sorted = [...samples].sort((a, b) => a - b);
  const rank = Math.ceil(share * sorted.length);
  return sorted[Math.min(Math.max(rank, 1), sorted.length) - 1] as number;
}

/** The statistics of a set of durations. */
export interface Spread {
  n: number;
  p50: number;
  p99: number;
  max: number;
}

export function spread(samples: readonly number[]): Spread {
  return {
    n: samples.length,
    p50: percentile(samples, 0.5),
    p99: percentile(samples, 0.99),
    max: percentile(samples, 1),
  };
}
