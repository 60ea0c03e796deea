import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { placesOf } from '../agent/src/domain/config.ts';
import { unitEnvironment } from '../hack/agent-release.ts';
import { bundle } from '../hack/build.ts';
import { type Engine, findEngine } from '../hack/engine.ts';
import { pullInsecure } from '../hack/engine-api.ts';
import { pushImage } from '../hack/image.ts';
import { type Kube, readObjects } from '../hack/kube.ts';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { type Daemon, startDaemon } from '../hack/process.ts';
import type { Log } from '../hack/progress.ts';
import { startRegistry } from '../hack/registry.ts';
import { sampleImage } from '../hack/sample.ts';
import {
  endContainers,
  moveAgent,
  NODE,
  nodeUuid,
  provisionAgent,
  type RestAccess,
  startAgent,
  waitForAgent,
} from '../hack/stack/agent.ts';
import { type ByteCounter, countBytes } from './byte-counter.ts';

/** Where the local API of an agent is. */
export interface LocalApi {
  socket: string;
  tokenFile: string;
}

/** The real agent on a real engine, provisioned as the node "local". */
export interface Edge extends AsyncDisposable {
  readonly engine: Engine;
  readonly node: string;
  /** Reference of an image that the engine has. */
  readonly image: string;
  /** Counts the bytes between agent and controller. */
  readonly traffic: ByteCounter;
  agentPid(): number;
  localApi(): LocalApi;
  /** Works while the agent is connected to the controller without the proxy that counts. */
  direct<T>(work: () => Promise<T>): Promise<T>;
  /** Restarts the agent in this form and returns when the controller has contact with it. */
  restartAs(form: AgentForm): Promise<void>;
}

/**
 * The forms of the agent: its sources, as `make up` runs them; the bundled file, as installed on machines, with the
 * environment of its unit and the flags of Node in its first line; and that file without these flags.
 */
type AgentForm = 'sources' | 'bundle' | 'plain';

export interface EdgeOptions {
  dir: string;
  kube: Kube;
  rest: RestAccess;
  log: Log;
}

export async function startEdge({ dir, kube, rest, log }: EdgeOptions): Promise<Edge> {
  await using started = new AsyncDisposableStack();
  const engine = started.use(await findEngine({ dir: join(dir, 'engine'), log }));
  const registry = started.use(await startRegistry({ dir: join(dir, 'registry'), log }));
  const pushed = await pushImage(registry.url, 'bench', 'present', await sampleImage({}, undefined, log));
  await pullInsecure(engine.url, pushed.reference);

  log('Starting the agent');
  const traffic = started.use(await countBytes(rest.url));
  for (const object of readObjects(join(ROOT, 'manifests/local-node.yaml'))) await kube.apply(object);
  const uuid = await nodeUuid(kube);
  const began = Date.now();
  let agent: Daemon = await startAgent({ dir, engine, port: await freePort() });
  started.defer(() => endContainers(engine.url, uuid, 'remove').catch(() => {}));
  started.defer(() => agent.stop(10_000));
  await provisionAgent({ dir, rest: { ...rest, url: traffic.url }, uuid, agent });
  await waitForAgent({ dir, rest, uuid, agent }, began);

  const owned = started.move();
  return {
    engine,
    node: NODE,
    image: pushed.reference,
    traffic,
    agentPid: () => agent.pid,
    localApi() {
      const file = join(dir, 'agent/config.yaml');
      return placesOf(readFileSync(file, 'utf8'), file);
    },
    async direct(work) {
      const moveTo = (url: string) => moveAgent({ dir, rest: { ...rest, url }, uuid, agent });
      await moveTo(rest.url);
      try {
        return await work();
      } finally {
        await moveTo(traffic.url);
      }
    },
    async restartAs(form) {
      const program = form === 'sources' ? join(ROOT, 'agent/src/main.ts') : (await bundle('skerry-agent', dir)).path;
      const [command = '', ...args] = form === 'bundle' ? [program] : [process.execPath, program];
      await agent.stop(10_000);
      const start = Date.now();
      agent = await startDaemon({
        name: 'agent',
        dir,
        command,
        args: [...args, 'start', '--config', join(dir, 'agent/config.yaml')],
        env: {
          ...process.env,
          ...(form === 'bundle' && unitEnvironment()),
          PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
        },
        deathSignal: 'SIGTERM',
      });
      await waitForAgent({ dir, rest, uuid, agent }, start);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
