import type { Log } from '../hack/progress.ts';
import type { Stack } from './stack.ts';

/** How long a run may take: a look, the usual, or all. */
export type Length = 'short' | 'usual' | 'long';

/** What a figure should be at most, at least, or exactly. */
export type Budget = { atMost: number } | { atLeast: number } | { exactly: number };

/** A row of the table: what is measured, before it is. */
export interface Row {
  what: string;
  unit: Unit;
  budget?: Budget;
  /** what a comparable controller or agent takes, measured on the same machine */
  baseline?: string;
}

export type Unit = '' | 'ms' | 's' | 'CPU-ms' | '/s' | 'MiB' | 'bytes' | '%' | 'kbit/s' | 'nodes/s';

/** One idea, measured. */
export interface Benchmark {
  /** as on the command line */
  name: string;
  about: string;
  /** by figure; a figure that a run does not take is no row of it */
  rows: Readonly<Record<string, Row>>;
  run(context: Context): Promise<Measured>;
}

export interface Measured {
  figures: Readonly<Record<string, number>>;
  /** how it was measured, where that is not in the rows: counts, concurrency, what else was seen */
  notes?: readonly string[];
}

export interface Context {
  length: Length;
  /** progress, for people */
  log: Log;
  /** Everything that is measured; started by the first that asks. */
  stack(): Promise<Stack>;
  /** Runs `work`; with --profile also says where the controller spent its time meanwhile. */
  profiled<T>(name: string, work: () => Promise<T>): Promise<T>;
}

/** Thrown by a benchmark that cannot run here; the text says why. */
export class Skip extends Error {
  override name = 'Skip';
}

/** The value for the length of this run. */
export const by = <T>({ length }: Pick<Context, 'length'>, values: Record<Length, T>): T => values[length];

/** Whether a figure keeps its budget. */
export function keeps(value: number, budget: Budget): boolean {
  if ('atMost' in budget) return value <= budget.atMost;
  if ('atLeast' in budget) return value >= budget.atLeast;
  return value === budget.exactly;
}
