import { parseArgs } from 'node:util';
import type { Length } from './benchmark.ts';

export interface Options {
  /** benchmarks to run; all when empty */
  names: readonly string[];
  length: Length;
  /** file with the figures */
  out: string;
  /** put the figures into bench/figures.json and docs/performance.md, and measure nothing */
  writeDocs: boolean;
  profile: boolean;
  /** a commit to measure as well, and to compare with */
  against?: string;
  list: boolean;
  help: boolean;
}

export const HELP = `node bench/main.ts [benchmark...] [options]

Measures, prints the figures beside their budgets and writes them to a file. Without a benchmark named, all run;
figures of those that do not run stay in the file as they were.

  --list         show the benchmarks
  --short        fewer requests, shorter waits: a look, not a measurement
  --long         more of everything, 1,000 nodes where it matters
  --profile      say where the controller spends its time, and keep no figures: they are worse meanwhile
  --against REF  measure a commit as well, each benchmark right after the other, and compare; keep no figures
  --out FILE     file with the figures (.skerry/bench.json)
  --write-docs   put the figures of that file into bench/figures.json and docs/performance.md, and measure nothing
  --help         this text
`;

/** Throws an error with a message for people when the command line is wrong. */
export function parseOptions(args: readonly string[], known: readonly string[], defaultOut: string): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      short: { type: 'boolean', default: false },
      long: { type: 'boolean', default: false },
      out: { type: 'string', default: defaultOut },
      'write-docs': { type: 'boolean', default: false },
      profile: { type: 'boolean', default: false },
      against: { type: 'string' },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const unknown = positionals.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Error(`there is no benchmark "${unknown}"; there are: ${known.join(', ')}`);
  if (values.short && values.long) throw new Error('--short and --long exclude each other');
  return {
    names: positionals,
    length: values.short ? 'short' : values.long ? 'long' : 'usual',
    out: values.out,
    writeDocs: values['write-docs'],
    profile: values.profile,
    ...(values.against !== undefined && { against: values.against }),
    list: values.list,
    help: values.help,
  };
}
