import { randomUUID } from 'node:crypto';
import { KubeConfig } from '@kubernetes/client-node';
import { expect, inject } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import { atEnd } from '../../testing/at-end.ts';
import { controllerDependencies } from '../../testing/controller-dependencies.ts';
import { testConfig } from '../../testing/test-config.ts';
import { type App, createApp } from '../app.ts';
import { createRest } from '../assembly/rest.ts';
import { createRoutes } from '../assembly/routes.ts';
import type { Config } from '../config.ts';
import type { ControllerDependencies } from '../controllers/dependencies.ts';
import { createAuditLog } from '../datastore/audit-log.ts';
import { createSegments } from '../datastore/audit-segments.ts';
import { createIds } from '../datastore/ids.ts';
import { createLookups, type StoreLookups } from '../datastore/lookups.ts';
import { createIdLookup, createStores, followStores, type Stores } from '../datastore/stores.ts';
import { type Controller, createClient, type KubeClient, type KubeObject, type Resource } from '../kube/mod.ts';
import type { Observation } from '../rules/inputs.ts';
import { KINDS, type Kinds } from '../subjects/kinds.ts';
import { createLog } from '../telemetry/log.ts';
import { createRenderer } from '../templates/renderer.ts';
import { createTestClient, type TestClient } from './_client.ts';
import { type RoleName, roles } from './access/roles.ts';
import { createClusterDependencies } from './adapters/dependencies.ts';
import { flushOnChange } from './adapters/flush.ts';
import type { RestDependencies } from './contract/dependencies.ts';

const NAMESPACES: Resource = { group: '', version: 'v1', plural: 'namespaces', kind: 'Namespace', namespaced: false };
const ACCOUNTS: Resource = {
  group: '',
  version: 'v1',
  plural: 'serviceaccounts',
  kind: 'ServiceAccount',
  namespaced: true,
};
const RBAC = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: true } as const;
const ROLES: Resource = { ...RBAC, plural: 'roles', kind: 'Role' };
const BINDINGS: Resource = { ...RBAC, plural: 'rolebindings', kind: 'RoleBinding' };

/** Of every replica, as in an installation: names of one content by two keys would count as two contents. */
export const REVISION_KEY = 'key';

/** One replica of the REST API over a real API server. */
interface Replica {
  client: TestClient;
  origin: string;
  deps: RestDependencies;
  stores: Stores;
  lookups: StoreLookups;
  observed: Map<string, Observation>;
}

/** A whole controller. The client of its REST API has no token. */
export interface RunningController {
  app: App;
  url: string;
  client: TestClient;
}

/** A new namespace with the roles of users, and tokens of ServiceAccounts with these roles. */
export interface TestCluster {
  kube: KubeClient;
  namespace: string;
  /** A token of a ServiceAccount with a role, or without any role for `nobody`. */
  token(role: RoleName | 'nobody', options?: { audience?: string }): Promise<string>;
  /** `follows: false`: its stores no longer change once they are complete, as if every watch event were late. */
  startReplica(options?: { follows?: boolean; overrides?: Partial<RestDependencies> }): Promise<Replica>;
  startController(env?: Record<string, string>, config?: Partial<Config>): Promise<RunningController>;
  /** Runs reconcilers over the stores of a replica, without an election. */
  reconcile(replica: Replica, make: (deps: ControllerDependencies) => readonly Controller[]): void;
}

/** Starts a test cluster, which ends with the present test or with the file. */
export async function startTestCluster({ kinds = KINDS }: { kinds?: Kinds } = {}): Promise<TestCluster> {
  const kubeconfig = inject('kubeconfig');
  const cleanup = new AsyncDisposableStack();
  atEnd(() => cleanup.disposeAsync());
  const config = () => {
    const kubeConfig = new KubeConfig();
    kubeConfig.loadFromFile(kubeconfig);
    return kubeConfig;
  };
  const kube = cleanup.use(createClient({ config }));
  const namespace = `rest-${randomUUID().slice(0, 8)}`;
  await kube.create(NAMESPACES, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  for (const manifest of roles({ namespace, kinds })) {
    if (manifest.kind === 'Role') await kube.create(ROLES, manifest as KubeObject);
    else {
      const role = manifest.metadata.name.replace(/^skerry-/, '') as RoleName;
      const account = { kind: 'ServiceAccount', name: role, namespace };
      const subjects = [...(manifest.subjects ?? []), account];
      await kube.create(BINDINGS, { ...manifest, subjects } as KubeObject);
    }
  }

  const accounts = new Set<string>();
  return {
    kube,
    namespace,
    async token(role, { audience = 'skerry' } = {}) {
      if (!accounts.has(role)) {
        await kube.create(ACCOUNTS, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: role, namespace } });
        accounts.add(role);
      }
      const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${role}/token`;
      const body = {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { audiences: audience === '' ? [] : [audience] },
      };
      const { status } = await kube.request<{ status: { token: string } }>('POST', path, body);
      return status.token;
    },
    async startReplica({ follows = true, overrides = {} } = {}) {
      const client = cleanup.use(createClient({ config }));
      const stop = new AbortController();
      const stores = createStores({ namespace, kinds });
      const reflectors = followStores(stores, { client }, stop.signal);
      cleanup.defer(async () => {
        stop.abort();
        for (const reflector of reflectors) await reflector[Symbol.asyncDispose]();
      });
      await Promise.all(Object.values(stores).map((store) => store.whenSynced(AbortSignal.timeout(30_000))));
      if (!follows) stop.abort();
      const lookups = createLookups(stores, { revisionKey: REVISION_KEY });
      const observed = new Map<string, Observation>();
      const deps: RestDependencies = {
        ...createClusterDependencies({
          templates: createRenderer(),
          client,
          namespace,
          stores,
          kinds,
          ids: createIds({
            client,
            namespace,
            withId: createIdLookup(stores, kinds),
          }),
          provisioning: () => undefined,
          observations: { of: async () => observed, listeningSince: () => 0 },
          lookups,
          audit: cleanup.use(createAuditLog({ segments: createSegments({ client, namespace }) })),
          self: { version: '0.0.0-test', caCert: () => 'Q0E=', controlPlane: 'kubernetes' },
        }),
        ...overrides,
      };
      cleanup.use(flushOnChange(stores, deps.authorizer));
      const server = cleanup.use(createRest({ deps }));
      const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
      const origin = `http://127.0.0.1:${port}`;
      return { client: createTestClient(origin, createRoutes(kinds)), origin, deps, stores, lookups, observed };
    },
    async startController(env, config) {
      const app = await createApp(
        { ...testConfig(kubeconfig, namespace, env), ...config },
        { log: createLog({ level: 'silent', name: 'test' }), kinds },
      );
      cleanup.use(app);
      await app.start();
      const url = `http://127.0.0.1:${app.addresses.rest}`;
      return { app, url, client: createTestClient(url, createRoutes(kinds)) };
    },
    reconcile({ stores, lookups }, make) {
      const loops = make({ ...controllerDependencies(kube, namespace, stores, kinds), lookups });
      const stop = new AbortController();
      const running = Promise.all(loops.map((loop) => loop.run(stop.signal)));
      cleanup.defer(async () => {
        stop.abort();
        await running;
      });
    },
  };
}

/** What becomes true within the time that reconcilers of a slow machine need. */
export const poll = <T>(look: () => Promise<T>) => expect.poll(look, { timeout: 20_000, interval: 50 });

/** Waits, since ages are distinguished by the second. */
export async function nextSecond(than: { metadata: { creationTimestamp?: string } } | undefined) {
  const at = Date.parse(than?.metadata.creationTimestamp ?? '');
  await poll(async () => Date.now() >= at + 1_000).toBe(true);
}
