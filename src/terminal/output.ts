import { stringify } from 'yaml';
import { line as safe } from './safe.ts';

/** What commands print: data, tables and findings. */

/** Data as JSON or YAML. */
export function structured(data: unknown, format: 'json' | 'yaml'): string {
  const plain: unknown = JSON.parse(JSON.stringify(data ?? {}));
  return format === 'json' ? `${JSON.stringify(plain, undefined, 2)}\n` : stringify(plain);
}

/** Columns as wide as their widest cell. */
export function table(head: readonly string[], texts: readonly (readonly string[])[]): string {
  const rows = texts.map((cells) => cells.map(safe));
  const widths = head.map((title, index) => Math.max(title.length, ...rows.map((row) => (row[index] ?? '').length)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, index) => (index === cells.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
      .join('   ')
      .trimEnd();
  return `${[line(head), ...rows.map(line)].join('\n')}\n`;
}

/** One fact a line, with aligned names; absent values are left out. */
export function facts(pairs: readonly (readonly [string, unknown])[]): string {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== '');
  const width = Math.max(0, ...shown.map(([name]) => name.length)) + 1;
  return shown.map(([name, value]) => `${`${name}:`.padEnd(width)}  ${safe(String(value))}\n`).join('');
}

interface Diagnosed {
  check: string;
  status: string;
  detail: string;
  todo?: string;
}

/** The findings of the doctor: problems in capitals, each with its next step below it, and a summary line. */
export function diagnosisTable(checks: readonly Diagnosed[]): string {
  const rows = checks.map(({ check, status, detail, todo }) => {
    const word = status === 'failed' || status === 'warning' ? status.toUpperCase() : status;
    return `${word.padEnd(9)}${check.padEnd(15)}${safe(detail)}\n${todo ? `${' '.repeat(24)}-> ${safe(todo)}\n` : ''}`;
  });
  const count = (wanted: string) => checks.filter(({ status }) => status === wanted).length;
  const [failed, warnings] = [count('failed'), count('warning')];
  const sum =
    failed + warnings === 0
      ? 'Nothing is wrong.'
      : `${failed} failed, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}.`;
  return `${rows.join('')}\n${sum}\n`;
}

/** Seconds as people read them: `3m 20s`, `2d 4h`. */
export function duration(seconds: number): string {
  const units: [number, string][] = [
    [86_400, 'd'],
    [3600, 'h'],
    [60, 'm'],
    [1, 's'],
  ];
  const parts: string[] = [];
  let rest = Math.max(0, Math.floor(seconds));
  for (const [size, unit] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join(' ') || '0s';
}

/** Bytes as people read them. */
export function bytes(value: number | undefined): string {
  if (value === undefined) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = value > 0 ? Math.min(Math.floor(Math.log2(value) / 10), units.length - 1) : 0;
  const figure = value / 1024 ** power;
  return `${figure.toFixed(figure < 10 && power > 0 ? 1 : 0)} ${units[power]}`;
}
