import { errorText } from '../machine/log.ts';

/** A problem and its next step. A warning does not stop the agent from working. */
interface Problem {
  severity: 'failed' | 'warning';
  todo: string;
}

export const failed = (todo: string): Problem => ({ severity: 'failed', todo });
export const warning = (todo: string): Problem => ({ severity: 'warning', todo });

/** The finding of a check: no problem, one of its problems, or that it could not run. */
export type Found<P extends string> = { ok: string } | { problem: P; what: string } | { skipped: string };

/** One condition for an agent to work. The table of checks is also the documentation of problems. */
export interface Check<C, P extends string = string> {
  name: string;
  /** what it checks, in a few words */
  about: string;
  problems: Readonly<Record<P, Problem>>;
  run(context: C): Promise<Found<P>> | Found<P>;
}

/** A check whose problems are exactly those that its table names. */
export const check = <C, P extends string>(one: Check<C, P>): Check<C> => one as unknown as Check<C>;

export interface Diagnosis {
  check: string;
  status: 'ok' | 'warning' | 'failed' | 'skipped';
  detail: string;
  problem?: string;
  todo?: string;
}

const DEADLINE = 20_000;

/** Runs checks concurrently; returns results in their order. A check that throws or exceeds the deadline has failed. */
export function diagnose<C>(checks: readonly Check<C>[], context: C, deadline = DEADLINE): Promise<Diagnosis[]> {
  return Promise.all(checks.map((one) => runOne(one, context, deadline)));
}

async function runOne<C>(one: Check<C>, context: C, deadline: number): Promise<Diagnosis> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${deadline / 1000} s`)), deadline);
  });
  try {
    const found = await Promise.race([(async () => one.run(context))(), late]);
    if ('ok' in found) return { check: one.name, status: 'ok', detail: found.ok };
    if ('skipped' in found) return { check: one.name, status: 'skipped', detail: found.skipped };
    const { severity, todo } = one.problems[found.problem] as Problem;
    return { check: one.name, status: severity, detail: found.what, problem: found.problem, todo };
  } catch (error) {
    return {
      check: one.name,
      status: 'failed',
      detail: errorText(error),
      problem: 'broken',
      todo: 'The check itself broke: make a support bundle (skerry-agent support-bundle) and report it.',
    };
  } finally {
    clearTimeout(timer);
  }
}
