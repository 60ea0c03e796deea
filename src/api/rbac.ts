import type { ObjectMeta, ResourceOf } from '../lib/kubernetes-object.ts';

/** Roles and bindings of the cluster (rbac.authorization.k8s.io), which are the roles and role bindings of the v3 API as well. */

/** A rule of Kubernetes RBAC. */
export interface PolicyRule {
  apiGroups: readonly string[];
  resources: readonly string[];
  verbs: readonly string[];
  resourceNames?: readonly string[];
}

/** A Role of the cluster. */
export interface NativeRole {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  /** The API server writes null for none. */
  rules?: readonly PolicyRule[] | null;
}

/** A subject of a RoleBinding. */
export interface NativeSubject {
  kind: string;
  name: string;
  apiGroup?: string;
  /** of a ServiceAccount */
  namespace?: string;
}

/** A RoleBinding of the cluster. */
export interface NativeRoleBinding {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  roleRef: { apiGroup: string; kind: string; name: string };
  subjects?: readonly NativeSubject[] | null;
}

export const RBAC_GROUP = 'rbac.authorization.k8s.io';
export const RBAC_VERSION = `${RBAC_GROUP}/v1`;

const rbac = <T>(plural: string, kind: string, namespaced = true): ResourceOf<T> => ({
  group: RBAC_GROUP,
  version: 'v1',
  plural,
  kind,
  namespaced,
});

export const RBAC_RESOURCES = {
  roles: rbac<NativeRole>('roles', 'Role'),
  roleBindings: rbac<NativeRoleBinding>('rolebindings', 'RoleBinding'),
} as const;

/** Bindings of the whole cluster, which the controller reads and never writes. */
export const CLUSTER_ROLE_BINDINGS = rbac<NativeRoleBinding>('clusterrolebindings', 'ClusterRoleBinding', false);
