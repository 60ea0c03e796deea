import type { NativeRole, NativeRoleBinding, NativeSubject } from '../../../api/rbac.ts';
import { ApiError, isAlreadyExists, isConflict } from '../../../kube/api-error.ts';
import type { Objects, RestDependencies } from '../../../rest/contract/dependencies.ts';
import { forbidden } from '../../../rest/contract/errors.ts';
import { conflict, duplicateName } from '../../../rules/errors.ts';
import { replacementOf } from '../rules/v3-binding.ts';

/** Stores a new role or binding; 409 when its name is taken, 403 for what the controller itself may not give. */
export async function storeNew<T extends NativeRole | NativeRoleBinding>(
  objects: Objects<T>,
  { object, noun, name }: { object: T; noun: string; name: string },
  signal: AbortSignal,
): Promise<T> {
  try {
    return await objects.create(object, signal);
  } catch (error) {
    throw isAlreadyExists(error) ? duplicateName(noun, name) : refusalOfGrant(error);
  }
}

/** The API server refuses to let the controller give what no role of users has. */
export function refusalOfGrant(error: unknown): unknown {
  const isEscalation = error instanceof ApiError && error.status === 403;
  return isEscalation
    ? forbidden('the role permits more than roles of this controller can, so that only a cluster admin gives it')
    : error;
}

/**
 * Puts a binding in the place of another one, which is deleted after it. 409 when another writer did so at the same time; a conflict of
 * the cluster when the other one was changed since it was read: then nothing is replaced.
 */
export async function replaceBinding(
  deps: RestDependencies,
  before: NativeRoleBinding,
  after: { name: string; roleRef: NativeRoleBinding['roleRef']; subjects: readonly NativeSubject[] },
  signal: AbortSignal,
): Promise<NativeRoleBinding> {
  let made: NativeRoleBinding;
  try {
    made = await deps.roleBindings.create(replacementOf(before, after), signal);
  } catch (error) {
    if (isAlreadyExists(error)) throw conflict('CONFLICT', 'the role binding was changed at the same time, try again');
    throw refusalOfGrant(error);
  }
  try {
    await deps.roleBindings.delete(before, signal, { ifUnchanged: true });
  } catch (error) {
    // Somebody changed it since it was read, and the object in its place lacks that change.
    if (isConflict(error)) await deps.roleBindings.delete(made, signal);
    throw error;
  }
  return made;
}
