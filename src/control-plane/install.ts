import { KubeConfig } from '@kubernetes/client-node';
import { DEFAULT_NAMESPACE } from '../api/names.ts';
import { applyCrds } from '../crds.ts';
import { createClient, type KubeClient, type KubeObject, type Resource, refOf } from '../kube/mod.ts';
import { admissionPolicies } from '../manifests/policies.ts';
import { controllerRoles, type Manifest, namespaceManifests, peopleRoles } from '../manifests/roles.ts';
import { KINDS } from '../subjects/kinds.ts';
import { keyFile, type Layout } from './layout.ts';

const FIELD_MANAGER = 'skerry-control-plane';

const resource = (group: string, version: string, plural: string, kind: string, namespaced: boolean): Resource => ({
  ...{ group, version, plural, kind, namespaced },
});
const RBAC = 'rbac.authorization.k8s.io';
const ADMISSION = 'admissionregistration.k8s.io';

/** The resources of what an installation has besides its CRDs, by kind. */
const RESOURCES: Readonly<Record<string, Resource>> = Object.fromEntries(
  [
    resource('', 'v1', 'namespaces', 'Namespace', false),
    resource('', 'v1', 'serviceaccounts', 'ServiceAccount', true),
    resource(RBAC, 'v1', 'roles', 'Role', true),
    resource(RBAC, 'v1', 'rolebindings', 'RoleBinding', true),
    resource(RBAC, 'v1', 'clusterroles', 'ClusterRole', false),
    resource(RBAC, 'v1', 'clusterrolebindings', 'ClusterRoleBinding', false),
    resource(ADMISSION, 'v1', 'validatingadmissionpolicies', 'ValidatingAdmissionPolicy', false),
    resource(ADMISSION, 'v1', 'validatingadmissionpolicybindings', 'ValidatingAdmissionPolicyBinding', false),
  ].map((each) => [each.kind, each]),
);

/** What the chart installs: the CRDs, the account and the roles of the controller, roles of people, admission policies. */
export async function install(layout: Layout, signal: AbortSignal): Promise<void> {
  const config = new KubeConfig();
  config.loadFromFile(keyFile(layout, 'admin.kubeconfig'));
  await using client = createClient({ config: () => config, userAgent: FIELD_MANAGER });
  await applyCrds(client, KINDS, { signal });
  const objects = [
    ...namespaceManifests(DEFAULT_NAMESPACE),
    ...controllerRoles(DEFAULT_NAMESPACE),
    ...peopleRoles(DEFAULT_NAMESPACE),
    ...admissionPolicies(DEFAULT_NAMESPACE),
  ];
  for (const object of objects) await apply(client, object, signal);
}

async function apply(client: KubeClient, manifest: Manifest, signal: AbortSignal): Promise<void> {
  const object = manifest as unknown as KubeObject;
  const found = RESOURCES[object.kind];
  if (!found) throw new Error(`an installation has no ${object.kind}`);
  const patch = { type: 'apply', body: object, force: true } as const;
  await client.patch(found, refOf(object), patch, { signal, fieldManager: FIELD_MANAGER });
}
