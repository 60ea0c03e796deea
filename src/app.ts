import { readFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { KubeConfig } from '@kubernetes/client-node';
import type { Logger } from 'pino';
import packageJson from '../package.json' with { type: 'json' };
import { createAgents } from './agents/agents.ts';
import { nodeKeyName, readNodeKey } from './agents/node-key.ts';
import { GROUP } from './api/names.ts';
import type { Secret } from './api/resources.ts';
import type { Config } from './config.ts';
import { createIds } from './controllers/ids.ts';
import { runControllers } from './controllers/index.ts';
import { fleetFigures, liveness, nodeUuid } from './domain/index.ts';
import { addressOf } from './http/client-address.ts';
import { KINDS } from './kinds/index.ts';
import {
  createClient,
  createEventRecorder,
  createServiceAccount,
  type Log,
  type Metrics,
  NoServiceAccountError,
  startElection,
} from './kube/mod.ts';
import { createClusterDependencies } from './rest/adapters/dependencies.ts';
import { createProvisioningKeys } from './rest/adapters/secrets.ts';
import { createRestServer } from './rest/server.ts';
import { createEpochs } from './stores/epochs.ts';
import { readRevisionKey } from './stores/revision-key.ts';
import { allSynced, createIdLookup, createStores, followStores } from './stores/stores.ts';
import { createWorld } from './stores/world.ts';
import { createMetrics } from './telemetry/metrics.ts';
import { createOpsServer } from './telemetry/ops-server.ts';

/** A controller process: REST, agent routes, and the reconcilers while it leads. */
export interface App extends AsyncDisposable {
  /** Listens, and takes part in the election. */
  start(): Promise<void>;
  readonly addresses: { rest?: number; metrics?: number; internal?: number };
  readonly isLeading: boolean;
  /** Refuses new work, ends held polls, hands leadership over; waits for requests under way no longer than `graceMs`. */
  drain(graceMs: number): Promise<void>;
}

/** The composition root: the only file that sees everything. Each part is given only what it names. */
export async function createApp(config: Config, { log }: { log: Logger }): Promise<App> {
  await using building = new AsyncDisposableStack();
  const stop = new AbortController();
  building.defer(() => stop.abort());
  const kubeLog = log as unknown as Log;
  const metrics = createMetrics({ version: packageJson.version });
  const { namespace } = config;

  const client = building.use(connect(config, metrics));
  const stores = createStores({ namespace, log: kubeLog });
  const mirrors = followStores(stores, { client, log: kubeLog, metrics }, stop.signal);
  const world = createWorld(stores);
  const ids = createIds({
    client,
    namespace,
    withId: createIdLookup(stores, KINDS),
    log: kubeLog,
  });
  let restored: ((lost: string, now: string) => void) | undefined;
  /** What was read and counted before is about another datastore. */
  const startOver = () => {
    for (const mirror of mirrors) mirror.restart();
    ids.reset();
  };
  const epochs = createEpochs({
    client,
    namespace,
    stores,
    log: kubeLog,
    onRestored(lost, now) {
      startOver();
      restored?.(lost, now);
    },
  });
  const revisionKey = await readRevisionKey({ client, namespace }, stop.signal);
  const credentials = createServiceAccount({ client, audience: `${GROUP}/internal` });
  await credentials.token(AbortSignal.any([stop.signal, AbortSignal.timeout(5_000)])).catch((error: Error) => {
    // Otherwise it is asked for again when it is needed.
    if (error instanceof NoServiceAccountError)
      log.warn({ reason: error.message }, 'Replicas cannot know each other; run one only');
  });

  let leading: { isLeading: boolean; address: string | undefined } = { isLeading: false, address: undefined };
  const agents = building.use(
    createAgents({
      client,
      namespace,
      revisionKey,
      stores,
      provisioningKeys: createProvisioningKeys({ client, namespace, secrets: stores.secrets }),
      leadership: {
        get isLeading() {
          return leading.isLeading;
        },
        get leaderAddress() {
          return leading.address;
        },
      },
      credentials,
      epochs,
      ...(config.publicUrl && { publicUrl: config.publicUrl }),
      addressOf: (request) => addressOf(request, config.server.trustProxy),
      caCert: () => caCert(config),
      identity: config.identity,
      log: kubeLog,
      metrics,
    }),
  );

  const deps = createClusterDependencies({
    client,
    namespace,
    stores,
    ids,
    provisioning: (uuid) => provisioningOf(stores.secrets.get(namespace, nodeKeyName(uuid))),
    observations: { of: agents.live.of, listeningSince: () => listeningSince },
    self: { version: packageJson.version, caCert: () => caCert(config) },
    tokenAudience: config.tokenAudience ?? '',
    metrics: { access: metrics.access },
  });
  const rest = building.use(
    createRestServer({
      deps,
      trustProxy: config.server.trustProxy,
      log: kubeLog,
      ...(config.server.tls && {
        tls: {
          cert: readFileSync(config.server.tls.certFile, 'utf8'),
          key: readFileSync(config.server.tls.keyFile, 'utf8'),
        },
      }),
      metrics: {
        leftOut: metrics.leftOut,
        request: ({ method, route, status }, seconds) =>
          metrics.httpRequest({ method, route, code: String(status) }, seconds),
      },
    }),
  );
  rest.mountFirst((request, response) => agents.routes.handle(request, response));
  const ops = building.use(
    createOpsServer({
      registry: metrics.registry,
      ready: async () =>
        allSynced(stores)
          ? (await deps.readiness.check(AbortSignal.timeout(5_000)))?.message
          : 'the controller is still reading its state',
    }),
  );

  let listeningSince = Date.now();
  metrics.fleetFrom(() =>
    leading.isLeading
      ? fleetFigures({
          nodes: stores.nodes.list(),
          applications: stores.applications.list(),
          observation: (uuid) => agents.observations.get(uuid),
          now: Date.now(),
          listeningSince,
        })
      : undefined,
  );

  async function lead(signal: AbortSignal): Promise<void> {
    const fenced = client.fenced(() => leading.isLeading);
    listeningSince = Date.now();
    await using events = createEventRecorder({
      client: fenced,
      controller: `${GROUP}/controller`,
      instance: config.identity,
      log: kubeLog,
      metrics,
    });
    const self = leaseOf(namespace);
    restored = (lost, now) =>
      events.record(self, {
        type: 'Warning',
        reason: 'DatastoreRestored',
        note: `the datastore was restored from a backup, or is another one: it lacks what was sent up to position ${lost}, and goes on at ${now}. Nodes retain what it lacks; their condition DatastoreRestored says what, and how to accept the datastore`,
        action: 'Restore',
        about: 'DatastoreRestored',
      });
    const counting = epochs.lead(fenced, signal);
    await runControllers(
      {
        namespace,
        client: fenced,
        stores,
        kinds: KINDS,
        world,
        observations: agents.observations,
        desired: (node) => agents.routes.desired(nodeUuid(node)),
        provisioned: (uuid) => provisioningOf(stores.secrets.get(namespace, nodeKeyName(uuid))),
        liveness: (node) => liveness(node, agents.observations.get(nodeUuid(node)), Date.now(), listeningSince),
        listeningSince,
        ids,
        events,
        self,
        log: kubeLog,
        metrics,
        clock: Date.now,
      },
      signal,
    );
    restored = undefined;
    await counting;
  }

  const addresses: App['addresses'] = {};
  const running = building.move();
  return {
    addresses,
    get isLeading() {
      return leading.isLeading;
    },
    async start() {
      const internal = (await agents.channel.listen({ port: config.internal.port, host: config.server.host })).port;
      addresses.internal = internal;
      addresses.metrics = (await ops.listen({ port: config.metricsPort, host: config.server.host })).port;
      const election = startElection(
        {
          client,
          namespace,
          name: LEASE,
          identity: config.identity,
          data: { internal: withPort(config.internal.address ?? ownAddress(), internal) },
          dataAnnotation: `${GROUP}/leader`,
          onStartedLeading: lead,
          onWentBack() {
            startOver();
            epochs.invalidate();
          },
          log: kubeLog,
          metrics,
        },
        stop.signal,
      );
      running.use(election);
      void agents.run(stop.signal);
      leading = {
        get isLeading() {
          return election.isLeading;
        },
        get address() {
          return election.holder?.data.internal;
        },
      };
      addresses.rest = (await rest.listen({ port: config.server.port, host: config.server.host })).port;
    },
    async drain(graceMs) {
      await agents.routes.drain(Math.min(graceMs, 5_000));
      await rest.drain(graceMs);
    },
    [Symbol.asyncDispose]() {
      stop.abort();
      return running.disposeAsync();
    },
  };
}

/** The way to the API server; credentials are read anew, since they rotate. */
export const connect = (config: Config, metrics?: Metrics) =>
  createClient({
    config: () => loadKubeConfig(config),
    userAgent: `skerry/${packageJson.version}`,
    ...(metrics && { metrics }),
  });

/** Read anew at every call: credentials rotate. */
function loadKubeConfig(config: Config): KubeConfig {
  const kubeConfig = new KubeConfig();
  if (config.kubeconfigFile) kubeConfig.loadFromFile(config.kubeconfigFile);
  else kubeConfig.loadFromDefault();
  return kubeConfig;
}

const LEASE = 'skerry-controller';

/** Events about the controller itself are recorded on its lease: the one object that is always there. */
const leaseOf = (namespace: string) => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: LEASE, namespace },
});

const provisioningOf = (secret: Secret | undefined) => secret && readNodeKey(secret);

/** Base64 PEM of the CA that agents are to trust; empty without one of our own. */
function caCert(config: Config): string {
  const file = config.server.tls?.caFile;
  return file ? readFileSync(file).toString('base64') : '';
}

const withPort = (address: string, port: number) => (/:\d+$/.test(address) ? address : `${address}:${port}`);

/** An address of this machine that its peers may reach; pods are told theirs. */
function ownAddress(): string {
  const outside = Object.values(networkInterfaces())
    .flat()
    .find((one) => one && !one.internal && one.family === 'IPv4');
  return outside?.address ?? hostname();
}
