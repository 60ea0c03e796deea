import { LABELS } from '../../../api/names.ts';
import type { NativeRoleBinding } from '../../../api/rbac.ts';
import { retryOnConflict } from '../../../kube/update.ts';
import { createGrants } from '../../../rest/access/grants.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { quoted, requireUnchanged } from '../../../rules/document.ts';
import { duplicateName, invalid } from '../../../rules/errors.ts';
import { compareTexts } from '../../../rules/precedence.ts';
import { validateSpec } from '../../../rules/validate.ts';
import { canonicalJson } from '../../../wire/digest.ts';
import { requireRbacName, roleNameOf, SYSTEM_ROLES } from '../rules/names.ts';
import {
  bindingBody,
  bindingChanges,
  bindingName,
  bindingShape,
  current,
  isV3Binding,
  nativeRoleRef,
  nativeSubjects,
  newBinding,
  readBinding,
} from '../rules/v3-binding.ts';
import { idOfRbac } from '../rules/v3-role.ts';
import { presentBinding, presentRole } from './present.ts';
import { refusalOfGrant, replaceBinding, storeNew } from './store.ts';
import { type Changing, rbacRoutes } from './table.ts';

/** Role bindings of the v3 API, which are RoleBindings of the cluster. The bindings of the installation are not among them. */

function list(deps: RestDependencies) {
  const stored = deps.roleBindings.list().filter((binding) => isV3Binding(binding) && isPresent(binding));
  return current(stored)
    .sort((a, b) => compareTexts(bindingName(a), bindingName(b)))
    .map((binding) => readBinding(binding, deps.subjects));
}

/** 400 unless there is a role of this name. */
async function requireRole(deps: RestDependencies, name: string, signal: AbortSignal): Promise<void> {
  if (SYSTEM_ROLES.some((one) => one === name)) return;
  const isMissing = await presentRole(deps, name, signal).then(
    () => false,
    (error) => (error as { code?: string }).code === 'ROLE_NOT_FOUND' || Promise.reject(error),
  );
  if (isMissing) throw invalid(`roleRef.name: there is no role ${quoted(name)}`, 'roleRef.name', 'ROLE_NOT_FOUND');
}

async function create({ deps, caller, signal }: Changing, body: unknown) {
  const { name, roleRef, subjects } = validateSpec(bindingBody, body);
  requireRbacName(name, 'name');
  const native = { roleRef: nativeRoleRef(roleRef.name), subjects: nativeSubjects(subjects, deps.subjects) };
  await requireRole(deps, roleRef.name, signal);
  await createGrants(deps).requireMayBindRole(caller, roleRef.name, 'roleRef');
  if (deps.roleBindings.find('name', name).some(isPresent)) throw duplicateName('role binding', name);
  const id = await deps.ids.next('RoleBinding', signal);
  const object = newBinding(name, { [LABELS.id]: String(id) }, native);
  return readBinding(await storeNew(deps.roleBindings, { object, noun: 'role binding', name }, signal), deps.subjects);
}

async function change({ deps, caller, signal }: Changing, from: string, body: unknown) {
  const changes = validateSpec(bindingChanges, body);
  const attempt = async () => {
    const before = await presentBinding(deps, from, signal);
    requireUnchanged('id', changes.id, idOfRbac(before).id);
    const name = changes.name ?? from;
    const roleRef = changes.roleRef ? nativeRoleRef(changes.roleRef.name) : before.roleRef;
    const subjects = changes.subjects
      ? nativeSubjects(changes.subjects, deps.subjects, before.subjects ?? [])
      : (before.subjects ?? []);
    const after = { name, roleRef, subjects };
    if (name !== from) requireRbacName(name, 'name');
    if (gives(before, after)) {
      const role = roleNameOf(roleRef.name);
      await requireRole(deps, role, signal);
      await createGrants(deps).requireMayBindRole(caller, role, 'roleRef');
    }
    const isReplaced = name !== from || canonicalJson(roleRef) !== canonicalJson(before.roleRef);
    if (!isReplaced) return replaceSubjects(deps, before, subjects, signal);
    if (name !== from && deps.roleBindings.find('name', name).some(isPresent))
      throw duplicateName('role binding', name);
    return replaceBinding(deps, before, after, signal);
  };
  return readBinding(await retryOnConflict(attempt, { signal }), deps.subjects);
}

/** Whether somebody gets something by a change that they did not have. */
function gives(before: NativeRoleBinding, after: Pick<NativeRoleBinding, 'roleRef' | 'subjects'>): boolean {
  if (canonicalJson(before.roleRef) !== canonicalJson(after.roleRef)) return true;
  const had = new Set((before.subjects ?? []).map(canonicalJson));
  return (after.subjects ?? []).some((one) => !had.has(canonicalJson(one)));
}

async function replaceSubjects(
  deps: RestDependencies,
  before: NativeRoleBinding,
  subjects: NonNullable<NativeRoleBinding['subjects']>,
  signal: AbortSignal,
): Promise<NativeRoleBinding> {
  if (canonicalJson(subjects) === canonicalJson(before.subjects ?? [])) return before;
  try {
    return await deps.roleBindings.replace({ ...before, subjects }, signal);
  } catch (error) {
    throw refusalOfGrant(error);
  }
}

/** Also what a replica that ended on the way has left of it. */
async function remove({ deps, signal }: Changing, name: string): Promise<undefined> {
  const binding = await presentBinding(deps, name, signal);
  for (const former of deps.roleBindings.find('name', name))
    if (former.metadata.uid !== binding.metadata.uid) await deps.roleBindings.delete(former, signal);
  await deps.roleBindings.delete(binding, signal);
}

async function get({ deps, signal }: Changing, name: string) {
  return readBinding(await presentBinding(deps, name, signal), deps.subjects);
}

export const roleBindingRoutes = rbacRoutes({
  ...{ kind: 'RoleBinding', noun: 'role binding', resource: 'rolebindings', topLevel: ['roleRef', 'subjects'] },
  needs: ['roles', 'roleBindings'],
  ...{ body: bindingBody, changes: bindingChanges, shape: bindingShape },
  about: { change: 'Change a role binding, also its name and its role' },
  deletion: [404],
  ...{ list, get, create, change, remove },
});
