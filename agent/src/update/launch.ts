import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import {
  PROGRAM_VARIABLE,
  type Program,
  RESTART_CODE,
  type Release,
  type UpdateState,
  WATCHED_VARIABLE,
} from './program.ts';
import { decideStart, endLateTrial, TRIAL_MS, type UpdateStep, withoutTrial } from './trial.ts';

/** Between two looks at update.json while a release is on trial. */
const LOOK_MS = 500;
/** What an agent gets for its end, as from an init system. */
const STOP_MS = 30_000;

export interface LaunchDependencies {
  program: Program;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** monotonic, ms */
  now(): number;
  sleep(milliseconds: number): Promise<void>;
  /** Makes this process the program; returns only where Node cannot. */
  replace(file: string, args: readonly string[], env: NodeJS.ProcessEnv): void;
  /** Calls back for each signal that a program is meant to notice. */
  onSignal(listener: (signal: NodeJS.Signals) => void): void;
  say(message: string): void;
}

/**
 * Starts the release that is due, and resolves with an exit code when it is over. A confirmed release takes the place of
 * this process, so that the launcher costs nothing while it runs. One on trial is a child that is watched.
 */
export async function launch(deps: LaunchDependencies): Promise<number> {
  const { program, args, env, say } = deps;
  let watch: Watch | undefined;
  let isStopping = false;
  deps.onSignal((signal) => {
    if (signal !== 'SIGHUP') isStopping = true;
    watch?.signal(signal);
  });
  while (!isStopping) {
    const [state, complete] = [program.state, program.versions()];
    const decision = decideStart(state, program.current, complete);
    // A start on trial that is not counted would be repeated for ever.
    const isTrial = attempt(deps, () => carryOut(deps, decision.steps)) && decision.isTrial;
    const version = decision.isTrial && !isTrial ? withoutTrial(state, complete) : decision.version;
    if (version === undefined) throw new Error(`there is no release of the agent in ${program.releases}`);
    const [file, ...rest] = commandOf(program, program.read(version), args);
    const variables = { ...env, [PROGRAM_VARIABLE]: program.directory };
    if (!isTrial) {
      deps.replace(file, rest, variables);
      watch = new Watch(deps, spawned(file, rest, variables));
      return ended(await watch.exit);
    }
    say(`Starting ${version} on trial`);
    watch = new Watch(deps, spawned(file, rest, { ...variables, [WATCHED_VARIABLE]: '1' }));
    const code = await watch.untilConfirmed();
    if (isStopping) return code;
  }
  return 0;
}

function carryOut({ program, say }: LaunchDependencies, steps: readonly UpdateStep[]): void {
  for (const step of steps) {
    if ('save' in step) program.save(step.save);
    else {
      program.switchTo(step.switchTo);
      say(`Switched to ${step.switchTo}`);
    }
  }
}

/** Changes the program directory; a disk that is full or broken keeps no agent from running. */
function attempt({ program, say }: LaunchDependencies, change: () => void): boolean {
  try {
    change();
    return true;
  } catch (error) {
    say(`${program.directory} cannot be written: ${error instanceof Error ? error.message : error}`);
    return false;
  }
}

function commandOf(program: Program, { version, nodeFlags }: Release, args: readonly string[]): [string, ...string[]] {
  const folder = program.release(version);
  return [join(folder, 'node'), ...nodeFlags, join(folder, 'agent'), ...args];
}

function spawned(file: string, args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  return spawn(file, args, { env, stdio: 'inherit' });
}

interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** One start of an agent as a child. */
class Watch {
  readonly exit: Promise<Exit>;
  readonly #deps: LaunchDependencies;
  readonly #child: ChildProcess;
  #hasEnded = false;
  #stopped = false;
  /** An agent takes a second signal as the order to end at once. */
  #isEnding = false;

  constructor(deps: LaunchDependencies, child: ChildProcess) {
    this.#deps = deps;
    this.#child = child;
    this.exit = new Promise((resolve) => {
      const end = (exit: Exit) => {
        this.#hasEnded = true;
        resolve(exit);
      };
      child.once('exit', (code, signal) => end({ code, signal }));
      // The file cannot be run.
      child.once('error', () => end({ code: 126, signal: null }));
    });
  }

  signal(signal: NodeJS.Signals): void {
    if (signal === 'SIGHUP') return void this.#child.kill(signal);
    this.#stopped = true;
    this.#askToEnd(signal);
  }

  #askToEnd(signal: NodeJS.Signals): void {
    if (!this.#isEnding) this.#child.kill(signal);
    this.#isEnding = true;
  }

  /** Ends when the agent has ended: by itself, after a confirmed report, or because it took too long. */
  async untilConfirmed(): Promise<number> {
    const { program, now, sleep, say } = this.#deps;
    const deadline = now() + TRIAL_MS;
    while (!this.#hasEnded && program.state.trial && now() < deadline) await Promise.race([sleep(LOOK_MS), this.exit]);
    const late = !this.#hasEnded && program.state.trial !== undefined;
    const exit = await this.#end();
    // A report may have been confirmed at the last moment.
    const { state } = program;
    const { trial } = state;
    if (!trial) say('A report was confirmed; the release stays');
    else if (this.#stopped) this.#save({ ...state, trial: { ...trial, starts: trial.starts - 1 } });
    else if (late) this.#save(endLateTrial(state));
    else await sleep(LOOK_MS);
    // An agent that has just started knows no signal yet, and is ended by it.
    return this.#stopped && exit.signal === 'SIGTERM' ? 0 : ended(exit);
  }

  #save(state: UpdateState): void {
    attempt(this.#deps, () => this.#deps.program.save(state));
  }

  async #end(): Promise<Exit> {
    if (!this.#hasEnded) this.#askToEnd('SIGTERM');
    await Promise.race([this.exit, this.#deps.sleep(STOP_MS)]);
    if (!this.#hasEnded) this.#child.kill('SIGKILL');
    return this.exit;
  }
}

const ended = ({ code, signal }: Exit) => code ?? (signal ? 1 : RESTART_CODE);
