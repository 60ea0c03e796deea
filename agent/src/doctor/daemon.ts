import type { Config } from '../domain/config.ts';
import { CliError, LocalClient } from '../local-api/client.ts';

/** The running agent, as seen through its socket. */
export type DaemonView =
  | { state: 'running'; status: DaemonStatus }
  | { state: 'absent' }
  | { state: 'forbidden' | 'broken'; message: string };

/** What the doctor reads of `GET /v1/system/status`. */
interface DaemonStatus {
  controllerConnection: string;
  connectionError?: string;
  warnings: string[];
  lastContact?: string;
}

const STATES: Readonly<Record<string, DaemonView['state']>> = {
  DAEMON_UNAVAILABLE: 'absent',
  FORBIDDEN: 'forbidden',
};

export async function lookAtDaemon(config: Pick<Config, 'socket' | 'tokenFile' | 'file'>): Promise<DaemonView> {
  const client = new LocalClient({
    socket: config.socket,
    tokenFile: config.tokenFile,
    configFile: config.file,
    signal: AbortSignal.timeout(10_000),
  });
  try {
    return { state: 'running', status: await client.call<DaemonStatus>('GET', '/v1/system/status') };
  } catch (error) {
    const { code, message } = error instanceof CliError ? error : new CliError('INTERNAL', String(error));
    const state = STATES[code] ?? 'broken';
    return state === 'absent' ? { state } : ({ state, message } as DaemonView);
  }
}
