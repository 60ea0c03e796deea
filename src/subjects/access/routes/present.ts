import type { NativeRole, NativeRoleBinding } from '../../../api/rbac.ts';
import type { Objects, RestDependencies } from '../../../rest/contract/dependencies.ts';
import { notFound } from '../../../rest/contract/errors.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { bindingName, current, isV3Binding, newestOf } from '../rules/v3-binding.ts';
import { isV3Role } from '../rules/v3-role.ts';

/** Whether an object of the cluster can have the name: the API server takes it as one part of a path. */
const isPartOfPath = (name: string): boolean => name !== '.' && name !== '..' && !/[/%]/.test(name);

/** The present role or binding that a path names: as the API server has it now. */
async function present<T extends NativeRole | NativeRoleBinding>(
  objects: Objects<T, 'name'>,
  name: string,
  isIt: (object: T) => boolean,
  signal: AbortSignal,
): Promise<T | undefined> {
  if (!isPartOfPath(name)) return undefined;
  const find = () => newestOf(objects.find('name', name).filter(isPresent));
  const fresh = async (known: string) => {
    const now = await objects.read(known, signal);
    return now && isPresent(now) && isIt(now) ? now : undefined;
  };
  const object = await fresh(find()?.metadata.name ?? name);
  if (object && current([...objects.find('name', name), object]).includes(object)) return object;
  await objects.refresh(signal);
  return find();
}

export async function presentRole(deps: RestDependencies, name: string, signal: AbortSignal): Promise<NativeRole> {
  const role = await present(deps.roles, name, (one) => isV3Role(one) && one.metadata.name === name, signal);
  if (role) return role;
  throw notFound('ROLE_NOT_FOUND', `there is no role "${name}"`);
}

export async function presentBinding(
  deps: RestDependencies,
  name: string,
  signal: AbortSignal,
): Promise<NativeRoleBinding> {
  const isIt = (one: NativeRoleBinding) => isV3Binding(one) && bindingName(one) === name;
  const binding = await present(deps.roleBindings, name, isIt, signal);
  if (binding) return binding;
  throw notFound('ROLE_BINDING_NOT_FOUND', `there is no role binding "${name}"`);
}
