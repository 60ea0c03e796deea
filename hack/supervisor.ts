import { setTimeout as sleep } from 'node:timers/promises';
import { lastWords } from './last-words.ts';
import type { Again } from './process.ts';
import type { Log } from './progress.ts';

/** A daemon that ended by itself is started again after a pause, unless it ends so often in so long. */
const PAUSE_MS = 1_000;
const ENDS = 5;
const WITHIN_MS = 60_000;

/** What continues while a daemon of the local stack is down, for people. */
const MEANWHILE: Readonly<Record<string, string>> = {
  agent: 'the containers run on',
  controller: 'the agent and the containers run on',
  dockerd: 'the agent starts the containers again',
  podman: 'the containers run on',
  etcd: 'the containers run on, and nothing is lost',
  'kube-apiserver': 'the containers run on',
  'kube-controller-manager': 'everything else runs on',
  registry: 'only pulls wait',
};

/** Starts daemons again that end by themselves, as a service manager does. */
export interface Supervisor {
  /** The option of each daemon. */
  again: Again;
  /** From now on daemons are started again: a daemon that has never worked is not started again. */
  begin(): void;
  /** Rejects when a daemon ends too often. */
  readonly broken: Promise<never>;
}

export interface SupervisorOptions {
  log: Log;
  /** ms, steady */
  now?: () => number;
  pause?: (ms: number) => Promise<unknown>;
}

export function createSupervisor({ log, now = () => performance.now(), pause = sleep }: SupervisorOptions): Supervisor {
  const { promise: broken, reject } = Promise.withResolvers<never>();
  // When the stack is stopped, nothing waits for it any more.
  broken.catch(() => {});
  const ends = new Map<string, number[]>();
  let hasBegun = false;
  return {
    broken,
    begin() {
      hasBegun = true;
    },
    async again({ name, how, logFile }) {
      if (!hasBegun) return false;
      const at = now();
      const recent = [...(ends.get(name) ?? []).filter((each) => at - each < WITHIN_MS), at];
      ends.set(name, recent);
      if (recent.length >= ENDS) {
        reject(
          new Error(
            `The ${name} ${how}, as it did ${ENDS} times within a minute: the stack stops and keeps its data.\n` +
              `The end of ${logFile}:\n${lastWords(logFile)}`,
          ),
        );
        return false;
      }
      log(`The ${name} ${how} and is started again; meanwhile ${MEANWHILE[name] ?? 'everything else runs on'}`);
      await pause(PAUSE_MS);
      return true;
    },
  };
}
