import type { Kube } from '../hack/kube.ts';
import { API_VERSION } from '../src/api/names.ts';
import type { Application, EdgeNode } from '../src/api/v3/index.ts';
import type { Stack } from './_stack.ts';

/** A namespace in which the chart is installed, with the rights of a user who has its role admin. */
export type Access = Pick<Stack, 'apply' | 'node' | 'application' | 'token' | 'kube' | 'namespace'>;

export async function adminAccess(kube: Kube, namespace: string): Promise<Access> {
  const account = { name: 'tester', namespace };
  await kube.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account });
  await kube.apply({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: account,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'skerry-admin' },
    subjects: [{ kind: 'ServiceAccount', ...account }],
  });
  const { status } = await kube.request<{ status: { token: string } }>(
    'POST',
    `/api/v1/namespaces/${namespace}/serviceaccounts/tester/token`,
    {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { audiences: ['skerry'], expirationSeconds: 7200 },
    },
  );
  const path = (plural: string, name: string) => `/apis/${API_VERSION}/namespaces/${namespace}/${plural}/${name}`;
  return {
    kube,
    namespace,
    token: status.token,
    async apply(object) {
      await kube.apply({ ...object, metadata: { ...object.metadata, namespace } } as never);
    },
    node: (name) => kube.get<EdgeNode>(path('edgenodes', name)),
    application: (name) => kube.get<Application>(path('applications', name)),
  };
}
