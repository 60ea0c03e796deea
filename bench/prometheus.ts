/** One line of a metrics page. */
export interface Sample {
  name: string;
  labels: Readonly<Record<string, string>>;
  value: number;
}

/** The samples of one metric, from a page in the text format of Prometheus. */
export function samplesOf(page: string, metric: string): Sample[] {
  const samples: Sample[] = [];
  for (let at = page.indexOf(metric); at >= 0; at = page.indexOf(metric, at + 1)) {
    if (at > 0 && page[at - 1] !== '\n') continue;
    const end = page.indexOf('\n', at);
    const sample = parse(page.slice(at, end < 0 ? undefined : end));
    if (sample?.name === metric) samples.push(sample);
  }
  return samples;
}

/** The sum of a counter over all label sets that match. */
export function sumOf(
  page: string,
  metric: string,
  passes: (labels: Readonly<Record<string, string>>) => boolean = () => true,
): number {
  return samplesOf(page, metric).reduce((sum, { labels, value }) => (passes(labels) ? sum + value : sum), 0);
}

function parse(line: string): Sample | undefined {
  const [, name, inner = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
  if (name === undefined || value === undefined) return undefined;
  const labels: Record<string, string> = {};
  for (const [, label, text] of inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[label as string] = (text as string).replace(/\\(.)/g, (_, char) => (char === 'n' ? '\n' : char));
  }
  return { name, labels, value: Number(value) };
}
