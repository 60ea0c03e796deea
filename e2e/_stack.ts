import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject } from 'vitest';
import { stringify } from 'yaml';
import { listens } from '../agent/src/_listens.ts';
import { firstEngine, outsideOf, type SeenContainer, type TestEngine } from '../agent/src/engines/_outside.ts';
import { callEngine } from '../hack/engine-api.ts';
import { pushImage } from '../hack/image.ts';
import { type Kube, KubeError, kubeFromFile, withToken } from '../hack/kube.ts';
import { freePort } from '../hack/ports.ts';
import { type Daemon, startDaemon } from '../hack/process.ts';
import { sampleImage } from '../hack/sample.ts';
import { type WaitOptions, waitFor } from '../hack/wait.ts';
import { API_VERSION } from '../src/api/names.ts';
import type { Application, EdgeNode } from '../src/api/v3/index.ts';
import { routes } from '../src/assembly/routes.ts';
import { controllerRoles, namespaceManifests, peopleRoles } from '../src/manifests/roles.ts';
import { type Answer, createTestClient } from '../src/rest/_client.ts';
import { formatJoinString } from '../src/wire/node-token.ts';
import { atEnd } from '../testing/at-end.ts';
import { manifest } from '../testing/manifest.ts';

/**
 * The parts that a user has: the API server, a container engine and a registry of the test run, and controller and agent
 * as processes of their own, in a namespace that no other test uses.
 */
export interface Stack extends AsyncDisposable {
  namespace: string;
  /** of the controller's ServiceAccount */
  controllerKubeconfig: string;
  kube: Kube;
  /** of an admin, for REST */
  token: string;
  /** A token of a ServiceAccount with one of the roles of users, or without a role; each account is another caller. */
  tokenOf(role: string, account?: string): Promise<string>;
  /** an image of the sample server in the registry; each tag is another image */
  image(tag: string, env?: Record<string, string>): Promise<string>;
  startController(options?: ControllerOptions): Promise<ControllerProcess>;
  /** Creates an EdgeNode and starts an agent that is provisioned for it. */
  startAgent(node: string, controller: ControllerProcess, options?: AgentOptions): Promise<AgentProcess>;
  /** A provisioning key of a node. */
  provisioningKey(node: string, controller: ControllerProcess): Promise<string>;
  apply(object: { kind: string; metadata: { name: string } } & Record<string, unknown>): Promise<void>;
  application(name: string): Promise<Application | undefined>;
  node(name: string): Promise<EdgeNode | undefined>;
  remove(plural: string, name: string): Promise<void>;
  annotate(plural: string, name: string, annotations: Record<string, string | null>): Promise<void>;
  rest(controller: ControllerProcess): Rest;
  containers(): Promise<SeenContainer[]>;
  inspect(container: string): Promise<{ State: { StartedAt: string }; RestartCount: number }>;
  /** Provisions an agent for a node. */
  provision(
    agent: Pick<AgentProcess, 'cli'>,
    node: string,
    controller: ControllerProcess,
  ): ReturnType<AgentProcess['cli']>;
  /** Creates namespace, roles and credentials again, for a cluster that lost them. */
  install(): Promise<void>;
}

interface ControllerOptions {
  env?: Record<string, string>;
  /** the controller's bundle, instead of that of the sources */
  bundle?: string;
  /** ready means that agents are served: `/status` may say that people cannot log in */
  isForAgents?: true;
  /** called with the process as soon as it is started, before it is ready */
  onStart?: (daemon: Daemon) => void;
}

interface AgentOptions {
  /** prefix of the command, such as `ip netns exec <name>` */
  within?: readonly string[];
  /** URL of the controller for the agent */
  url?: string;
  /** SHA-256 of the controller's authority, which the join string then has */
  caDigest?: string;
  /** the command line of the agent's program, instead of its bundle */
  program?: readonly string[];
  /** the agent's bundle, instead of that of the sources */
  bundle?: string;
  /** further lines of its configuration file */
  settings?: Record<string, unknown>;
}

export interface ControllerProcess {
  url: string;
  metricsUrl: string;
  internalUrl: string;
  pid: number;
  logFile: string;
  stop(): Promise<void>;
  kill(): Promise<void>;
}

export interface AgentProcess {
  dir: string;
  /** of the current process */
  readonly pid: number;
  readonly logFile: string;
  /** loopback port of the local API */
  port: number;
  stop(): Promise<void>;
  kill(): Promise<void>;
  /** Starts it again, with another bundle if one is given. */
  start(bundle?: string): Promise<void>;
  cli(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }>;
}

/**
 * Calls the REST API as an admin; text as body is uploaded as a YAML file. Every response is checked against the OpenAPI
 * document.
 */
export type Rest = (method: string, path: string, body?: unknown) => Promise<Answer>;

/** The name of the form's part: `application` for `/application/yaml`. */
const partOf = (route: string) => (route.startsWith('/microservices') ? 'microservice' : 'application');

/** Starts a stack; at the top of a file, or in a test, it ends with that. In a `beforeAll` its caller ends it. */
export async function createStack(options: { kubeconfig?: string } = {}): Promise<Stack> {
  const kubeconfig = options.kubeconfig ?? inject('kubeconfig');
  const engine = firstEngine();
  const outside = outsideOf(engine);
  const engineUrl = engine.url;
  const registryUrl = inject('registryUrl');
  const programs = inject('programs');
  const namespace = `e2e-${randomUUID().slice(0, 8)}`;
  const dir = await mkdtemp(join(tmpdir(), 'skerry-e2e-'));
  const kube = await kubeFromFile(kubeconfig);
  const started = new AsyncDisposableStack();
  atEnd(() => started.disposeAsync());
  if (!process.env.SKERRY_KEEP) started.defer(() => rm(dir, { recursive: true, force: true }));
  started.defer(() => kube.close());
  const tokenFor = async (account: string, audience?: string) => {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
    const reply = await kube.request<{ status: { token: string } }>('POST', path, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { ...(audience && { audiences: [audience] }), expirationSeconds: 7200 },
    });
    return reply.status.token;
  };
  const controllerKubeconfig = join(dir, 'controller.kubeconfig');
  let restToken = '';
  async function install() {
    for (const manifest of [...namespaceManifests(namespace), ...controllerRoles(namespace), ...peopleRoles(namespace)])
      await kube.apply(manifest as never);
    await kube.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'tester', namespace } });
    await kube.apply({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: 'tester', namespace },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'skerry-admin' },
      subjects: [{ kind: 'ServiceAccount', name: 'tester', namespace }],
    });
    const token = await tokenFor('skerry-controller');
    writeFileSync(controllerKubeconfig, withToken(readFileSync(kubeconfig, 'utf8'), token));
    restToken = await tokenFor('tester', 'skerry');
  }
  await install();
  const path = (plural: string, name = '') =>
    `/apis/${API_VERSION}/namespaces/${namespace}/${plural}${name && `/${name}`}`;
  let count = 0;

  async function startController(options: ControllerOptions = {}): Promise<ControllerProcess> {
    const rest = Number(options.env?.SERVER_PORT ?? (await freePort()));
    const [metrics, internal] = [await freePort(), await freePort()];
    const daemon = await startDaemon({
      name: `controller-${++count}`,
      command: process.execPath,
      args: [options.bundle ?? programs.controller],
      dir,
      env: {
        ...process.env,
        KUBECONFIG: controllerKubeconfig,
        CONTROLLER_NAMESPACE: namespace,
        SERVER_HOST: '127.0.0.1',
        SERVER_PORT: String(rest),
        METRICS_PORT: String(metrics),
        INTERNAL_PORT: String(internal),
        SKERRY_INTERNAL_ADDRESS: `127.0.0.1:${internal}`,
        LOG_LEVEL: 'debug',
        ...options.env,
      },
    });
    started.defer(() => daemon.stop(5_000));
    options.onStart?.(daemon);
    const url = `http://127.0.0.1:${rest}`;
    // With TLS only its certificate says whether a client may trust it.
    const hasTls = options.env?.TLS_PATH_CERT ?? options.env?.SKERRY_TLS_HOSTS;
    const probe = hasTls || options.isForAgents ? `http://127.0.0.1:${metrics}/readyz` : `${url}/api/v3/status`;
    await until('the controller to be ready', () => isReady(probe, daemon), { timeoutMs: 60_000 });
    return {
      url,
      metricsUrl: `http://127.0.0.1:${metrics}`,
      internalUrl: `http://127.0.0.1:${internal}`,
      pid: daemon.pid,
      logFile: daemon.logFile,
      stop: () => daemon.stop(20_000),
      kill: () => killed(daemon),
    };
  }

  async function startAgent(
    name: string,
    controller: ControllerProcess,
    { within = [], url = controller.url, caDigest, settings = {}, ...programOptions }: AgentOptions = {},
  ): Promise<AgentProcess> {
    const home = join(dir, `agent-${++count}`);
    mkdirSync(home);
    const config = join(home, 'config.yaml');
    const port = await freePort();
    writeFileSync(config, stringify({ ...agentConfig(home, engine, port), ...settings }));
    let daemon: Daemon | undefined;
    let { bundle = programs.agent } = programOptions;
    const start = async (next = bundle) => {
      bundle = next;
      const program = programOptions.program ?? [process.execPath, bundle];
      const [command = '', ...args] = [...within, ...program];
      daemon = await startDaemon({
        name: `agent-${name}-${randomUUID().slice(0, 4)}`,
        command,
        args: [...args, 'start', '--config', config],
        dir,
      });
      await until(
        'the agent to answer',
        async () => (await listens(join(home, 'data', 'run', 'api.sock'))) && (await cli('status')).code === 0,
      );
    };
    const cli = (...args: string[]) => run([bundle, ...args, '--config', config]);
    started.defer(async () => void (await daemon?.stop(10_000)));
    await stack.apply(manifest('EdgeNode', { name }, { watchdogEnabled: false, statusFrequency: 5 }));
    await start();
    const key = await provisioningKey(name, controller);
    const provisioned = await cli('provision', formatJoinString({ controllerUrl: url, key, caDigest }));
    expect(provisioned, provisioned.stderr).toMatchObject({ code: 0 });
    return {
      dir: home,
      port,
      get pid() {
        return daemon?.pid ?? 0;
      },
      get logFile() {
        return daemon?.logFile ?? '';
      },
      start,
      cli,
      stop: async () => daemon?.stop(20_000),
      kill: async () => daemon && killed(daemon),
    };
  }

  async function provisioningKey(name: string, controller: ControllerProcess): Promise<string> {
    const uuid = await until('the node to have an identity', async () => (await stack.node(name))?.status?.uuid);
    const { status, body } = await stack.rest(controller)('GET', `/node/${uuid}/provisioning-key`);
    expect(status, JSON.stringify(body)).toBe(201);
    return body.key;
  }

  const stack: Stack = {
    install,
    controllerKubeconfig,
    async provision({ cli }, name, controller) {
      const key = await provisioningKey(name, controller);
      return cli('provision', formatJoinString({ controllerUrl: controller.url, key }));
    },
    namespace,
    kube,
    token: restToken,
    async tokenOf(role, name = `some-${role}`) {
      const subjects = [{ kind: 'ServiceAccount', name, namespace }];
      const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: `skerry-${role}` };
      await kube.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } });
      await kube.apply({
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name, namespace },
        roleRef,
        subjects,
      });
      return tokenFor(name, 'skerry');
    },
    startController,
    startAgent,
    provisioningKey,
    image: async (tag, env = {}) => {
      const repository = `${namespace}/sample`;
      await pushImage(registryUrl, repository, tag, await sampleImage({ env: { VERSION: tag, ...env } } as never));
      return `${new URL(registryUrl).host}/${repository}:${tag}`;
    },
    async apply(object) {
      await kube.apply({ ...object, metadata: { ...object.metadata, namespace } } as never);
    },
    application: (name) => kube.get<Application>(path('applications', name)),
    node: (name) => kube.get<EdgeNode>(path('edgenodes', name)),
    async remove(plural, name) {
      await kube.request('DELETE', path(plural, name)).catch((error: unknown) => {
        if (!(error instanceof KubeError && error.status === 404)) throw error;
      });
    },
    async annotate(plural, name, annotations) {
      await kube.request('PATCH', path(plural, name), { metadata: { annotations } }, 'application/merge-patch+json');
    },
    rest: (controller) => {
      const client = createTestClient(controller.url, routes, restToken);
      return (method, route, body) =>
        client.request(
          method,
          route,
          typeof body === 'string' ? { form: { part: partOf(route), text: body } } : { json: body },
        );
    },
    inspect: (container) => callEngine(engineUrl, 'GET', `/containers/${container}/json`),
    containers: () => outside.all(),
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
  return stack;
}

/** An Application of one microservice `web`: the sample server of `image` at a port of the node. */
export const webApplication = (name: string, node: string, image: string, port: number) => ({
  apiVersion: API_VERSION,
  kind: 'Application',
  metadata: { name },
  spec: {
    microservices: [
      {
        name: 'web',
        agent: { name: node },
        images: { amd64: image, arm64: image },
        container: { ports: [{ internal: 8080, external: port }] },
      },
    ],
  },
});

/** The condition Ready, which `kubectl get` shows. */
export const readyOf = (
  object:
    | {
        status?: {
          conditions?: { type: string; status: string; reason: string; message: string; observedGeneration?: number }[];
        };
      }
    | undefined,
) => object?.status?.conditions?.find((condition) => condition.type === 'Ready');

export async function untilReady(
  stack: Pick<Stack, 'application'>,
  name: string,
  timeoutMs = 60_000,
): Promise<Application> {
  return until(
    `application ${name} to be ready`,
    async () => {
      const application = await stack.application(name);
      const ready = readyOf(application);
      return ready?.status === 'True' && ready.observedGeneration === application?.metadata.generation
        ? application
        : undefined;
    },
    { timeoutMs },
  );
}

export async function untilReason(
  stack: Stack,
  name: string,
  reason: string,
  timeoutMs = 60_000,
): Promise<Application> {
  return until(
    `application ${name} to say ${reason}`,
    async () => {
      const application = await stack.application(name);
      return readyOf(application)?.reason === reason ? application : undefined;
    },
    { timeoutMs },
  );
}

export const get = async (url: string): Promise<string | undefined> => {
  try {
    return await (await fetch(url, { signal: AbortSignal.timeout(2_000) })).text();
  } catch {
    return undefined;
  }
};

/** Waits until `check` returns a value, and returns it. */
export const until = <T>(
  what: string,
  check: () => Promise<T | undefined | false>,
  options: Omit<WaitOptions, 'what'> = {},
): Promise<T> => waitFor(check, { what, timeoutMs: 60_000, ...options });

async function isReady(url: string, daemon: Daemon): Promise<true | undefined> {
  daemon.assertRunning();
  try {
    return (await fetch(url)).ok ? true : undefined;
  } catch {
    return undefined;
  }
}

async function killed(daemon: Daemon): Promise<void> {
  daemon.signal('SIGKILL');
  await daemon.exited;
}

const agentConfig = (home: string, { kind, url }: TestEngine, port: number) => ({
  containerEngine: kind,
  containerEngineUrl: url,
  diskDirectory: join(home, 'data'),
  logDirectory: join(home, 'log'),
  localApiPort: port,
});

function run(args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return import('node:child_process').then(
    ({ execFile }) =>
      new Promise((resolve) => {
        execFile(process.execPath, args, { timeout: 60_000, encoding: 'utf8' }, (error, stdout, stderr) =>
          resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr }),
        );
      }),
  );
}
