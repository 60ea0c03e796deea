import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Benchmark, type Budget, keeps, type Length, type Measured, type Unit } from './benchmark.ts';
import type { Conditions } from './machine.ts';

/** The JSON file: the latest result of each benchmark, in the order in which they run. */
export interface Report {
  results: Result[];
}

/** The result of one benchmark, or the reason why there is none. */
export interface Result {
  benchmark: string;
  about: string;
  length: Length;
  conditions: Conditions;
  seconds: number;
  figures: Figure[];
  notes: readonly string[];
  /** the reason why it did not run */
  skipped?: string;
  /** the error with which it failed */
  failed?: string;
}

export interface Figure {
  /** `benchmark.row` */
  id: string;
  what: string;
  unit: Unit;
  value: number;
  budget?: Budget;
  baseline?: string;
  /** whether the figure is within its budget; absent without a budget */
  kept?: boolean;
}

/** The measured figures with the texts of their rows; a figure that could not be measured is left out. */
export function figuresOf({ name, rows }: Benchmark, { figures }: Measured): Figure[] {
  return Object.entries(rows).flatMap(([key, row]) => {
    const value = figures[key];
    if (value === undefined || Number.isNaN(value)) return [];
    const kept = row.budget && { kept: keeps(value, row.budget) };
    return [{ id: `${name}.${key}`, ...row, value, ...kept }];
  });
}

export function readReport(file: string): Report {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { results: [] };
}

/** Replaces the results of benchmarks that ran; the results of other and of skipped benchmarks stay. */
export function merge({ results }: Report, ran: readonly Result[], order: readonly string[]): Report {
  const latest = new Map(results.map((result) => [result.benchmark, result]));
  for (const result of ran) {
    if (!result.skipped || !latest.get(result.benchmark)?.figures.length) latest.set(result.benchmark, result);
  }
  return { results: order.flatMap((name) => latest.get(name) ?? []) };
}

export function writeReport(file: string, report: Report): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.new`, `${JSON.stringify(report, undefined, 2)}\n`);
  renameSync(`${file}.new`, file);
}

/** Lines for a terminal: text of the row, figure, budget, and whether it was missed. */
export function table(results: readonly Result[]): string {
  const rows = results.flatMap(({ benchmark, figures, skipped, failed }) => [
    [benchmark, '', '', ''],
    ...figures.map((figure) => [`  ${figure.what}`, shown(figure), budgetText(figure), verdict(figure)]),
    ...(skipped ? [[`  skipped: ${skipped}`, '', '', '']] : []),
    ...(failed ? [[`  FAILED: ${failed.split('\n')[0]}`, '', '', '']] : []),
  ]);
  const all = [['', 'measured', 'budget', ''], ...rows];
  const widths = [0, 1, 2].map((i) => Math.max(...all.filter((row) => row[1]).map((row) => row[i]?.length ?? 0)));
  const lines = all.map(([what = '', value = '', budget = '', mark = '']) =>
    [what.padEnd(widths[0] ?? 0), value.padStart(widths[1] ?? 0), budget.padEnd(widths[2] ?? 0), mark]
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

/**
 * Lines for a terminal: each figure that both versions have, and how many times as much the later one measured. `WORSE` and
 * `better` where a budget says which way is worse, by more than a tenth. Then what one of them did not measure, and why.
 */
export function comparison(before: readonly Result[], now: readonly Result[]): string {
  const earlier = new Map(before.flatMap(({ figures }) => figures).map((figure) => [figure.id, figure]));
  const rows = now
    .flatMap(({ figures }) => figures)
    .flatMap((figure) => {
      const was = earlier.get(figure.id);
      if (!was) return [];
      const ratio = was.value === figure.value ? 1 : figure.value / was.value;
      return [[`${figure.id}: ${figure.what}`, shown(was), shown(figure), ratio.toFixed(2), change(figure, ratio)]];
    });
  const all = [['', 'before', 'now', 'ratio', ''], ...rows];
  const widths = [0, 1, 2, 3].map((i) => Math.max(...all.map((row) => row[i]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  return [...all.map(line), ...absent('before', before), ...absent('now', now)].map((text) => `${text}\n`).join('');
}

/** A line for each benchmark without figures. */
const absent = (version: string, results: readonly Result[]) =>
  results.flatMap(({ benchmark, failed, skipped }) => [
    ...(failed ? [`${benchmark} ${version} FAILED: ${failed.split('\n')[0]}`] : []),
    ...(skipped ? [`${benchmark} ${version} skipped: ${skipped}`] : []),
  ]);

/** A tenth is what two runs of one version differ by. */
const NOTABLE = 1.1;

function change({ budget }: Pick<Figure, 'budget'>, ratio: number): string {
  if (!budget || 'exactly' in budget) return '';
  const cost = 'atMost' in budget ? ratio : 1 / ratio;
  if (cost > NOTABLE) return 'WORSE';
  return cost < 1 / NOTABLE ? 'better' : '';
}

const verdict = ({ kept }: Figure) => (kept === undefined ? '' : kept ? 'ok' : 'MISSED');

/** The value with its unit: `0.38 CPU-ms`, `1,204 /s`. */
export function shown({ value, unit }: Pick<Figure, 'value' | 'unit'>): string {
  const text = digits(value);
  return unit === '' ? text : `${text} ${unit}`;
}

export function budgetText({ budget, unit }: Pick<Figure, 'budget' | 'unit'>): string {
  if (!budget) return '';
  if ('atMost' in budget) return `<= ${shown({ value: budget.atMost, unit })}`;
  if ('atLeast' in budget) return `>= ${shown({ value: budget.atLeast, unit })}`;
  return shown({ value: budget.exactly, unit });
}

/** Formats a number with three significant digits. */
function digits(value: number): string {
  const magnitude = Math.abs(value);
  const places = Number.isInteger(value) || magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 0.1 ? 2 : 3;
  return value.toLocaleString('en-US', { maximumFractionDigits: places });
}
