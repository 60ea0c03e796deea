import { KubeConfig } from '@kubernetes/client-node';
import { describe, expect, inject, test } from 'vitest';
import { atEnd } from '../../../testing/at-end.ts';
import { CLUSTER_ROLE_BINDINGS, type NativeRoleBinding, type PolicyRule, RBAC_RESOURCES } from '../../api/rbac.ts';
import { createClient, type KubeObject, type Resource } from '../../kube/mod.ts';
import { controllerRoles } from '../../manifests/roles.ts';
import { poll, startTestCluster } from '../../rest/_cluster.ts';
import { knownResources } from '../../rest/access/roles.ts';
import { createTranslation } from './rules/translation.ts';

/** What the API server lets the controller hand out: its account has the Role of an installation, and nothing else. */

const { kube, namespace } = await startTestCluster();
const CLUSTER: Readonly<Record<string, Resource>> = Object.fromEntries(
  ['ClusterRole', 'ClusterRoleBinding'].map((kind) => [
    kind,
    { group: 'rbac.authorization.k8s.io', version: 'v1', plural: `${kind.toLowerCase()}s`, kind, namespaced: false },
  ]),
);
for (const manifest of controllerRoles(namespace) as unknown as KubeObject[]) {
  const resource = CLUSTER[manifest.kind];
  if (resource) {
    await kube.create(resource, manifest);
    atEnd(async () => void (await kube.delete(resource, { name: manifest.metadata.name })));
  } else
    await kube.create(
      (manifest.kind === 'Role' ? RBAC_RESOURCES.roles : RBAC_RESOURCES.roleBindings) as Resource,
      manifest,
    );
}

const kubeConfig = new KubeConfig();
kubeConfig.loadFromFile(inject('kubeconfig'));
const controller = createClient({
  config() {
    const own = new KubeConfig();
    own.loadFromOptions({
      clusters: kubeConfig.clusters,
      users: [
        {
          ...kubeConfig.users[0],
          name: 'controller',
          impersonateUser: `system:serviceaccount:${namespace}:skerry-controller`,
        },
      ],
      contexts: [{ name: 'controller', cluster: kubeConfig.clusters[0]?.name ?? '', user: 'controller' }],
      currentContext: 'controller',
    });
    return own;
  },
});
atEnd(() => controller[Symbol.asyncDispose]());

let serial = 0;
const role = (rules: readonly PolicyRule[]) => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'Role',
  metadata: { name: `given-${++serial}`, namespace },
  rules,
});
const give = (rules: readonly PolicyRule[]) => controller.create(RBAC_RESOURCES.roles, role(rules));
const ours = (resources: string[], verbs: string[]): PolicyRule => ({ apiGroups: ['skerry.dev'], resources, verbs });

describe('the controller', () => {
  test('may hand out every permission that a role of users can have', async () => {
    const { toNative } = createTranslation(knownResources());
    const all = toNative([{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]);
    await poll(async () => give(all).then(() => 'made', String)).toBe('made');
  });

  test.each<[string, PolicyRule]>([
    ['all of our group', ours(['*'], ['*'])],
    ['all verbs of a resource', ours(['applications'], ['*'])],
    ['a status', ours(['edgenodes/log'], ['delete'])],
    ['roles that permit more', ours(['roles'], ['escalate'])],
    ['Pods', { apiGroups: [''], resources: ['pods'], verbs: ['get'] }],
    ['all of the cluster', { apiGroups: ['*'], resources: ['*'], verbs: ['*'] }],
    ['roles of the cluster', { apiGroups: ['rbac.authorization.k8s.io'], resources: ['roles'], verbs: ['escalate'] }],
    ['other users', { apiGroups: [''], resources: ['users'], verbs: ['impersonate'] }],
  ])('may not hand out %s', async (_, rule) => {
    await expect(give([rule])).rejects.toMatchObject({ status: 403 });
  });

  test('may bind the roles of users, and no others that permit more than it may', async () => {
    const bind = (name: string) =>
      controller.create(RBAC_RESOURCES.roleBindings, {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        metadata: { name: `given-${++serial}`, namespace },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
        subjects: [{ kind: 'User', name: 'skerry:ann', apiGroup: 'rbac.authorization.k8s.io' }],
      });
    await bind('skerry-admin');
    const strong = role([{ apiGroups: ['apps'], resources: ['deployments'], verbs: ['get'] }]);
    await kube.create(RBAC_RESOURCES.roles, strong);
    await expect(bind(strong.metadata.name)).rejects.toMatchObject({ status: 403 });
  });

  test('may read every binding of the cluster, and no role of another namespace', async () => {
    for (const resource of [RBAC_RESOURCES.roleBindings, CLUSTER_ROLE_BINDINGS])
      expect((await controller.list(resource)).items.length).toBeGreaterThan(0);
    await expect(controller.list(RBAC_RESOURCES.roles)).rejects.toMatchObject({ status: 403 });
    const [object] = (await controller.list(CLUSTER_ROLE_BINDINGS)).items;
    await expect(controller.replace(CLUSTER_ROLE_BINDINGS, object as NativeRoleBinding)).rejects.toMatchObject({
      status: 403,
    });
  });
});
