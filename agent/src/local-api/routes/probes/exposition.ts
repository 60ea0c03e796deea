import type { MetricSpec } from '../../../../../src/lib/metric-table.ts';

/**
 * Counters, gauges and histograms in the text format of Prometheus. Small, since the agent has a memory budget that no
 * metrics library fits into: values are kept per set of labels, and text is made for each request.
 */
export type Labels = Readonly<Record<string, string>>;

interface Series {
  labels: Labels;
  value: number;
  /** of a histogram: how many fell below each bound */
  buckets?: number[];
  sum?: number;
}

export class Metrics<Table extends Readonly<Record<string, MetricSpec>>> {
  readonly #table: Table;
  readonly #series = new Map<keyof Table, Map<string, Series>>();

  constructor(table: Table) {
    this.#table = table;
  }

  /** Counts. */
  add(name: keyof Table, labels: Labels = {}, by = 1): void {
    this.#of(name, labels).value += by;
  }

  /** Says how it is now. */
  set(name: keyof Table, value: number, labels: Labels = {}): void {
    this.#of(name, labels).value = value;
  }

  /** Adds a measurement to a histogram. */
  observe(name: keyof Table, value: number, labels: Labels = {}): void {
    const series = this.#of(name, labels);
    const bounds = this.#table[name]?.buckets ?? [];
    series.buckets ??= bounds.map(() => 0);
    bounds.forEach((bound, index) => {
      if (value <= bound && series.buckets) series.buckets[index] = (series.buckets[index] ?? 0) + 1;
    });
    series.value++;
    series.sum = (series.sum ?? 0) + value;
  }

  /** Forgets all values of a metric, where labels come and go. */
  clear(name: keyof Table): void {
    this.#series.delete(name);
  }

  /** Everything, in the order of the table. A counter that never counted is 0, so that its first count is seen. */
  text(): string {
    return Object.entries(this.#table)
      .map(([key, spec]) => {
        const series = [...(this.#series.get(key)?.values() ?? [])];
        const hasLabels = Object.keys(spec.labels).length > 0;
        if (series.length === 0 && !hasLabels && spec.type === 'counter') series.push({ labels: {}, value: 0 });
        const head = `# HELP ${spec.name} ${escapeHelp(spec.help)}\n# TYPE ${spec.name} ${spec.type}\n`;
        return head + series.map((each) => lines(spec, each)).join('');
      })
      .join('');
  }

  #of(name: keyof Table, labels: Labels): Series {
    const all = this.#series.get(name) ?? new Map<string, Series>();
    this.#series.set(name, all);
    const key = JSON.stringify(labels);
    const series = all.get(key) ?? { labels, value: 0 };
    all.set(key, series);
    return series;
  }
}

function lines({ name, type, buckets = [] }: MetricSpec, series: Series): string {
  const { labels, value } = series;
  if (type !== 'histogram') return line(name, labels, value);
  const counted = buckets.map((bound, index) =>
    line(`${name}_bucket`, { ...labels, le: String(bound) }, series.buckets?.[index] ?? 0),
  );
  const rest = [
    line(`${name}_bucket`, { ...labels, le: '+Inf' }, value),
    line(`${name}_sum`, labels, series.sum ?? 0),
    line(`${name}_count`, labels, value),
  ];
  return [...counted, ...rest].join('');
}

function line(name: string, labels: Labels, value: number): string {
  const text = Object.entries(labels)
    .map(([label, content]) => `${label}="${escapeLabel(content)}"`)
    .join(',');
  return `${name}${text && `{${text}}`} ${value}\n`;
}

const escapeHelp = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
const escapeLabel = (text: string) => escapeHelp(text).replaceAll('"', '\\"');
