import type { RequestOptions } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import { inject } from 'vitest';
import { createKube, type Kube, kubeFromFile } from '../../hack/kube.ts';
import type {} from '../../hack/testing/provided.ts';
import { atEnd } from '../../testing/at-end.ts';
import { EVERY_KIND, SYSTEM_APPLICATION, systemChains } from '../../testing/system-references.ts';
import { SYSTEM_NAMES_NAME } from '../api/names.ts';
import { createKindController } from '../controllers/kind.ts';
import { keepPolicyParameters } from '../datastore/policy-parameters.ts';
import { byKey } from '../datastore/stores.ts';
import { trackSystemNames } from '../datastore/system-names.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import type { Resource } from '../kube/mod.ts';
import { silentLog } from '../lib/log.ts';
import { admissionPolicies } from '../manifests/policies.ts';
import { startTestCluster, type TestCluster } from '../rest/_cluster.ts';
import type { RoleName } from '../rest/access/roles.ts';
import { CORE_KINDS } from '../subjects/content/kinds/core-objects.ts';
import { createCoreObjectController } from '../subjects/content/reconcile/core-objects.ts';
import { KINDS } from '../subjects/kinds.ts';

/** The patch type of `kubectl patch --type merge`. */
export const MERGE = 'application/merge-patch+json';

/** A namespace with some admission policies, what a leader does for them, and an application of the system for each chain. */
export interface SystemCluster {
  /** a superuser */
  kube: Kube;
  namespace: string;
  /** A client with the token of a ServiceAccount that has a role, and all rights on core Secrets and ConfigMaps besides. */
  user(role: 'developer' | 'admin'): Kube;
  path(kind: Kind, name?: string): string;
}

export interface SystemClusterOptions {
  /** how the names of the policies begin */
  policies: readonly string[];
  /** which objects of the chains exist; all when absent */
  exists?: (kind: Kind) => boolean;
}

export async function startSystemCluster({
  policies,
  exists = () => true,
}: SystemClusterOptions): Promise<SystemCluster> {
  const kube = await kubeFromFile(inject('kubeconfig'));
  atEnd(() => kube.close());
  const cluster = await startTestCluster();
  const { namespace } = cluster;
  await applyPolicies(kube, namespace, policies);
  const users = {
    developer: await clientOf(kube, cluster, 'developer'),
    admin: await clientOf(kube, cluster, 'admin'),
  };
  for (const user of Object.values(users)) atEnd(() => user.close());
  await grantCoreObjects(kube, namespace);
  await lead(cluster);
  await makeObjects(cluster, exists);
  return {
    kube,
    namespace,
    user: (role) => users[role],
    path({ resource, key }, name = '') {
      const { group, version, plural } = resource;
      const api = Object.hasOwn(CORE_KINDS, key) ? '/api/v1' : `/apis/${group}/${version}`;
      return `${api}/namespaces/${namespace}/${plural}/${name}`.replace(/\/$/, '');
    },
  };
}

/** Applies the admission policies whose names begin so, until the present test or the file ends. */
export async function applyPolicies(kube: Kube, namespace: string, policies: readonly string[]) {
  for (const manifest of admissionPolicies(namespace)) {
    const { name } = manifest.metadata as { name: string };
    if (!policies.some((policy) => name.startsWith(`${policy}.`))) continue;
    await kube.apply(manifest as never);
    const plural = manifest.kind === 'ValidatingAdmissionPolicy' ? 'policies' : 'policybindings';
    atEnd(() => kube.request('DELETE', `/apis/admissionregistration.k8s.io/v1/validatingadmission${plural}/${name}`));
  }
}

/** `allowed`, or the message of the refusal of a request that changes nothing. */
export const verdict = (by: Kube, method: string, path: string, body?: unknown, type?: string): Promise<string> =>
  by.request(method, `${path}?dryRun=All`, body, type).then(
    () => 'allowed',
    (error: Error) => error.message,
  );

/** A client of the API server with the token of a ServiceAccount that has a role. */
export async function clientOf(kube: Kube, cluster: TestCluster, role: RoleName): Promise<Kube> {
  const config = new KubeConfig();
  config.loadFromFile(inject('kubeconfig'));
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { ca, rejectUnauthorized } = options;
  const token = await cluster.token(role, { audience: '' });
  return createKube(kube.server, { ca, rejectUnauthorized, headers: { authorization: `Bearer ${token}` } });
}

async function grantCoreObjects(kube: Kube, namespace: string) {
  const api = { apiVersion: 'rbac.authorization.k8s.io/v1' };
  const metadata = { name: 'core-objects', namespace };
  const rules = [{ apiGroups: [''], resources: ['secrets', 'configmaps'], verbs: ['*'] }];
  await kube.apply({ ...api, kind: 'Role', metadata, rules });
  const subjects = ['developer', 'admin'].map((name) => ({ kind: 'ServiceAccount', name, namespace }));
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: metadata.name };
  await kube.apply({ ...api, kind: 'RoleBinding', metadata, roleRef, subjects });
}

/** The reconcilers of all kinds but applications and nodes, and the names of the system. */
async function lead(cluster: TestCluster) {
  const { namespace, kube: client } = cluster;
  const replica = await cluster.startReplica();
  const { stores } = replica;
  cluster.reconcile(replica, (deps) => [
    ...(Object.values(KINDS) as unknown as Kind[])
      .filter(({ isOfSystem, key }) => !isOfSystem && key !== 'nodes')
      .map((kind) => createKindController(deps, kind)),
    createCoreObjectController(deps, 'secrets'),
    createCoreObjectController(deps, 'configMaps'),
  ]);
  const names = trackSystemNames(stores);
  const parameters = [{ name: SYSTEM_NAMES_NAME, data: () => names.data(), says: 'what names the system uses' }];
  const given = { client, namespace, configMaps: stores.configMaps, stores: Object.values(byKey(stores)), parameters };
  const stop = new AbortController();
  const running = keepPolicyParameters({ ...given, log: silentLog }, stop.signal);
  atEnd(async () => {
    stop.abort();
    await running;
    names[Symbol.dispose]();
  });
}

/** The objects of all chains, and an application of the system for each. */
async function makeObjects({ kube, namespace }: TestCluster, exists: (kind: Kind) => boolean) {
  const create = (kind: Kind, object: KindObject) =>
    kube.create(kind.resource as Resource<KindObject>, { ...object, metadata: { ...object.metadata, namespace } });
  const chains = await systemChains();
  // What names others is in more than one chain, and names them in the longest.
  const objects = new Map<string, { kind: Kind; object: KindObject }>();
  for (const { links } of chains.toSorted((a, b) => a.links.length - b.links.length))
    for (const link of links) objects.set(`${link.kind.key}/${link.object.metadata.name}`, link);
  for (const { kind, object } of objects.values()) if (exists(kind)) await create(kind, object);
  for (const [n, { application, links }] of chains.entries()) {
    // A service account belongs to one application.
    const name = links[0]?.kind.key === 'serviceAccounts' ? SYSTEM_APPLICATION : `system-${n}`;
    await create(EVERY_KIND.applications as Kind, { ...application, metadata: { name } });
  }
}
