import { compareVersions } from '../../../src/api/version.ts';
import type { UpdateState } from './program.ts';

/** Starts that a new release has until one of its reports is confirmed. */
export const MAX_STARTS = 3;
/** Milliseconds that one start has until then. */
export const TRIAL_MS = 10 * 60_000;

/** One durable change of the program directory. */
export type UpdateStep = { save: UpdateState } | { switchTo: string };

export interface StartDecision {
  /** carried out in this order; a loss of power after any of them is decided anew from what is on the disk */
  steps: UpdateStep[];
  /** the release to start; undefined when there is none */
  version: string | undefined;
  /** it has to be watched until a report of it is confirmed */
  isTrial: boolean;
}

/** Which release the launcher starts: pure, from what is on the disk. */
export function decideStart(
  state: UpdateState,
  current: string | undefined,
  complete: readonly string[],
): StartDecision {
  const { trial, ...rest } = state;
  if (trial && trial.failed === undefined) {
    const isInForce = current === trial.version && complete.includes(trial.version);
    // The power was lost before the switch; the agent that runs will carry out its action again.
    if (!isInForce) return settled({ ...rest }, current, complete, [{ save: rest }]);
    if (trial.starts < MAX_STARTS) {
      const started = { ...state, trial: { ...trial, starts: trial.starts + 1 } };
      return { steps: [{ save: started }], version: trial.version, isTrial: true };
    }
    const reason = `it ended ${MAX_STARTS} times before a report of it was confirmed`;
    const failed = { ...state, trial: { ...trial, failed: reason } };
    return fallBack(failed, complete, [{ save: failed }]);
  }
  return trial ? fallBack(state, complete, []) : settled(state, current, complete, []);
}

/** The state in which a trial that took too long is given up; the link is switched next. */
export function endLateTrial(state: UpdateState): UpdateState {
  const failed = `no report of it was confirmed within ${TRIAL_MS / 60_000} minutes`;
  return state.trial ? { ...state, trial: { ...state.trial, failed, isLate: true } } : state;
}

/** The release to start instead of the one on trial. */
export function withoutTrial({ trial, bad }: UpdateState, complete: readonly string[]): string | undefined {
  if (trial && complete.includes(trial.from)) return trial.from;
  return newest(complete, [...Object.keys(bad), ...(trial ? [trial.version] : [])]);
}

/** Switches back first and forgets the trial last, so that a loss of power never leaves the failed release in force. */
function fallBack(state: UpdateState, complete: readonly string[], steps: UpdateStep[]): StartDecision {
  const { trial, ...rest } = state;
  if (!trial) return settled(state, undefined, complete, steps);
  const reason = trial.failed ?? '';
  const version = withoutTrial(state, complete);
  const after: UpdateState = {
    ...rest,
    ...(!trial.isLate && { bad: { ...rest.bad, [trial.version]: { digest: trial.digest, reason } } }),
    // A controller that did not request it hears nothing of it.
    ...(trial.action && {
      failure: { version: trial.version, reason, ...(version !== undefined && { runs: version }) },
      finished: trial.action,
    }),
  };
  const back: UpdateStep[] = version === undefined ? [] : [{ switchTo: version }];
  return { steps: [...steps, ...back, { save: after }], version, isTrial: false };
}

function settled(
  state: UpdateState,
  current: string | undefined,
  complete: readonly string[],
  steps: UpdateStep[],
): StartDecision {
  if (current !== undefined && complete.includes(current)) return { steps, version: current, isTrial: false };
  const { previous } = state;
  const version =
    previous !== undefined && complete.includes(previous) ? previous : newest(complete, Object.keys(state.bad));
  return { steps: version === undefined ? steps : [...steps, { switchTo: version }], version, isTrial: false };
}

/** The newest release; one that failed only where there is no other. */
function newest(complete: readonly string[], failed: readonly string[]): string | undefined {
  const good = complete.filter((version) => !failed.includes(version));
  return [...(good.length > 0 ? good : complete)].sort(compareVersions).at(-1);
}
