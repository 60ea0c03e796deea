import type { RequestOptions } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { createKube, type Kube, kubeFromFile } from '../../hack/kube.ts';
import { admissionPolicies } from '../../hack/manifests.ts';
import type {} from '../../hack/testing/provided.ts';
import { type Chain, EVERY_KIND, SYSTEM_APPLICATION, systemChains } from '../_system-references.ts';
import { LABELS } from '../api/names.ts';
import { CORE_KINDS } from '../kinds/core-objects.ts';
import { KINDS, type Kind, type KindObject } from '../kinds/index.ts';
import { type Resource, silentLog } from '../kube/mod.ts';
import { startTestCluster, type TestCluster } from '../rest/_cluster.ts';
import { editsOfKinds } from '../rest/_edits.ts';
import type { RoleName } from '../rest/access/roles.ts';
import { createIdLookup } from '../stores/stores.ts';
import { createCoreObjectController } from './core-objects.ts';
import type { ControllerDependencies } from './dependencies.ts';
import { createIds } from './ids.ts';
import { createKindController } from './kind.ts';

/** Who may change over kubectl what microservices of the system use, by every reference that there is. */
const POLICIES = ['skerry-used-by-system.', 'skerry-accounts-of-system.'];
const MERGE = 'application/merge-patch+json';
/** Long enough for the reconcilers and for policies to take effect on a slow machine. */
const timeout = 60_000;
const chains = await systemChains();

let cluster: TestCluster;
let kube: Kube;
const users = new Map<RoleName, Kube>();
const stop = new AbortController();
const cleanup = new AsyncDisposableStack();

const user = (role: RoleName) => users.get(role) as Kube;

/** A client with the token of a ServiceAccount that has a role, and all rights on core Secrets and ConfigMaps besides. */
async function clientOf(role: RoleName): Promise<Kube> {
  const config = new KubeConfig();
  config.loadFromFile(inject('kubeconfig'));
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { ca, rejectUnauthorized } = options;
  const token = await cluster.token(role, { audience: '' });
  return createKube(kube.server, { ca, rejectUnauthorized, headers: { authorization: `Bearer ${token}` } });
}

async function grantCoreObjects() {
  const { namespace } = cluster;
  const api = { apiVersion: 'rbac.authorization.k8s.io/v1' };
  const metadata = { name: 'core-objects', namespace };
  const rules = [{ apiGroups: [''], resources: ['secrets', 'configmaps'], verbs: ['*'] }];
  await kube.apply({ ...api, kind: 'Role', metadata, rules });
  const subjects = ['developer', 'admin'].map((name) => ({ kind: 'ServiceAccount', name, namespace }));
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: metadata.name };
  await kube.apply({ ...api, kind: 'RoleBinding', metadata, roleRef, subjects });
}

beforeAll(async () => {
  kube = await kubeFromFile(inject('kubeconfig'));
  cleanup.defer(() => kube.close());
  cluster = cleanup.use(await startTestCluster(inject('kubeconfig')));
  const { namespace } = cluster;
  for (const manifest of admissionPolicies(namespace)) {
    const { name } = manifest.metadata as { name: string };
    if (!POLICIES.some((policy) => name.startsWith(policy))) continue;
    await kube.apply(manifest as never);
    const plural = manifest.kind === 'ValidatingAdmissionPolicy' ? 'policies' : 'policybindings';
    const path = `/apis/admissionregistration.k8s.io/v1/validatingadmission${plural}/${name}`;
    cleanup.defer(async () => void (await kube.request('DELETE', path)));
  }
  for (const role of ['developer', 'admin'] as const) users.set(role, await clientOf(role));
  cleanup.defer(() => {
    for (const one of users.values()) one.close();
  });
  await grantCoreObjects();
  const { stores, deps } = await cluster.startReplica();
  const controllers = {
    client: cluster.kube,
    namespace,
    stores,
    kinds: KINDS,
    ids: createIds({ client: cluster.kube, namespace, withId: createIdLookup(stores, KINDS) }),
    lookups: deps.lookups,
    events: { record: () => {} },
    log: silentLog,
    metrics: {},
    clock: Date.now,
  } as unknown as ControllerDependencies;
  const loops = [
    ...(Object.values(KINDS) as unknown as Kind[])
      .filter(({ isOfSystem, key }) => !isOfSystem && key !== 'nodes')
      .map((kind) => createKindController(controllers, kind)),
    createCoreObjectController(controllers, 'secrets'),
    createCoreObjectController(controllers, 'configMaps'),
  ];
  const running = Promise.all(loops.map((loop) => loop.run(stop.signal)));
  cleanup.defer(async () => {
    stop.abort();
    await running;
  });
  await makeObjects();
});
afterAll(() => cleanup.disposeAsync());

/** The objects of all chains, and an application of the system for each. */
async function makeObjects() {
  const create = (kind: Kind, object: KindObject) =>
    cluster.kube.create(kind.resource as Resource<KindObject>, {
      ...object,
      metadata: { ...object.metadata, namespace: cluster.namespace },
    });
  // What names others is in more than one chain, and names them in the longest.
  const objects = new Map<string, { kind: Kind; object: KindObject }>();
  for (const { links } of chains.toSorted((a, b) => a.links.length - b.links.length))
    for (const link of links) objects.set(`${link.kind.key}/${link.object.metadata.name}`, link);
  for (const { kind, object } of objects.values()) await create(kind, object);
  for (const [n, { application, links }] of chains.entries()) {
    // A service account belongs to one application.
    const name = links[0]?.kind.key === 'serviceAccounts' ? SYSTEM_APPLICATION : `system-${n}`;
    await create(EVERY_KIND.applications as Kind, { ...application, metadata: { name } });
  }
}

const pathOf = ({ resource, key }: Kind, name = '') => {
  const { group, version, plural } = resource;
  const api = Object.hasOwn(CORE_KINDS, key) ? '/api/v1' : `/apis/${group}/${version}`;
  return `${api}/namespaces/${cluster.namespace}/${plural}/${name}`.replace(/\/$/, '');
};

const verdict = (by: Kube, method: string, path: string, body?: unknown, type?: string) =>
  by.request(method, `${path}?dryRun=All`, body, type).then(
    () => 'allowed',
    (error: Error) => error.message,
  );

describe.each(chains)('of $title', (chain: Chain) => {
  const { kind, object } = chain.links.at(-1) as Chain['links'][number];
  const { name } = object.metadata;
  const row = editsOfKinds().find((one) => one.kind.key === kind.key);

  /** What becomes of each kind of write with kubectl. */
  async function writes(by: Kube) {
    const path = pathOf(kind, name);
    const stored = (await kube.get(path)) as unknown as KindObject;
    const { [LABELS.usedBySystem]: _, ...labels } = stored.metadata.labels ?? {};
    return {
      patch: await verdict(by, 'PATCH', path, row?.edits.kubectl(1), MERGE),
      replace: await verdict(by, 'PUT', path, { ...stored, metadata: { ...stored.metadata, labels } }),
      delete: await verdict(by, 'DELETE', path),
    };
  }

  test('kubectl patch, replace and delete are refused to a developer and not to an admin', async () => {
    const refused = expect.stringContaining(
      'only who may update systemapplications in skerry.dev changes or deletes it',
    );
    await expect
      .poll(() => writes(user('developer')), { timeout })
      .toEqual({ patch: refused, replace: refused, delete: refused });
    expect(await writes(user('admin'))).toEqual({ patch: 'allowed', replace: 'allowed', delete: 'allowed' });
  });
});

describe('the label of what the system uses', () => {
  const kind = EVERY_KIND.runtimeClasses as Kind;
  const labels = { [LABELS.usedBySystem]: 'true' };
  const free = (metadata: object = {}) => ({
    apiVersion: 'skerry.dev/v3',
    kind: kind.definition.kind,
    metadata: { name: 'free', ...metadata },
    spec: { handler: 'crun' },
  });

  test('is set by no developer, who changes and deletes an object without it', async () => {
    await kube.request('POST', pathOf(kind), free());
    const developer = user('developer');
    const path = pathOf(kind, 'free');
    await expect
      .poll(() => verdict(developer, 'POST', pathOf(kind), free({ name: 'labelled', labels })), { timeout })
      .toContain('applications of the system use it');
    expect(await verdict(developer, 'PATCH', path, { metadata: { labels } }, MERGE)).toContain(
      'applications of the system use it',
    );
    expect(await verdict(developer, 'PATCH', path, { spec: { handler: 'runc' } }, MERGE)).toBe('allowed');
    expect(await verdict(developer, 'DELETE', path)).toBe('allowed');
  });

  test('is removed by the reconciler from what no application of the system uses', async () => {
    const path = pathOf(kind, 'marked');
    await kube.request('POST', pathOf(kind), free({ name: 'marked', labels }));
    const mark = async () => ((await kube.get(path)) as unknown as KindObject).metadata.labels?.[LABELS.usedBySystem];
    await expect.poll(mark, { timeout }).toBeUndefined();
  });
});

test('kubectl gives an application of the system no service account of a developer, before it exists', async () => {
  const kind = EVERY_KIND.serviceAccounts as Kind;
  const account = (applicationName: string) => ({
    apiVersion: 'skerry.dev/v3',
    kind: kind.definition.kind,
    metadata: { name: 'early' },
    spec: { applicationName, roleRef: { name: 'viewer' } },
  });
  const make = (role: RoleName, application: string) => verdict(user(role), 'POST', pathOf(kind), account(application));
  await expect
    .poll(() => make('developer', 'system-later'), { timeout })
    .toContain('names of applications of the system begin with "system-"');
  expect(await make('admin', 'system-later')).toBe('allowed');
  expect(await make('developer', 'shop')).toBe('allowed');
});
