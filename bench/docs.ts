import { EARLIER } from './earlier.ts';
import { isBusy } from './machine.ts';
import { MISSES, NOT_MEASURED } from './misses.ts';
import { budgetText, type Figure, type Report, type Result, shown } from './report.ts';

/** Renders docs/performance.md from the figures. */
export function renderDocs({ results }: Report): string {
  if (results.length === 0) throw new Error('There are no figures yet; run `make bench` first.');
  const sections = [
    intro(),
    conditions(results),
    ['## Figures', table(results)].join('\n\n'),
    misses(results),
    ...EARLIER.map((one) => earlier(one, results)),
    ['## Not measured', notMeasured(results)].join('\n\n'),
    ['## How each was measured', results.map(method).join('\n\n')].join('\n\n'),
  ];
  return `${sections.filter(Boolean).join('\n\n')}\n`;
}

const intro = () => `# Performance

Written by \`node bench/main.ts --write-docs\` from what \`make bench\` has measured. Do not edit: measure again.

    make bench                          everything, a table on the terminal, figures in .skerry/bench.json
    node_modules/.bin/node bench/main.ts poll idle --long     some of it, longer
    node_modules/.bin/node bench/main.ts --help

It starts a control plane, a controller, an engine and an agent of its own in a temporary folder; nothing has to run
before. \`alone\` has each of docker, podman and containerd, and so needs root. The budgets are those of a machine with 2 cores that does everything at once: API server, etcd, controller, and
the process that measures. CPU is that of controller, API server and etcd together. "Before" is what a comparable
controller with an embedded database, or a comparable agent, takes on such a machine. Each figure is of one run: repeat
it before you conclude anything from a small difference. A busy machine makes all of them worse, CPU times included.`;

function conditions(results: readonly Result[]): string {
  const runs = new Map(results.map((result) => [result.conditions.at, result]));
  const rows = [...runs.values()].map(({ conditions: c }) => {
    const names = results.filter(({ conditions }) => conditions.at === c.at).map(({ benchmark }) => benchmark);
    return [
      `${c.at.slice(0, 16).replace('T', ' ')} UTC`,
      names.length === results.length ? 'all' : names.join(', '),
      `${c.cores} x ${c.cpu}, ${c.memory} GiB`,
      `${c.kubernetes}, etcd ${c.etcd}`,
      c.node,
      isBusy(c) ? `${c.load}: **busy**, figures are worse than on a quiet one` : `${c.load}`,
    ];
  });
  return `## Conditions\n\n${markdown(['run', 'benchmarks', 'machine', 'Kubernetes', 'Node', 'load at the start'], rows)}`;
}

function table(results: readonly Result[]): string {
  const rows = results.flatMap(({ benchmark, figures, skipped, failed }) => [
    ...figures.map((figure) => [
      figure.what,
      shown(figure),
      budgetText(figure),
      mark(figure),
      figure.baseline ?? '',
      `\`${benchmark}\``,
    ]),
    ...(skipped ? [[`${benchmark}: skipped, ${skipped}`, '', '', '', '', `\`${benchmark}\``]] : []),
    ...(failed ? [[`${benchmark}: failed, see below`, '', '', '**failed**', '', `\`${benchmark}\``]] : []),
  ]);
  return `Repeat one with \`node_modules/.bin/node bench/main.ts <benchmark>\`, its name being in the last column.\n\n${markdown(
    ['what', 'measured', 'budget', '', 'before', 'benchmark'],
    rows,
  )}`;
}

const mark = ({ kept }: Figure) => (kept === undefined ? '' : kept ? 'kept' : '**missed**');

function misses(results: readonly Result[]): string {
  const missed = results.flatMap(({ figures }) => figures).filter(({ kept }) => kept === false);
  const lines = [
    ...missed.map((figure) => {
      const why = MISSES[figure.id] ?? 'Why is not known yet.';
      return wrapped(`- ${capital(figure.what)}: ${shown(figure)} instead of ${budgetText(figure)}. ${why}`);
    }),
    ...results.flatMap(({ benchmark, failed }) =>
      failed ? [`- The benchmark \`${benchmark}\` failed: ${failed.split('\n')[0]}`] : [],
    ),
  ];
  return lines.length === 0 ? '' : `## Misses\n\n${lines.join('\n')}`;
}

function earlier({ title, about, figures: before }: (typeof EARLIER)[number], results: readonly Result[]): string {
  const figures = new Map(results.flatMap(({ figures }) => figures).map((figure) => [figure.id, figure]));
  const rows = Object.entries(before).flatMap(([id, value]) => {
    const now = figures.get(id);
    return now ? [[now.what, shown({ value, unit: now.unit }), shown(now)]] : [];
  });
  if (rows.length === 0) return '';
  return [`## ${title}`, about, markdown(['what', 'before', 'after'], rows)].join('\n\n');
}

/** At the specified frequencies a node reports every 10 s and polls every 20 s. */
const PER_NODE = { 'heartbeat.cpu': 1 / 10, 'poll.cpu': 1 / 20 };
const NODES = 10_000;

function notMeasured(results: readonly Result[]): string {
  const values = new Map(results.flatMap(({ figures }) => figures).map(({ id, value }) => [id, value]));
  const cores = Object.entries(PER_NODE).reduce(
    (sum, [id, rate]) => sum + ((values.get(id) ?? Number.NaN) * rate * NODES) / 1_000,
    0,
  );
  const reckoned = Number.isNaN(cores) ? '' : `; reckoned from the figures above, ${cores.toFixed(2)} cores`;
  return [
    `- 10,000 nodes at the specified frequencies: 1,000 heartbeats and 500 polls a second were not tried together${reckoned}.`,
    ...NOT_MEASURED.map(([what, why]) => `- ${capital(what)}: ${why}.`),
  ].join('\n');
}

function method({ benchmark, about, length, seconds, notes }: Result): string {
  const size = length === 'usual' ? '' : `, ${length} run`;
  return [
    `\`${benchmark}\`: ${about} (${seconds} s${size}).`,
    ...notes.map((note) => wrapped(`- ${capital(note)}.`)),
  ].join('\n');
}

/** Breaks an item of a list where a line gets too long to read. */
const wrapped = (item: string) => item.replaceAll(/(.{1,118})(?: |$)/g, '$1\n  ').trimEnd();

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const escaped = rows.map((row) => row.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')));
  const widths = head.map((title, i) => Math.max(title.length, 3, ...escaped.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...escaped.map(line)].join('\n');
}
