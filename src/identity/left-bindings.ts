import { CLUSTER_ROLE_BINDINGS, RBAC_RESOURCES } from '../api/rbac.ts';
import { ApiError } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';

/** Bindings of the cluster that name users of before, in every namespace. Most of them are not for the controller to change. */
export interface LeftBindings {
  /** Bindings that name a user with this e-mail, as people call them, read live; undefined where the controller may not read them. */
  naming(email: string, signal: AbortSignal): Promise<string[] | undefined>;
}

export function createLeftBindings({
  client,
  prefix,
}: {
  client: Pick<KubeClient, 'list'>;
  /** of the names of users */
  prefix: string;
}): LeftBindings {
  return {
    async naming(email, signal) {
      const called = prefix === '' ? email : `${prefix}:${email}`;
      const found: string[] = [];
      for (const resource of [RBAC_RESOURCES.roleBindings, CLUSTER_ROLE_BINDINGS])
        try {
          const { items } = await client.list(resource, { signal });
          for (const { metadata, subjects } of items)
            if (subjects?.some(({ kind, name }) => kind === 'User' && name === called))
              found.push(`${resource.kind} ${metadata.namespace ? `${metadata.namespace}/` : ''}${metadata.name}`);
        } catch (error) {
          if (error instanceof ApiError && error.status === 403) return undefined;
          throw error;
        }
      return found;
    },
  };
}
