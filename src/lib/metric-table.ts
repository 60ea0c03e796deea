type Labels = Readonly<Record<string, string>>;

/** A metric as data: a row of a table from which metrics are registered, served and documented. */
export interface MetricSpec {
  name: string;
  type: 'counter' | 'gauge' | 'histogram';
  /** label -> what it says */
  labels: Labels;
  unit: string;
  help: string;
  /** bounds of a histogram, in its unit */
  buckets?: readonly number[];
}

const row =
  <const T extends MetricSpec['type']>(type: T) =>
  <const L extends Labels = Record<never, string>>(name: string, unit: string, help: string, labels = {} as L) => {
    return { name, type, labels, unit, help };
  };

export const counter = row('counter');
export const gauge = row('gauge');
/** The bounds of its buckets are added: `{ ...histogram(...), buckets }`. */
export const histogram = row('histogram');
