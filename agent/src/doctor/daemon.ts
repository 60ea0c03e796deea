import type { Config } from '../domain/config.ts';
import { CliError, LocalClient } from '../local-api/client.ts';

/** The running agent, as seen through its socket. */
export type DaemonView =
  | { state: 'running'; status: DaemonStatus; content?: DaemonContent }
  | { state: 'absent' }
  | { state: 'forbidden' | 'broken'; message: string };

/** What the doctor reads of `GET /v1/system/status`. */
export interface DaemonStatus {
  controllerConnection: string;
  connectionError?: string;
  warnings: string[];
  lastContact?: string;
  tunnel?: { status: string; message?: string };
}

/** What the doctor reads of the lists of what there is for containers. */
export interface ContentItem {
  name: string;
  state: string;
  lastError?: string;
}

interface DaemonContent {
  artifacts: ContentItem[];
  volumeMounts: ContentItem[];
  /** undefined where the agent has no such list */
  systemFiles?: ContentItem[];
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
    const status = await client.call<DaemonStatus>('GET', '/v1/system/status');
    return { state: 'running', status, content: await contentOf(client) };
  } catch (error) {
    const { code, message } = error instanceof CliError ? error : new CliError('INTERNAL', String(error));
    const state = STATES[code] ?? 'broken';
    return state === 'absent' ? { state } : ({ state, message } as DaemonView);
  }
}

/** Undefined where the agent has no such lists: another version of it may run. */
async function contentOf(client: LocalClient): Promise<DaemonContent | undefined> {
  const list = async (path: string) => (await client.call<{ items: ContentItem[] }>('GET', path)).items;
  try {
    const [models, knowledge] = [await list('/v1/models'), await list('/v1/knowledge')];
    const volumeMounts = await list('/v1/volume-mounts');
    const systemFiles = await list('/v1/system-files').catch(() => undefined);
    return { artifacts: [...models, ...knowledge], volumeMounts, systemFiles };
  } catch {
    return undefined;
  }
}
