import { ANNOTATIONS, FIELD_MANAGERS } from '../../../api/names.ts';
import { type NativeRole, type NativeRoleBinding, RBAC_RESOURCES } from '../../../api/rbac.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import {
  type Controller,
  createController,
  done,
  isAlreadyExists,
  isConflict,
  type KubeObject,
  parseKey,
  type Resource,
  refOf,
  requeueAfter,
  type Store,
  watching,
} from '../../../kube/mod.ts';
import { bindingName, current, isV3Binding, nativeRoleRef, replacementOf } from '../rules/v3-binding.ts';
import { isV3Role } from '../rules/v3-role.ts';

/** How long a request has to delete what it has replaced. */
const GRACE_MS = 30_000;

type Leftover = KubeObject & NativeRole;
type Deps = Pick<ControllerDependencies, 'client' | 'stores' | 'clock' | 'log' | 'metrics'>;

/**
 * Ends renames and changes of roles that a replica left half done: what another object is in the place of is deleted. Meanwhile both give
 * access.
 */
export function createLeftovers(deps: Deps): Controller[] {
  const { roles, roleBindings } = deps.stores;
  return [
    leftoversIn(deps, {
      name: 'replaced-role-bindings',
      resource: RBAC_RESOURCES.roleBindings,
      store: roleBindings,
      isOurs: isV3Binding,
    }),
    leftoversIn(deps, {
      name: 'replaced-roles',
      resource: RBAC_RESOURCES.roles,
      store: roles,
      isOurs: isV3Role,
      before: (former, next, signal) => rebind(deps, former, next, signal),
    }),
  ];
}

interface Replaced<T extends KubeObject> {
  name: string;
  resource: Resource<T>;
  store: Store<T>;
  isOurs(object: T): boolean;
  before?(former: T, next: T, signal: AbortSignal): Promise<void>;
}

function leftoversIn<T extends KubeObject>(
  { client, clock, log, metrics }: Deps,
  { name, resource, store, isOurs, before }: Replaced<T>,
): Controller {
  return createController({
    name,
    watches: [watching(store)],
    log,
    metrics,
    async reconcile(key, { signal }) {
      const ref = parseKey(key);
      const next = store.get(ref.namespace, ref.name);
      const replaces = next?.metadata.annotations?.[ANNOTATIONS.replaces];
      if (!next || !replaces || !isOurs(next)) return done();
      const former = store.list().find(({ metadata }) => metadata.uid === replaces);
      if (!former || !isOurs(former)) return done();
      const wait = Date.parse(next.metadata.creationTimestamp ?? '') + GRACE_MS - clock();
      if (wait > 0) return requeueAfter(wait);
      await before?.(former, next, signal);
      await client.delete(resource, refOf(former), { preconditions: { uid: replaces }, signal });
      return done();
    },
  });
}

/** Bindings of a role that has another name now. */
async function rebind({ client, stores }: Deps, former: Leftover, next: Leftover, signal: AbortSignal): Promise<void> {
  const bound = current<KubeObject & NativeRoleBinding>(stores.roleBindings.byIndex('role', former.metadata.name));
  for (const binding of bound) {
    const after = {
      name: bindingName(binding),
      roleRef: nativeRoleRef(next.metadata.name),
      subjects: binding.subjects ?? [],
    };
    const { namespace } = binding.metadata;
    const made = replacementOf(binding, after);
    const object = { ...made, metadata: { ...made.metadata, ...(namespace && { namespace }) } };
    const options = { fieldManager: FIELD_MANAGERS.rest, signal };
    await client.create(RBAC_RESOURCES.roleBindings, object, options).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
    await client
      .delete(RBAC_RESOURCES.roleBindings, refOf(binding), {
        ...(binding.metadata.uid && { preconditions: { uid: binding.metadata.uid } }),
        signal,
      })
      .catch((error: unknown) => {
        if (!isConflict(error)) throw error;
      });
  }
}
