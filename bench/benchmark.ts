import type { Log } from '../hack/progress.ts';
import type { Stack } from './stack.ts';

/** The length of a run. */
export type Length = 'short' | 'usual' | 'long';

/** The limit of a figure: at most, at least, or exactly a value. */
export type Budget = { atMost: number } | { atLeast: number } | { exactly: number };

/** A row of the table: the description of a figure. */
export interface Row {
  what: string;
  unit: Unit;
  budget?: Budget;
  /** the figure of a comparable controller or agent, measured on the same machine */
  baseline?: string;
}

export type Unit = '' | 'ms' | 's' | 'CPU-ms' | '/s' | 'KiB' | 'MiB' | 'MiB/s' | 'bytes' | '%' | 'kbit/s' | 'nodes/s';

/** One benchmark, which measures several figures. */
export interface Benchmark {
  /** its name on the command line */
  name: string;
  about: string;
  /** by figure; a run has no row for a figure that it does not measure */
  rows: Readonly<Record<string, Row>>;
  run(context: Context): Promise<Measured>;
}

export interface Measured {
  figures: Readonly<Record<string, number>>;
  /** how it was measured, as far as the rows do not say it: counts, concurrency, further observations */
  notes?: readonly string[];
}

export interface Context {
  length: Length;
  /** progress, for people */
  log: Log;
  /** Everything that is measured; started by the first call. */
  stack(): Promise<Stack>;
  /** Runs `work`; with --profile also shows where the controller of `stack()`, or of another stack, spent its time meanwhile. */
  profiled<T>(name: string, work: () => Promise<T>, of?: Stack): Promise<T>;
}

/** Thrown by a benchmark that cannot run on this machine; the message has the reason. */
export class Skip extends Error {
  override name = 'Skip';
}

/** The value for the length of this run. */
export const by = <T>({ length }: Pick<Context, 'length'>, values: Record<Length, T>): T => values[length];

/** Whether a figure is within its budget. */
export function keeps(value: number, budget: Budget): boolean {
  if ('atMost' in budget) return value <= budget.atMost;
  if ('atLeast' in budget) return value >= budget.atLeast;
  return value === budget.exactly;
}
