import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { placesOf } from '../agent/src/domain/config.ts';
import { LocalClient } from '../agent/src/local-api/client.ts';
import { unitEnvironment } from '../hack/agent-release.ts';
import { bundle } from '../hack/build.ts';
import { startContainerd } from '../hack/containerd.ts';
import { type EngineKind, findEngine, removeEngineData } from '../hack/engine.ts';
import { loadImage } from '../hack/engine-api.ts';
import { runFolder } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { startDaemon } from '../hack/process.ts';
import type { Log } from '../hack/progress.ts';
import { waitFor } from '../hack/wait.ts';
import type { LocalApi } from './edge.ts';
import { processesNaming } from './processes.ts';

/** The engines of a machine: the agent's own is the third. */
export type AloneKind = EngineKind | 'embedded';

/** The real agent as it is installed, on an engine of its own, without a controller. */
export interface Alone extends AsyncDisposable {
  readonly kind: AloneKind;
  readonly engineUrl: string;
  /** the folder of its volumes */
  readonly volumes: string;
  /** the client of its local API */
  readonly client: LocalClient;
  readonly api: LocalApi;
  pid(): number;
  /** The processes of the engine: its daemons, and the helpers that it has for containers. */
  engineProcesses(): { daemons: number[]; helpers: number[] };
  /** Gives the engine the image of an archive. */
  load(archive: Buffer): Promise<void>;
  /** Ends the agent and starts it again; its containers run on. */
  restart(): Promise<void>;
}

export async function startAlone(kind: AloneKind, log: Log): Promise<Alone> {
  await using started = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'skerry-alone-'));
  started.defer(() => removeEngineData(dir));
  const folder = join(dir, 'engine');
  started.defer(() => removeEngineData(folder));
  const engine = started.use(
    kind === 'embedded'
      ? await startContainerd({ dir: folder, log })
      : await findEngine({ dir: folder, kind, alwaysPrivate: true, log }),
  );

  const home = join(dir, 'agent');
  const [data, run, config] = [join(home, 'data'), join(home, 'run'), join(home, 'config.yaml')];
  await mkdir(home, { mode: 0o700 });
  const settings = {
    // The agent knows its own engine by the socket.
    ...{ containerEngine: kind === 'embedded' ? undefined : kind, containerEngineUrl: engine.url },
    ...{ diskDirectory: data, runDirectory: run },
    ...{ logDirectory: join(home, 'logs'), localApiPort: await freePort() },
  };
  const text = JSON.stringify(settings);
  await writeFile(config, text);
  const program = await bundle('skerry-agent', dir);
  const { signal } = started.adopt(new AbortController(), (stop) => stop.abort());
  const places = placesOf(text, config);
  const client = new LocalClient({ ...places, configFile: config, signal });

  const launch = async () => {
    const agent = await startDaemon({
      name: 'agent',
      dir,
      command: program.path,
      args: ['start', '--config', config],
      env: { ...process.env, ...unitEnvironment(), PATH: `${dirname(process.execPath)}:${process.env.PATH}` },
      deathSignal: 'SIGTERM',
    });
    const isReady = async () => {
      agent.assertRunning();
      return client.call<{ runtime: { engineReady: boolean } }>('GET', '/v1/system/status').then(
        ({ runtime }) => runtime.engineReady,
        () => false,
      );
    };
    await waitFor(isReady, { what: 'the agent to have its engine', timeoutMs: 60_000, intervalMs: 50 });
    return agent;
  };
  let agent = await launch();
  started.defer(() => agent.stop(10_000));

  const owned = started.move();
  return {
    ...{ kind, engineUrl: engine.url, client, api: places, volumes: join(data, 'volumes') },
    pid: () => agent.pid,
    engineProcesses: () => processesNaming([folder, runFolder(folder)], /shim|conmon|docker-proxy|aardvark/),
    load: (archive) => (kind === 'embedded' ? loadByAgent(client, dir, archive) : loadImage(engine.url, archive)),
    async restart() {
      await agent.stop(10_000);
      agent = await launch();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The agent's own engine has no API for others. */
async function loadByAgent(client: LocalClient, dir: string, archive: Buffer): Promise<void> {
  const path = join(await mkdtemp(join(dir, 'archive-')), 'image.tar');
  await writeFile(path, archive);
  await finished(client, '/v1/images:load', await client.call('POST', '/v1/images:load', { body: { path } }));
  await rm(dirname(path), { recursive: true });
}

interface Operation {
  operationId: string;
  status: 'running' | 'succeeded' | 'failed';
  error?: { message: string };
}

/** Waits until an operation of the agent has ended well. */
export async function finished(client: LocalClient, path: string, { operationId }: Operation): Promise<void> {
  const hasEnded = async () => {
    const { status, error } = await client.call<Operation>('GET', `${path}/${operationId}`);
    if (error) throw new Error(`${path}: ${error.message}`);
    return status === 'succeeded';
  };
  await waitFor(hasEnded, { what: `${path} to be done`, timeoutMs: 600_000, intervalMs: 10 });
}
