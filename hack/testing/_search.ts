import { parentPort, workerData } from 'node:worker_threads';
import { type Attack, attacksOn } from './_attacks.ts';
import type { Expression } from './_expressions.ts';

/**
 * A thread that gives expressions their worst texts, and loads modules to learn which expressions they make. Times are those of
 * the processor, so that a busy machine changes no verdict.
 */
export interface SearchTask {
  expressions: readonly (Expression & { characters: number })[];
  /** modules whose expressions are to be found, by URL */
  modules: readonly string[];
}

/** What the thread says: what it begins with, an expression that is too slow, an expression that a module made. */
export type SearchMessage =
  | { begins: string }
  | { place: string; expression: string; tooSlow: string }
  | { made: Expression }
  | { end: true };

/** Milliseconds of the event loop for the largest text of an expression. */
const BUDGET = 50;
/** Milliseconds for 16 KiB from which an expression is suspected; expressions that are linear need a hundredth. */
const SUSPECT = 4;
/** Four times the text takes a linear search four times as long, and a quadratic one sixteen times. */
const GROWTH = 8;
/** The attacks that took longest on a short text are tried on longer ones. */
const TRIED = 4;

const say = (message: SearchMessage) => parentPort?.postMessage(message);

const cpu = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

function search(expression: RegExp, text: string): void {
  if (expression.global) text.replace(expression, '');
  else expression.exec(text);
}

/** The best of three times, or the first that is small enough; ms. */
function timeOf(expression: RegExp, text: string, enough: number): number {
  let best = Number.POSITIVE_INFINITY;
  for (let times = 0; times < 3 && best > enough; times++) {
    const began = cpu();
    search(expression, text);
    best = Math.min(best, cpu() - began);
  }
  return best;
}

function textOf({ before, unit, after }: Attack, characters: number): string {
  const room = characters - before.length - after.length;
  return before + unit.repeat(Math.max(1, Math.floor(room / unit.length))) + after;
}

function verdictOn(expression: RegExp, characters: number): string | undefined {
  const attacks = attacksOn(expression);
  const named = (attack: Attack) =>
    `${JSON.stringify(attack.unit.slice(0, 20))} repeated after ${JSON.stringify(attack.before.slice(0, 20))}`;
  const endless = attacks.find((attack) => timeOf(expression, textOf(attack, 24), SUSPECT) > SUSPECT);
  if (endless) return `takes exponential time for ${named(endless)}`;
  const timed = attacks.map((attack) => {
    const text = textOf(attack, Math.min(1024, characters));
    const began = performance.now();
    search(expression, text);
    const between = performance.now();
    search(expression, text);
    return { attack, time: Math.min(between - began, performance.now() - between) };
  });
  const worst = timed.sort((a, b) => b.time - a.time).slice(0, TRIED);
  for (const { attack } of worst) {
    const time = timeOf(expression, textOf(attack, Math.min(16_384, characters)), SUSPECT);
    const grows = time > SUSPECT && time > GROWTH * timeOf(expression, textOf(attack, 4096), 0);
    if (grows && characters > 16_384)
      return `takes more than linear time for ${named(attack)}: ${time.toFixed()} ms for 16 KiB`;
  }
  for (const { attack } of worst.slice(0, 2)) {
    const time = timeOf(expression, textOf(attack, characters), BUDGET);
    if (time > BUDGET * slowness())
      return `takes ${time.toFixed()} ms for ${characters} characters of ${named(attack)}`;
  }
  return undefined;
}

/** How much slower this machine is than one on which a search of a megabyte takes a millisecond; at least 1. */
function slowness(): number {
  return Math.max(1, timeOf(/[^a]/, 'a'.repeat(2 ** 20), 0));
}

async function expressionsMadeBy(modules: readonly string[]): Promise<void> {
  const Native = RegExp;
  const note = (given: unknown[]) => {
    const [, url, line] =
      /(file:\S+?):(\d+):\d+\)?$/m.exec((new Error().stack ?? '').split('\n').slice(3).join('\n')) ?? [];
    if (typeof given[0] !== 'string' || !url) return;
    say({ made: { place: `${url}:${line}`, source: given[0], flags: String(given[1] ?? '') } });
  };
  globalThis.RegExp = new Proxy(Native, {
    construct: (target, given, asked) => {
      note(given);
      return Reflect.construct(target, given, asked);
    },
    apply: (target, self, given) => {
      note(given);
      return Reflect.apply(target, self, given);
    },
  });
  for (const module of modules) await import(module);
  globalThis.RegExp = Native;
}

const { expressions, modules } = workerData as SearchTask;
await expressionsMadeBy(modules);
for (const { place, source, flags, characters } of expressions) {
  say({ begins: `${place} /${source}/${flags}` });
  const tooSlow = verdictOn(new RegExp(source, flags), characters);
  if (tooSlow) say({ place, expression: `/${source}/${flags}`, tooSlow });
}
say({ end: true });
