import { execFile } from 'node:child_process';
import { errorText, type Log } from './log.ts';

/** systemd's own program: its protocol needs a datagram socket, which Node does not have. */
const PROGRAM = 'systemd-notify';
const PATIENCE_MS = 10_000;

export interface ServiceManager extends Disposable {
  /** The agent is up; from here on it shows that it lives, as often as the service manager asks for. */
  ready(): void;
}

/** The service manager that started this process, as the environment names it; does nothing where there is none. */
export function serviceManager(env: NodeJS.ProcessEnv, log: Log): ServiceManager {
  if (!env.NOTIFY_SOCKET) return { ready: () => {}, [Symbol.dispose]: () => {} };
  const limit = Number(env.WATCHDOG_USEC) / 1000;
  let timer: NodeJS.Timeout | undefined;
  let isSending = false;
  let hasFailed = false;

  const send = (...states: string[]) => {
    if (isSending) return;
    isSending = true;
    execFile(PROGRAM, states, { env, timeout: PATIENCE_MS }, (error) => {
      isSending = false;
      if (error && !hasFailed) log.warn('The service manager cannot be told', { error: errorText(error) });
      hasFailed = error !== null;
    });
  };
  return {
    ready() {
      send('--ready', '--status=Running');
      if (limit > 0) timer ??= setInterval(() => send('WATCHDOG=1'), limit / 3).unref();
    },
    [Symbol.dispose]() {
      clearInterval(timer);
    },
  };
}
