import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { ROOT } from '../hack/paths.ts';
import { formatDuration, type Log, startClock } from '../hack/progress.ts';
import { measureAgainst } from './against.ts';
import { type Benchmark, type Context, Skip } from './benchmark.ts';
import { BENCHMARKS } from './benchmarks/index.ts';
import { renderDocs } from './docs.ts';
import { hotSpots, INSPECTABLE, profile } from './inspector.ts';
import { type Conditions, isBusy, readConditions } from './machine.ts';
import { HELP, type Options, parseOptions } from './options.ts';
import { figuresOf, merge, type Result, readReport, table, writeReport } from './report.ts';
import { createStack, type Stack } from './stack.ts';

const REPORT = join(ROOT, '.skerry/bench.json');
/** The figures of the page, so that each benchmark keeps its own until somebody measures it again. */
const PUBLISHED = join(ROOT, 'bench/figures.json');
const DOCS = join(ROOT, 'docs/performance.md');

/** `make bench`: measures, prints the figures with their budgets, and writes them to a file. */
async function main(): Promise<number> {
  const names = BENCHMARKS.map(({ name }) => name);
  let options: Options;
  try {
    options = parseOptions(process.argv.slice(2), names, REPORT);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${HELP}`);
    return 2;
  }
  if (options.help) return print(HELP);
  if (options.list) return print(BENCHMARKS.map(({ name, about }) => `${name.padEnd(14)} ${about}\n`).join(''));
  if (options.writeDocs) {
    const published = merge(readReport(PUBLISHED), readReport(options.out).results, names);
    writeReport(PUBLISHED, published);
    writeFileSync(DOCS, renderDocs(published));
    return print(`Wrote ${[PUBLISHED, DOCS].map((file) => relative(process.cwd(), file)).join(' and ')}\n`);
  }
  if (options.against !== undefined) {
    const log = startClock((text) => process.stderr.write(text));
    const chosen = options.names.length > 0 ? options.names : names;
    const compared = await measureAgainst({ commit: options.against, names: chosen, length: options.length, log });
    print(compared.text);
    return compared.isWhole ? 0 : 1;
  }
  return measure(options, names);
}

async function measure(options: Options, order: readonly string[]): Promise<number> {
  const log = startClock((text) => process.stderr.write(text));
  // As in a deployment; child processes inherit it.
  process.env.NODE_ENV = 'production';
  process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} ${INSPECTABLE}`.trim();

  const conditions = await readConditions();
  if (isBusy(conditions)) log(`The machine is busy (load ${conditions.load}); figures will be worse`);
  const chosen = BENCHMARKS.filter(({ name }) => options.names.length === 0 || options.names.includes(name));
  const results: Result[] = [];
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      // The children die with this process, so the second signal ends everything at once.
      if (stop.signal.aborted) process.exit(130);
      log('Stopping');
      stop.abort();
    });
  }
  {
    await using started = lazyStack(log);
    const context: Context = {
      length: options.length,
      log,
      stack: started.get,
      profiled: options.profile
        ? async (name, work, of) =>
            profiled(name, work, { stack: of ?? (await started.get()), folder: dirname(options.out), log })
        : (_, work) => work(),
    };
    for (const benchmark of chosen) {
      log(`${benchmark.name}: ${benchmark.about}`);
      const result = await Promise.race([runOne(benchmark, context, conditions), aborted(stop.signal)]);
      if (!result) break;
      log(`${benchmark.name} took ${formatDuration(result.seconds * 1000)}${describeEnd(result)}`);
      results.push(result);
      // Written at once, so that an abort loses no results. Not with a profile, which makes figures worse.
      if (!options.profile) writeReport(options.out, merge(readReport(options.out), [result], order));
    }
  }
  process.stdout.write(table(results));
  if (!options.profile) process.stderr.write(`Wrote ${relative(process.cwd(), options.out)}\n`);
  if (stop.signal.aborted) return 130;
  return results.some(({ failed }) => failed) ? 1 : 0;
}

async function runOne(benchmark: Benchmark, context: Context, conditions: Conditions): Promise<Result> {
  const began = performance.now();
  const { name, about } = benchmark;
  const base = { benchmark: name, about, length: context.length, conditions, figures: [], notes: [] };
  const seconds = () => Math.round((performance.now() - began) / 100) / 10;
  try {
    const measured = await benchmark.run(context);
    return { ...base, seconds: seconds(), figures: figuresOf(benchmark, measured), notes: measured.notes ?? [] };
  } catch (error) {
    const text = (error as Error).message;
    return { ...base, seconds: seconds(), ...(error instanceof Skip ? { skipped: text } : { failed: text }) };
  }
}

function describeEnd({ skipped, failed }: Result): string {
  if (skipped) return ` and was skipped: ${skipped}`;
  return failed ? ` and FAILED: ${failed}` : '';
}

/** A stack that the first call of `get` starts, and that is disposed of with this, also while it is still starting. */
function lazyStack(log: Log): AsyncDisposable & { get(): Promise<Stack> } {
  let stack: Promise<Stack> | undefined;
  return {
    get() {
      stack ??= createStack(log);
      return stack;
    },
    async [Symbol.asyncDispose]() {
      if (stack) log('Stopping what was started');
      await stack?.then((it) => it[Symbol.asyncDispose]()).catch(() => {});
    },
  };
}

async function profiled<T>(
  name: string,
  work: () => Promise<T>,
  { stack, folder, log }: { stack: Stack; folder: string; log: Log },
): Promise<T> {
  const { value, profile: taken } = await profile(stack.controller(), work);
  const file = join(folder, `bench-${name}.cpuprofile`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, JSON.stringify(taken));
  log(`Where the controller spent its time in ${name} (${relative(process.cwd(), file)}):`);
  for (const { name: what, place, self, total } of hotSpots(taken, ROOT).slice(0, 40)) {
    const percent = (share: number) => `${(share * 100).toFixed(1)} %`.padStart(7);
    process.stderr.write(`  ${percent(self)} ${percent(total)}  ${what}  ${place}\n`);
  }
  return value;
}

const aborted = (signal: AbortSignal) =>
  new Promise<undefined>((resolve) => signal.addEventListener('abort', () => resolve(undefined), { once: true }));

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

process.exitCode = await main();
// A benchmark that was aborted may still wait for something.
if (process.exitCode === 130) process.exit();
