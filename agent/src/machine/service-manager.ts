import { execFile } from 'node:child_process';
import type { Log } from '../../../src/lib/log.ts';
import { DEFAULT_CONFIG_FILE } from '../domain/config.ts';
import { exists } from './disk.ts';
import { errorText } from './log.ts';

/** The unit of the packages. It starts the agent again whenever the agent ends. */
const UNIT_FILE = '/usr/lib/systemd/system/skerry-agent.service';
/** There while systemd runs the machine: sd_booted(3). */
const SYSTEMD = '/run/systemd/system';

/** Whether the unit of the packages starts and stops the agent with this file of settings. */
export const isService = (configFile: string, has: (path: string) => boolean = exists) =>
  configFile === DEFAULT_CONFIG_FILE && has(SYSTEMD) && has(UNIT_FILE);

/** Whether systemd runs this machine. */
export const runsSystemd = (): boolean => exists(SYSTEMD);

/** systemd's own program: its protocol needs a datagram socket, which Node does not have. */
const PROGRAM = 'systemd-notify';
const PATIENCE_MS = 10_000;

export interface ServiceManager extends Disposable {
  /** The agent is up; from here on it shows that it lives, as often as the service manager asks for. */
  ready(): void;
  /** The agent ends, and may take so many ms. */
  stopping(milliseconds: number): void;
}

/** The service manager that started this process, as the environment names it; does nothing where there is none. */
export function serviceManager(env: NodeJS.ProcessEnv, log: Log): ServiceManager {
  if (!env.NOTIFY_SOCKET) return { ready: () => {}, stopping: () => {}, [Symbol.dispose]: () => {} };
  const limit = Number(env.WATCHDOG_USEC) / 1000;
  let timer: NodeJS.Timeout | undefined;
  let isSending = false;
  let hasFailed = false;

  const send = (...states: string[]) => {
    if (isSending) return;
    isSending = true;
    execFile(PROGRAM, states, { env, timeout: PATIENCE_MS }, (error) => {
      isSending = false;
      if (error && !hasFailed) log.warn({ error: errorText(error) }, 'The service manager cannot be told');
      hasFailed = error !== null;
    });
  };
  return {
    ready() {
      send('--ready', '--status=Running');
      if (limit > 0) timer ??= setInterval(() => send('WATCHDOG=1'), limit / 3).unref();
    },
    stopping(milliseconds) {
      // Past a signal of life that is being sent: this one must not be lost.
      isSending = false;
      send('--status=Stopping', 'STOPPING=1', `EXTEND_TIMEOUT_USEC=${Math.round(milliseconds * 1000)}`);
    },
    [Symbol.dispose]() {
      clearInterval(timer);
    },
  };
}
