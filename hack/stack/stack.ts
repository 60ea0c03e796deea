import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DEFAULT_NAMESPACE, PORTS } from '../../src/api/names.ts';
import { serviceRoles } from '../../src/manifests/roles.ts';
import { busServerImage } from '../bus-image.ts';
import { installCrds } from '../control-plane.ts';
import { type Kube, type KubeObject, kubeFromFile, readObjects } from '../kube.ts';
import { tryLock } from '../lock.ts';
import { ROOT } from '../paths.ts';
import { isFree, portOwner } from '../ports.ts';
import { stopLeftovers, writePidFile } from '../process.ts';
import type { Log } from '../progress.ts';
import { routerImage } from '../router-image.ts';
import { createSupervisor } from '../supervisor.ts';
import { loginSettings } from './admin.ts';
import {
  agentConfigFile,
  endContainers,
  moveAgent,
  NODE,
  nodeUuid,
  provisionAgent,
  startAgent,
  waitForAgent,
} from './agent.ts';
import { startBusHub } from './bus-hub.ts';
import { writeCommands } from './commands.ts';
import { adminAccount, keepAdminToken, startController } from './controller.ts';
import {
  chooseRegistryPort,
  chooseStackPorts,
  partFolders,
  readJson,
  STACK_PROCESS,
  type StackFile,
  type StackState,
  writeAtomically,
} from './files.ts';
import { startFoundations } from './foundations.ts';
import { type LocalProvider, startLocalProvider } from './provider.ts';
import { alreadyRuns } from './refusal.ts';
import { startLocalRouter } from './router-hub.ts';
import { applySample, samplePort, waitForSample } from './sample.ts';
import { TLS_SETTINGS, trustController, trustIssuer } from './tls.ts';

export interface StackOptions {
  /** Data folder. */
  dir: string;
  /** Port of REST. */
  port?: number;
  /** Whether to run the sample application. */
  sample?: boolean;
  /** Whether REST is HTTPS, and kubectl is served by a login at the controller. */
  tls?: boolean;
  /** Whether Dex has the people, whose logins serve kubectl as well. */
  hasDex?: boolean;
  log: Log;
  /** Aborts the start; what was started is stopped again. */
  signal?: AbortSignal;
}

/** The whole of Skerry on this machine. */
export interface Stack extends AsyncDisposable {
  /** The content of stack.json. */
  readonly urls: StackFile;
  readonly kubeconfig: string;
  /** Path of the file that a shell sources for addresses and commands. */
  readonly env: string;
  readonly kube: Kube;
  /** The response of the sample, once it responds and is Ready; undefined without the sample. */
  readonly sampleAnswer?: string;
  /** Rejects when a part of the stack ends by itself too often. */
  readonly broken: Promise<never>;
}

/** Why the stack was not started at all. */
export class StackRefused extends Error {}

/**
 * Starts control plane, registry, container engine, controller, an agent for this machine and the sample, and returns
 * when all of them work. Leftover processes of an earlier run are ended first; its data is used again. Everything,
 * containers included, stops when the result is disposed of, and when this process dies.
 */
export async function startStack({
  dir,
  port = PORTS.rest,
  sample = true,
  tls = false,
  hasDex = false,
  log,
  signal,
}: StackOptions): Promise<Stack> {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  await using started = new AsyncDisposableStack();
  const supervisor = createSupervisor({ log });
  const { again, broken } = supervisor;
  const lock = tryLock(join(dir, 'lock'));
  if (!lock) throw new StackRefused(alreadyRuns(dir));
  started.use(lock);
  for (const folder of partFolders(dir)) {
    const leftovers = await stopLeftovers(folder);
    if (leftovers.length > 0) log(`Ended what an earlier run left: ${leftovers.join(', ')}`);
  }
  started.defer(writePidFile(dir, STACK_PROCESS, process.pid));
  rmSync(join(dir, 'logs'), { recursive: true, force: true });
  await assertFree(port, 'Stop it, or choose another port with SKERRY_PORT.');
  const stateFile = join(dir, 'state.json');
  // Checked now, since later a container of the stack may use the port.
  if (sample && !existsSync(stateFile)) await assertFree(samplePort(), 'Stop it, or go without the sample: SAMPLE=0.');

  const registryPort = await chooseRegistryPort(dir);
  const rest = `${tls ? 'https' : 'http'}://127.0.0.1:${port}`;
  const provider = hasDex ? started.use(await startLocalProvider({ dir, rest, log })) : undefined;
  const trustsLogins = tls || provider !== undefined;
  const foundations = await startFoundations(started, {
    ...{ dir, trustsLogins, registryPort, sample, log, again, signal },
  });
  const { kubeconfig, kubectl, apiServer, engine, registry, image } = foundations;
  const kube = await kubeFromFile(kubeconfig);
  started.defer(() => kube.close());
  await installCrds(kubeconfig);
  const hasRouters = process.env.ROUTERS_ENABLED === 'true';
  const more = hasRouters ? (serviceRoles(DEFAULT_NAMESPACE) as unknown as KubeObject[]) : [];
  await applyAll(kube, [...readObjects(join(ROOT, 'manifests/install.yaml')), ...adminAccount(), ...more]);
  log('Definitions, roles and policies are installed');

  const ports = { rest: port, ...(await chooseStackPorts(dir, registryPort)) };
  const isBusEnabled = process.env.BUS_ENABLED === 'true';
  const settings = {
    ...loginSettings(dir, rest),
    ...provider?.settings,
    ...(tls && TLS_SETTINGS),
    ...(isBusEnabled && systemImage('BUS', await foundations.provide('bus', await busServerImage()))),
    ...(hasRouters && systemImage('ROUTER', await foundations.provide('router', await routerImage()))),
  };
  const controller = await startController({ dir, kube, kubeconfig, ports, settings, again, signal });
  started.defer(() => controller.stop());
  const tokenFile = join(dir, 'token');
  started.use(await keepAdminToken(kube, tokenFile));
  const ca = tls ? await trustController(kube, { dir, signal }) : undefined;
  // A cluster of others has settings of its own.
  if (apiServer !== undefined && trustsLogins) await trustIssuer(dir, apiServer, issuerOf(rest, ca, provider));
  log(`The controller is ready at ${rest}`);
  if (isBusEnabled) {
    const hub = await startBusHub({ dir, kube, log, again, signal });
    started.defer(() => hub.stop());
  }
  if (hasRouters) {
    const router = await startLocalRouter({ dir, kube, log, again, signal });
    started.defer(() => router.stop());
  }

  const dockerHost = engine.private && engine.kind === 'docker' ? engine.url : undefined;
  const agentConfig = agentConfigFile(dir);
  const env = writeCommands({ dir, rest, ca, registry, dockerHost, kubeconfig, tokenFile, agentConfig, kubectl });

  for (const object of readObjects(join(ROOT, 'manifests/local-node.yaml'))) await kube.apply(object);
  const uuid = await nodeUuid(kube, { controller, signal });
  const agentStart = Date.now();
  const agent = await startAgent({ dir, engine, port: ports.agent, ca, again });
  if (!engine.private) started.defer(() => endContainers(engine.url, uuid, 'stop').catch(() => {}));
  started.defer(() => agent.stop(30_000));
  const parts = { dir, rest: { url: rest, tokenFile }, uuid, agent, signal };
  const last = readJson<StackState>(stateFile);
  if (last?.node !== uuid) await provisionAgent(parts);
  else if (last.rest !== rest) await moveAgent(parts);
  const state: StackState = { node: uuid, rest, ...(!engine.private && { engine: engine.url }) };
  writeAtomically(stateFile, JSON.stringify(state));
  await waitForAgent(parts, agentStart);
  log(`The agent of the node "${NODE}" is connected`);

  const application = image ? await applySample(kube, image) : undefined;
  const assertAlive = () => {
    controller.assertRunning();
    agent.assertRunning();
  };
  const sampleAnswer = application && (await waitForSample(kube, application, assertAlive, signal));
  if (application) log(`The sample answers at ${application.url}`);

  const urls: StackFile = {
    rest,
    ...(ca && { ca }),
    ...(provider && { provider: provider.issuer }),
    apiserver: kube.server,
    agent: `http://127.0.0.1:${ports.agent}`,
    registry,
    ...(application && { sample: application.url }),
    metrics: `http://127.0.0.1:${ports.metrics}/metrics`,
    node: NODE,
    engine: { kind: engine.kind, url: engine.url },
  };
  writeAtomically(join(dir, 'stack.json'), `${JSON.stringify(urls, undefined, 2)}\n`);
  started.defer(() => rmSync(join(dir, 'stack.json'), { force: true }));

  supervisor.begin();
  const later = foundations.later();
  if (later) started.use(later);
  const owned = started.move();
  return { urls, kubeconfig, env, kube, sampleAnswer, broken, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Whose logins the API server accepts, as `kubectl skerry authentication-config` has it. */
const issuerOf = (rest: string, ca: string | undefined, provider: LocalProvider | undefined): string[] =>
  provider
    ? [provider.issuer, '--external', '--client', provider.clientId, '--ca', provider.caFile]
    : [`${rest}/oidc`, ...(ca === undefined ? [] : ['--ca', ca])];

/** Settings by which nodes use an image; the environment of the stack comes first. */
const systemImage = (item: 'BUS' | 'ROUTER', reference: string) => ({
  [`${item}_IMAGE_1`]: reference,
  [`${item}_IMAGE_2`]: reference,
});

async function assertFree(port: number, advice: string): Promise<void> {
  if (!(await isFree(port))) throw new StackRefused(`Port ${port} is taken by ${portOwner(port)}. ${advice}`);
}

/** Applies objects in parallel, namespaces before their objects. */
async function applyAll(kube: Kube, objects: readonly KubeObject[]): Promise<void> {
  const isNamespace = ({ kind }: KubeObject) => kind === 'Namespace';
  await Promise.all(objects.filter(isNamespace).map((object) => kube.apply(object)));
  await Promise.all(objects.filter((object) => !isNamespace(object)).map((object) => kube.apply(object)));
}
