import type { z } from 'zod';
import { ANNOTATIONS, LABELS } from '../../../api/names.ts';
import type { NativeRole } from '../../../api/rbac.ts';
import { usersOf, usersText } from '../../../kinds/definition.ts';
import { retryOnConflict } from '../../../kube/update.ts';
import { createGrants } from '../../../rest/access/grants.ts';
import { knownResources, ownRulesOf, ROLE_NAMES } from '../../../rest/access/roles.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { edit } from '../../../rest/objects/edit.ts';
import { requireUnchanged } from '../../../rules/document.ts';
import { conflict } from '../../../rules/errors.ts';
import { v3Name } from '../../../rules/names.ts';
import { compareTexts } from '../../../rules/precedence.ts';
import { validateSpec } from '../../../rules/validate.ts';
import { canonicalJson } from '../../../wire/digest.ts';
import { SYSTEM_ROLE_RULES, serviceAccountName } from '../../accounts/rules/service-account.ts';
import { requireCustomRole, requireRbacName, SYSTEM_ROLES } from '../rules/names.ts';
import { createTranslation } from '../rules/translation.ts';
import { bindingName, current, nativeRoleRef } from '../rules/v3-binding.ts';
import {
  idOfRbac,
  isV3Role,
  newRole,
  readRole,
  roleBody,
  roleChanges,
  roleShape,
  withV3Rules,
} from '../rules/v3-role.ts';
import { presentRole } from './present.ts';
import { refusalOfGrant, replaceBinding, storeNew } from './store.ts';
import { type Changing, rbacRoutes } from './table.ts';

/** Roles of the v3 API, which are Roles of the cluster; six belong to the system. */

const translationOf = ({ kinds }: Pick<RestDependencies, 'kinds'>) => createTranslation(knownResources(kinds));

/** A role that every installation has; it has no number. */
function systemRole(deps: RestDependencies, name: string) {
  const known = SYSTEM_ROLES.find((one) => one === name);
  if (!known) return undefined;
  const own = ROLE_NAMES.find((one) => one === name);
  const rules = own ? translationOf(deps).toV3(ownRulesOf(own, deps.kinds)) : (SYSTEM_ROLE_RULES[known] ?? []);
  return { name, kind: 'Role', rules: rules.map((one) => ({ ...one })) };
}

function list(deps: RestDependencies) {
  const translation = translationOf(deps);
  const stored = deps.roles.list().filter((role) => isV3Role(role) && isPresent(role));
  const own = current(stored).sort((a, b) => compareTexts(a.metadata.name, b.metadata.name));
  return [
    ...SYSTEM_ROLES.flatMap((name) => systemRole(deps, name) ?? []),
    ...own.map((role) => readRole(role, translation)),
  ];
}

async function get({ deps, signal }: Changing, name: string) {
  return systemRole(deps, name) ?? readRole(await presentRole(deps, name, signal), translationOf(deps));
}

async function create({ deps, caller, signal }: Changing, body: unknown) {
  const { name, rules } = validateSpec(roleBody, body);
  requireCustomRole(name, 'name');
  requireRbacName(name, 'name');
  const translation = translationOf(deps);
  const native = translation.toNative(rules);
  await createGrants(deps).requireMayGrant(caller, native, 'rules');
  const id = await deps.ids.next('Role', signal);
  const object = withV3Rules(newRole(name, { [LABELS.id]: String(id) }), rules, native);
  return readRole(await storeNew(deps.roles, { object, noun: 'role', name }, signal), translation);
}

async function change(call: Changing, name: string, body: unknown) {
  const { deps, caller, signal } = call;
  requireCustomRole(name, 'name');
  const changes = validateSpec(roleChanges, body);
  const translation = translationOf(deps);
  if (changes.name !== undefined && changes.name !== name)
    return readRole(await rename(call, name, { ...changes, name: changes.name }), translation);
  const native = translation.toNative(changes.rules);
  const changed = await edit(
    deps.roles,
    () => presentRole(deps, name, signal),
    async (role) => {
      requireUnchanged('id', changes.id, idOfRbac(role).id);
      if (canonicalJson(role.rules ?? []) !== canonicalJson(native))
        await createGrants(deps).requireMayGrant(caller, native, 'rules');
      const after = withV3Rules(role, changes.rules, native);
      return canonicalJson(after) === canonicalJson(role) ? role : after;
    },
    signal,
  ).catch((error: unknown) => {
    throw refusalOfGrant(error);
  });
  return readRole(changed, translation);
}

/** A role with another name is another object: it exists, and is bound, before the former one is deleted. */
async function rename(
  { deps, caller, signal }: Changing,
  from: string,
  { name, rules, id }: z.infer<typeof roleChanges> & { name: string },
): Promise<NativeRole> {
  requireCustomRole(name, 'name');
  requireRbacName(name, 'name');
  const native = translationOf(deps).toNative(rules);
  const before = await presentRole(deps, from, signal);
  requireUnused(deps, from);
  requireUnchanged('id', id, idOfRbac(before).id);
  // Something may name the new role already, so that this is asked also when the rules stay.
  await createGrants(deps).requireMayGrant(caller, native, 'rules');
  const made = newRole(name, before.metadata.labels ?? {});
  const annotations = { ...before.metadata.annotations, [ANNOTATIONS.replaces]: before.metadata.uid ?? '' };
  const object = withV3Rules({ ...made, metadata: { ...made.metadata, annotations } }, rules, native);
  const stored = await storeNew(deps.roles, { object, noun: 'role', name }, signal);
  await deps.roleBindings.refresh(signal);
  for (const binding of current(deps.roleBindings.find('role', from))) {
    const move = async () => {
      const now = await deps.roleBindings.read(binding.metadata.name, signal);
      if (!now || now.metadata.uid !== binding.metadata.uid) return;
      const after = { name: bindingName(now), roleRef: nativeRoleRef(name), subjects: now.subjects ?? [] };
      await replaceBinding(deps, now, after, signal);
    };
    await retryOnConflict(move, { signal });
  }
  await deps.roles.delete(before, signal);
  return stored;
}

/** 409 while a microservice has the role: its next start would have no permission. */
function requireUnused({ serviceAccounts, applications }: RestDependencies, name: string): void {
  const named = [
    ...serviceAccounts.find('role', name).map((one) => `service account ${serviceAccountName(one)}`),
    ...applications.find('role', name).map((one) => `application ${v3Name(one)}`),
  ];
  if (named.length === 0) return;
  throw conflict('ROLE_IN_USE', `role "${name}" is used by ${usersText(usersOf(named))}`);
}

async function remove({ deps, signal }: Changing, name: string): Promise<undefined> {
  requireCustomRole(name, 'name');
  requireUnused(deps, name);
  await deps.roles.delete(await presentRole(deps, name, signal), signal);
}

export const roleRoutes = rbacRoutes({
  ...{ kind: 'Role', noun: 'role', resource: 'roles', topLevel: ['rules'] },
  needs: ['roles', 'roleBindings', 'serviceAccounts', 'applications'],
  ...{ body: roleBody, changes: roleChanges, shape: roleShape },
  about: {
    list: 'The six roles of the system first; these have no number.',
    change: 'Change a role, also its name',
  },
  deletion: [400, 404, 409],
  ...{ list, get, create, change, remove },
});
