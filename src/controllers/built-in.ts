import { FIELD_MANAGERS } from '../api/names.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { equal, refOf } from '../kube/mod.ts';
import type { BuiltIn } from '../rules/built-in.ts';
import type { ControllerDependencies } from './dependencies.ts';

/** A step of a reconciler: built-in objects have the spec of this release again, whoever changed it. */
export function keepBuiltIns<T extends KindObject>(
  { client }: Pick<ControllerDependencies, 'client'>,
  { definition, resource }: Kind<T>,
  builtIns: readonly BuiltIn<T['spec']>[],
): (object: T, signal: AbortSignal) => Promise<void> {
  /** the specs as the API server stores them */
  const specs = new Map(builtIns.map(({ name, spec }) => [name, definition.spec.parse(spec) as T['spec']]));
  return async (object, signal) => {
    const spec = specs.get(object.metadata.name);
    if (!spec || object.metadata.deletionTimestamp || equal(object.spec, spec)) return;
    const { resourceVersion } = object.metadata;
    // Members that the release does not have are removed.
    const absent = Object.keys(object.spec).filter((member) => !Object.hasOwn(spec, member));
    const body = {
      metadata: { resourceVersion },
      spec: { ...Object.fromEntries(absent.map((member) => [member, null])), ...spec },
    };
    const options = { signal, fieldManager: FIELD_MANAGERS.controller };
    await client.patch(resource, refOf(object), { type: 'merge', body }, options);
  };
}
