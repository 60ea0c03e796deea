import { createHash, randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { ObservationDelta } from '../src/agents/channel/dependencies.ts';
import { nodeKeySecret } from '../src/agents/channel/node-key.ts';
import {
  API_VERSION,
  BUDGET_POLICY_NAME,
  LABELS,
  SETTINGS_POLICY_NAME,
  SYSTEM_NAMES_NAME,
  type SystemImages,
} from '../src/api/names.ts';
import type { ConfigMap, Secret } from '../src/api/resources.ts';
import type { Application, EdgeNode, Registry } from '../src/api/v3/index.ts';
import { type AppOverrides, createApp } from '../src/app.ts';
import { EPOCH_LOG } from '../src/datastore/epochs.ts';
import { createStores, type Stores } from '../src/datastore/stores.ts';
import type { Kind } from '../src/kinds/definition.ts';
import type { EventInput, KubeObject } from '../src/kube/mod.ts';
import type { MutableStore, Store } from '../src/kube/store.ts';
import { silentLog } from '../src/lib/log.ts';
import { createRuleAuthorizer, createTokenTable } from '../src/rest/_rules.ts';
import { ROLE_NAMES, rulesOf } from '../src/rest/access/roles.ts';
import { nodeUuid } from '../src/rules/identity.ts';
import { CORE_KINDS } from '../src/subjects/content/kinds/core-objects.ts';
import { KINDS, type KindKey } from '../src/subjects/kinds.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import type { MicroserviceStatus } from '../src/wire/agent.ts';
import { artifactFingerprint } from '../src/wire/artifacts.ts';
import { makeDraft } from './example.ts';
import { EXAMPLES } from './examples.ts';
import { createInMemoryApiServer } from './in-memory-api-server.ts';
import { createTerms } from './terms.ts';
import { testConfig } from './test-config.ts';

export const NAMESPACE = 'plant';
const MICROSERVICES = 2;
/** The number of the node that all others name as their router. */
export const ROUTER = 6;
/** Runtimes of every node's engine. */
export const RUNTIMES = ['crun', 'runc'] as const;

export type InMemoryController = Awaited<ReturnType<typeof startInMemoryController>>;

/** A controller as src/app.ts makes it, over an API server in memory, of which it is the only and constant leader. */
export async function startInMemoryController(
  size: number,
  {
    waitSeconds = 3_600,
    callers = 0,
    systemImages = {},
    sessions,
    hubEnds,
    parts,
    env = {},
    hubPaceMs = 0,
    mostInterior,
  }: {
    waitSeconds?: number;
    callers?: number;
    systemImages?: SystemImages;
    sessions?: AppOverrides['sessions'];
    parts?: AppOverrides['parts'];
    hubEnds?: (stores: Stores) => NonNullable<AppOverrides['hubEnds']>;
    env?: Record<string, string>;
    hubPaceMs?: number;
    mostInterior?: number;
  } = {},
) {
  await using started = new AsyncDisposableStack();
  const config = testConfig('', NAMESPACE, { EVENT_AUDIT_ENABLED: 'false', ...env });
  const stores = createStores({ namespace: NAMESPACE });
  fill(stores, size);
  // Before the leader makes objects of its own, which a reset removes like all others.
  const fromTheStart = new Set(
    Object.values(KINDS).flatMap(({ key }) =>
      (stores[key] as unknown as Store<KubeObject>).list().map(({ metadata }) => `${key}/${metadata.name}`),
    ),
  );
  const { objectsRead, readers } = watchStores(stores);
  const cluster = createInMemoryApiServer(stores, { isCounted: ({ name }) => !BOOKKEEPING.test(name) });
  const { client } = cluster;
  // The clock stands still unless a test advances it, so that no node falls silent on a slow machine.
  const time = { now: Date.now() };
  const clock = () => time.now;
  const terms = createTerms(client, clock);
  const events: (EventInput & { of: string })[] = [];
  const depths = new Map<string, number>();
  /** reconciles that have begun and not ended: they may wait for a key that is being made */
  let runs = 0;
  /** when one of them ended last, by the clock of the controller */
  let workedAt = clock();
  const app = started.use(
    await createApp(
      {
        ...config,
        systemImages,
        ...(config.routerHub && { routerHub: { ...config.routerHub, paceMs: hubPaceMs } }),
      },
      { log: silentLog as unknown as Logger },
      {
        client,
        leadership: terms.leadership,
        stores,
        sessions,
        hubEnds: hubEnds?.(stores),
        mostInterior,
        parts,
        now: clock,
        metrics: {
          ...createMetrics(),
          queueDepth: ({ controller }, depth) => void depths.set(controller, depth),
          queueWait: () => void runs++,
          reconciled: () => {
            runs--;
            workedAt = clock();
          },
        },
        events: {
          record: ({ kind, metadata: { name } }, event) => void events.push({ ...event, of: `${kind} ${name}` }),
          [Symbol.asyncDispose]: async () => {},
        },
        authenticator: createTokenTable({
          ...Object.fromEntries(ROLE_NAMES.map((role) => [role, { name: role, groups: [] }])),
          ...Object.fromEntries(numbered('admin', callers).map((name) => [name, { name, groups: ['admin'] }])),
        }),
        authorizer: createRuleAuthorizer(Object.fromEntries(ROLE_NAMES.map((role) => [role, rulesOf(role)]))),
      },
    ),
  );
  const { agents } = app;
  await app.start();
  const url = `http://127.0.0.1:${app.addresses.rest}/api/v3`;

  const node = (i: number) => stores.nodes.get(NAMESPACE, `gateway-${i}`) as EdgeNode;
  const spare = node(size);

  const desired = (of: EdgeNode) => agents.routes.desired(nodeUuid(of));

  /** The node reports that it runs its desired state, and these besides. */
  function report(
    of: EdgeNode,
    state: MicroserviceStatus['status'] = 'RUNNING',
    besides: readonly MicroserviceStatus[] = [],
    microserviceList = desired(of)?.digests.microserviceList,
  ) {
    const microserviceStatus: MicroserviceStatus[] = (desired(of)?.microservices ?? []).flatMap((view, i) =>
      'hold' in view
        ? []
        : [
            {
              id: view.uuid,
              name: view.name,
              application: view.application,
              status: i === 0 ? state : ('RUNNING' as const),
              revision: view.revision,
              imageId: 'sha256:1',
              rebuildCount: view.rebuildCount,
              containerId: `c-${view.uuid}`,
              ports: view.portMappings,
            },
          ],
    );
    observe(of, {
      reportedAt: clock(),
      report: {
        daemonStatus: 'RUNNING',
        availableRuntimes: [...RUNTIMES],
        microserviceStatus: [...microserviceStatus, ...besides],
        ...(microserviceList !== undefined && { microserviceList }),
        ...filesOf(of),
      },
    });
  }

  /** What the machine reports of the files of the system: it has them at once. */
  function filesOf(of: EdgeNode) {
    const { digests, parts = [] } = desired(of) ?? {};
    const sets = Object.assign({}, ...parts.map((part) => part.sets ?? {})) as Record<string, string>;
    return digests?.systemFiles === undefined ? {} : { systemFiles: { digest: digests.systemFiles, sets } };
  }

  /** The node reports that its models are ready, so late that the models are counted at once. */
  function reportModels(of: EdgeNode) {
    const modelStatus = (agents.routes.desired(nodeUuid(of))?.models ?? []).map((view) => ({
      uuid: view.uuid,
      name: view.name,
      source: 'managed' as const,
      state: 'Ready' as const,
      pulledFor: artifactFingerprint(view),
    }));
    time.now += 10_000;
    observe(of, { reportedAt: clock(), report: { modelStatus } });
  }

  /** The node polls for changes. */
  const poll = (of: EdgeNode) => observe(of, {});

  function observe(of: EdgeNode, said: Pick<ObservationDelta, 'report' | 'reportedAt'>) {
    if (said.report) {
      const before = Math.max(workedAt, reported.get(nodeUuid(of)) ?? 0);
      if (clock() - before < LOOK_MS) lookedAt = performance.now() + LOOK_MS;
      reported.set(nodeUuid(of), clock());
    }
    agents.observations.observe({
      uuid: nodeUuid(of),
      contactAt: clock(),
      waitSeconds,
      agent: '1.0.0',
      instance: 'i',
      boot: 'b',
      ...said,
    });
  }

  /** A report waits this long for others that follow at once, unless nothing was reconciled for as long by the clock of the controller. */
  const LOOK_MS = 300;
  /** when a node reported last, by the clock of the controller */
  const reported = new Map<string, number>();
  let lookedAt = 0;

  async function settle() {
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, lookedAt - performance.now())));
    let same = 0;
    let before = -1;
    while (same < 5) {
      await new Promise((resolve) => setTimeout(resolve, 4));
      const busy = [...depths.values()].reduce((sum, depth) => sum + depth, runs);
      const written = [...cluster.writes.values()].reduce((sum, count) => sum + count, 0);
      same = busy === 0 && written === before ? same + 1 : 0;
      before = written;
    }
  }

  /** Resolves when no reconciler has work: for changes that cause no timers. */
  async function idle() {
    for (let quiet = 0, before = -1; quiet < 3; ) {
      await new Promise((resolve) => setImmediate(resolve));
      const busy = [...depths.values()].reduce((sum, depth) => sum + depth, runs);
      const written = [...cluster.writes.values()].reduce((sum, count) => sum + count, 0);
      quiet = busy === 0 && written === before ? quiet + 1 : 0;
      before = written;
    }
  }

  /** Another replica leads, and knows of its predecessor what the API server has. */
  async function nextTerm() {
    await terms.next();
    await settle();
  }

  /** Removes everything that is neither built in nor there from the start. */
  async function reset() {
    await idle();
    for (const { key, resource } of [...Object.values(KINDS), ...Object.values(CORE_KINDS)]) {
      const store = stores[key as keyof Stores] as unknown as Store<KubeObject>;
      for (const { metadata } of store.list()) {
        const { name, labels } = metadata;
        const isCore = key === 'secrets' || key === 'configMaps';
        const object = store.get(NAMESPACE, name);
        if (!object || (isCore ? !isOfTest(labels) : fromTheStart.has(`${key}/${name}`))) continue;
        cluster.edit(object, (copy) => {
          copy.metadata.finalizers = [];
        });
        await client.delete(resource as never, { name, namespace: NAMESPACE });
      }
    }
    await idle();
  }
  /** Nothing removes here what an object owned. */
  const isOfTest = (labels: Readonly<Record<string, string>> = {}) =>
    [LABELS.authority, LABELS.certificate, LABELS.platform, LABELS.bus, LABELS.identity].some(
      (label) => label in labels,
    ) || labels[LABELS.shareable] === 'true';

  // A replica that begins to lead drops its former observations.
  agents.observations.entries();
  await settle();
  for (let i = 0; i <= size; i++) report(node(i));
  await settle();
  const running = stores.applications
    .list()
    .filter(({ status }) => status?.ready === `${MICROSERVICES}/${MICROSERVICES}`);
  if (running.length !== size) throw new Error(`${running.length} of ${size} applications run`);
  const owned = started.move();
  return {
    stores,
    cluster,
    objectsRead,
    /** called with what a store returns, and its name */
    readers,
    events,
    time,
    node,
    spare,
    report,
    reportModels,
    observe,
    poll,
    settle,
    idle,
    nextTerm,
    reset,
    /** what a node is to have */
    desired: (uuid: string) => agents.routes.desired(uuid),
    microservice: (i: number) => stores.applications.get(NAMESPACE, `line-${i}`)?.spec.microservices?.[0]?.uuid,
    async rest(method: string, path: string, body?: unknown): Promise<number> {
      const response = await fetch(`${url}${path}`, {
        method,
        headers: { authorization: 'Bearer admin', 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      await response.text();
      return response.status;
    },
    /** A response with its body; `file` is sent as a YAML file. */
    async request(
      method: string,
      path: string,
      { token, body, file }: { token: string; body?: unknown; file?: unknown },
    ): Promise<{ status: number; body: Record<string, unknown> }> {
      const type = file === undefined ? 'application/json' : 'application/x-yaml';
      const sent = file ?? body;
      const response = await fetch(`${url}${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': type },
        ...(sent !== undefined && { body: JSON.stringify(sent) }),
      });
      const text = await response.text();
      return { status: response.status, body: text ? JSON.parse(text) : undefined };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Names of objects that change by time, and not by what a test does. */
const BOOKKEEPING = new RegExp(
  `^(${EPOCH_LOG}|${BUDGET_POLICY_NAME}|${SYSTEM_NAMES_NAME}|${SETTINGS_POLICY_NAME}|skerry-replica-.*)$`,
);

const numbered = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}-${i}`);

type Reader = (store: string, objects: readonly KubeObject[]) => void;

/** Counts the objects that stores return, and shows them to who asks. */
function watchStores(stores: Stores): { objectsRead: Map<string, number>; readers: Set<Reader> } {
  const objectsRead = new Map<string, number>();
  const readers = new Set<Reader>();
  for (const [name, store] of Object.entries(stores) as [string, Store<KubeObject>][]) {
    const { list, byIndex } = store;
    const count = (what: string, given: readonly KubeObject[]) => {
      const key = `${name}.${what}`;
      objectsRead.set(key, (objectsRead.get(key) ?? 0) + given.length);
      for (const reader of readers) reader(name, given);
      return given;
    };
    store.list = () => count('list', list.call(store));
    store.byIndex = (index, key) => count(`byIndex ${index}`, byIndex.call(store, index, key));
  }
  return { objectsRead, readers };
}

const hasExample = (key: KindKey): key is KindKey & keyof typeof EXAMPLES => key in EXAMPLES;

/** `size` objects of every kind, where those with one number use each other, and a node without microservices. */
function fill(stores: Stores, size: number) {
  const numbers = Array.from({ length: size }, (_, i) => i);
  const registry = (name: string, id: number, spec: object = {}) =>
    ({
      ...made('Registry', name),
      spec: { id, url: `${name}.example`, isPublic: true, type: 'oci', insecure: false, ...spec },
    }) as Registry;
  const nodes = [...numbers, size].map(
    (i) =>
      ({
        ...made('EdgeNode', `gateway-${i}`),
        spec: {
          uuid: uuidOf(`node ${i}`),
          archId: 1,
          ...(i === ROUTER ? { routerMode: 'interior' } : size > ROUTER && { upstreamRouters: [`gateway-${ROUTER}`] }),
        },
      }) as EdgeNode,
  );
  stores.nodes.swap(nodes, '1');
  stores.applications.swap(
    numbers.map((i) => application(i)),
    '1',
  );
  for (const [key, kind] of Object.entries(KINDS) as [KindKey, Kind][]) {
    if (['nodes', 'applications', 'registries'].includes(key) || !hasExample(key)) continue;
    const { rest, identity, links, definition } = kind;
    const prefix = PREFIXES[key] ?? definition.singular;
    const objects = numbers.map((i) => ({
      ...made(definition.kind, `${prefix}-${i}`),
      spec: {
        ...(identity.uuid && { uuid: uuidOf(`${key} ${i}`) }),
        ...(identity.id && { id: 20 + i }),
        ...(rest.crud?.scope && { name: 'part-0' }),
        ...EXAMPLES[key].spec(draftOf(i), rest.crud?.scope ? `line-${i}/part-0` : `${prefix}-${i}`),
        ...(links && { nodes: [`gateway-${i}`] }),
      },
    }));
    (stores[key] as unknown as MutableStore<KubeObject>).swap(objects, '1');
  }
  stores.registries.swap(
    [
      registry('remote', 1),
      registry('local', 2),
      ...numbers.map((i) =>
        registry(`team-${i}`, 20 + i, { passwordSecretRef: { name: `password-${i}`, key: 'value' }, isPublic: false }),
      ),
    ],
    '1',
  );
  const shareable = (id: number) => ({ labels: { [LABELS.shareable]: 'true', [LABELS.id]: String(id) } });
  const secret = (name: string, id: number) =>
    ({ ...made('Secret', name, shareable(id)), data: { value: Buffer.from('one').toString('base64') } }) as Secret;
  const publicKey = { kty: 'OKP', crv: 'Ed25519', x: 'A'.repeat(43) } as const;
  stores.secrets.swap(
    [
      ...['secret', 'password', 'files'].flatMap((what, nth) =>
        numbers.map((i) => secret(`${what}-${i}`, 20 + nth * size + i)),
      ),
      ...nodes.map((node) => {
        const record = {
          nodeUuid: nodeUuid(node),
          publicKey,
          archId: 1,
          provisionedAt: 1_000,
          keyExpiresAt: 0,
          keyIssuedAt: 0,
        };
        const key = nodeKeySecret(node, record);
        return { ...key, metadata: { ...made('Secret', key.metadata.name).metadata, ...key.metadata } };
      }),
    ],
    '1',
  );
  stores.configMaps.swap(
    numbers.map((i) => ({ ...made('ConfigMap', `map-${i}`, shareable(20 + i)), data: { value: 'one' } }) as ConfigMap),
    '1',
  );
  for (const store of Object.values(stores) as MutableStore<KubeObject>[]) if (!store.synced) store.swap([], '1');
}

/** How names begin that tests use; others begin with the name of the kind. */
const PREFIXES: Partial<Record<KindKey, string>> = {
  catalogItems: 'item',
  volumeMounts: 'files',
  runtimeClasses: 'runtime',
  serviceAccounts: 'account',
};

const draftOf = (i: number) =>
  makeDraft({
    image: 'plant/part-0:1.0',
    registry: { to: 'registries', ref: `team-${i}` },
    source: { to: 'secrets', ref: `files-${i}` },
  });

const made = (kind: string, name: string, metadata: object = {}) => ({
  apiVersion: kind === 'Secret' || kind === 'ConfigMap' ? 'v1' : API_VERSION,
  kind,
  metadata: {
    name,
    namespace: NAMESPACE,
    uid: randomUUID(),
    resourceVersion: '1',
    generation: 1,
    creationTimestamp: '2026-01-01T00:00:00Z',
    ...metadata,
  },
});

const uuidOf = (text: string) => {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
};

const application = (i: number) =>
  ({
    ...made('Application', `line-${i}`),
    spec: {
      uuid: uuidOf(`application ${i}`),
      id: 20 + i,
      isActivated: true,
      microservices: Array.from({ length: MICROSERVICES }, (_, part) => ({
        name: `part-${part}`,
        uuid: uuidOf(`microservice ${i} ${part}`),
        isActivated: true,
        agent: { name: `gateway-${i}` },
        images: part > 0 ? { amd64: `plant/part-${part}:1.0`, registry: `team-${i}` } : { catalogId: 20 + i },
        container: {
          ports: [{ internal: 8080, external: 20_000 + part, protocol: 'tcp' }],
          env: [
            { key: 'FROM_SECRET', valueFromSecret: `secret-${i}/value` },
            { key: 'FROM_MAP', valueFromConfigMap: `map-${i}/value` },
          ],
          volumes: [
            { hostDestination: `files-${i}`, containerDestination: '/files', accessMode: 'ro', type: 'volumeMount' },
          ],
        },
      })),
    },
  }) as unknown as Application;

export const applicationBody = (name: string, node: EdgeNode, value = 'first') => ({
  name,
  microservices: Array.from({ length: MICROSERVICES }, (_, part) => ({
    name: `part-${part}`,
    nodeUuid: nodeUuid(node),
    images: [{ containerImage: `plant/part-${part}:1.0`, archId: 1 }],
    ports: [{ internal: 8080, external: 20_000 + part }],
    env: [{ key: 'VALUE', value }],
  })),
});
