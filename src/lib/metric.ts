/** A metric as data: for its registration, and for docs/metrics.md. */
export interface MetricSpec {
  name: string;
  type: 'counter' | 'gauge' | 'histogram';
  /** label -> what it says */
  labels: Readonly<Record<string, string>>;
  unit: string;
  help: string;
  /** bounds of a histogram, in its unit */
  buckets?: readonly number[];
}
