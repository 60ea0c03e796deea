import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { placesOf } from '../agent/src/domain/config.ts';
import { LocalClient } from '../agent/src/local-api/client.ts';
import { bundle } from '../hack/build.ts';
import { type Engine, type EngineKind, findEngine, removeEngineData } from '../hack/engine.ts';
import { freePort } from '../hack/ports.ts';
import { startDaemon } from '../hack/process.ts';
import type { Log } from '../hack/progress.ts';
import { waitFor } from '../hack/wait.ts';

/** The real agent as it is installed, on an engine of its own, without a controller. */
export interface Alone extends AsyncDisposable {
  readonly engine: Engine;
  /** the folder of its volumes */
  readonly volumes: string;
  /** the client of its local API */
  readonly client: LocalClient;
  pid(): number;
  /** Ends the agent and starts it again; its containers run on. */
  restart(): Promise<void>;
}

export async function startAlone(kind: EngineKind, log: Log): Promise<Alone> {
  await using started = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'skerry-alone-'));
  started.defer(() => removeEngineData(dir));
  const folder = join(dir, 'engine');
  started.defer(() => removeEngineData(folder));
  const engine = started.use(await findEngine({ dir: folder, kind, alwaysPrivate: true, log }));

  const home = join(dir, 'agent');
  const [data, run, config] = [join(home, 'data'), join(home, 'run'), join(home, 'config.yaml')];
  await mkdir(home, { mode: 0o700 });
  const settings = {
    ...{ containerEngine: kind, containerEngineUrl: engine.url, diskDirectory: data, runDirectory: run },
    ...{ logDirectory: join(home, 'logs'), localApiPort: await freePort() },
  };
  const text = JSON.stringify(settings);
  await writeFile(config, text);
  const program = await bundle('skerry-agent', dir);
  const { signal } = started.adopt(new AbortController(), (stop) => stop.abort());
  const client = new LocalClient({ ...placesOf(text, config), configFile: config, signal });

  const launch = async () => {
    const agent = await startDaemon({
      name: 'agent',
      dir,
      command: program.path,
      args: ['start', '--config', config],
      env: { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` },
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
    ...{ engine, client, volumes: join(data, 'volumes') },
    pid: () => agent.pid,
    async restart() {
      await agent.stop(10_000);
      agent = await launch();
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
