import { z } from 'zod';
import { ANNOTATIONS, LABELS } from '../../../api/names.ts';
import type { NativeRole } from '../../../api/rbac.ts';
import { usersOf, usersText } from '../../../kinds/definition.ts';
import { createGrants } from '../../../rest/access/grants.ts';
import { knownResources, ownRulesOf, ROLE_NAMES } from '../../../rest/access/roles.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { type Call, grouped, route } from '../../../rest/contract/route.ts';
import * as shapes from '../../../rest/crud/shapes.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { edit } from '../../../rest/objects/edit.ts';
import { readDocument, requireName, requireUnchanged } from '../../../rules/document.ts';
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

/** Roles of the v3 API, which are Roles of the cluster; six belong to the system. */

type Changing = Pick<Call, 'deps' | 'caller' | 'signal'>;

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
    const after = { name: bindingName(binding), roleRef: nativeRoleRef(name), subjects: binding.subjects ?? [] };
    await replaceBinding(deps, binding, after, signal);
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

/** The JSON body that is equivalent to a document. */
function readFile(document: unknown, name?: string) {
  const { metadata, spec } = readDocument(document, 'Role', { topLevel: ['rules'], isClosed: true });
  requireName(metadata.name, name, 'metadata.name');
  return { name: metadata.name, ...spec };
}

const needs = () => ['roles', 'roleBindings', 'serviceAccounts', 'applications'];
const named = { params: shapes.nameParam, needs };
const upload = { kind: 'file', part: 'role', members: roleBody } as const;

export const roleRoutes = grouped('Roles', [
  route({
    method: 'GET',
    path: '/roles',
    operation: 'listRoles',
    summary: 'All roles',
    description: 'The six roles of the system first; these have no number.',
    access: { resource: 'roles', verb: 'list' },
    needs,
    reply: { status: 200, schema: z.array(roleShape) },
    handler: ({ deps }) => list(deps),
  }),
  route({
    method: 'POST',
    path: '/roles',
    operation: 'createRole',
    summary: 'Create a role',
    access: { resource: 'roles', verb: 'create' },
    needs,
    body: { kind: 'json', schema: shapes.anyObject, documents: roleBody.meta({ id: 'NewRole' }), shows: roleShape },
    reply: { status: 201, schema: roleShape },
    errors: [400, 409],
    handler: (call) => create(call, call.body),
  }),
  route({
    method: 'POST',
    path: '/roles/yaml',
    operation: 'createRoleFromYaml',
    summary: 'Create a role from a file',
    description: 'A document of kind Role.',
    access: { resource: 'roles', verb: 'create' },
    needs,
    body: upload,
    reply: { status: 201, schema: roleShape },
    errors: [400, 409],
    handler: (call) => create(call, readFile(call.document)),
  }),
  route({
    method: 'GET',
    path: '/roles/{name}',
    operation: 'getRole',
    summary: 'One role',
    access: { resource: 'roles', verb: 'get', name: 'name' },
    ...named,
    reply: { status: 200, schema: roleShape },
    handler: (call) => get(call, call.params.name),
  }),
  route({
    method: 'PATCH',
    path: '/roles/{name}',
    operation: 'updateRole',
    summary: 'Change a role, also its name',
    access: { resource: 'roles', verb: 'patch', name: 'name' },
    ...named,
    body: {
      kind: 'json',
      schema: shapes.anyObject,
      documents: roleChanges.meta({ id: 'RoleChanges' }),
      shows: roleShape,
    },
    reply: { status: 200, schema: roleShape },
    errors: [400, 404, 409],
    handler: (call) => change(call, call.params.name, call.body),
  }),
  route({
    method: 'PATCH',
    path: '/roles/yaml/{name}',
    operation: 'updateRoleFromYaml',
    summary: 'Change a role from a file',
    access: { resource: 'roles', verb: 'patch', name: 'name' },
    ...named,
    body: upload,
    reply: { status: 200, schema: roleShape },
    errors: [400, 404, 409],
    handler: (call) => change(call, call.params.name, readFile(call.document, call.params.name)),
  }),
  route({
    method: 'DELETE',
    path: '/roles/{name}',
    operation: 'deleteRole',
    summary: 'Delete a role',
    access: { resource: 'roles', verb: 'delete', name: 'name' },
    ...named,
    reply: { status: 204 },
    errors: [400, 404, 409],
    handler: (call) => remove(call, call.params.name),
  }),
]);
