import { z } from 'zod';
import { LABELS } from '../../../api/names.ts';
import type { NativeRoleBinding } from '../../../api/rbac.ts';
import { retryOnConflict } from '../../../kube/update.ts';
import { createGrants } from '../../../rest/access/grants.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { type Call, grouped, route } from '../../../rest/contract/route.ts';
import * as shapes from '../../../rest/crud/shapes.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { quoted, readDocument, requireName, requireUnchanged } from '../../../rules/document.ts';
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

/** Role bindings of the v3 API, which are RoleBindings of the cluster. The bindings of the installation are not among them. */

type Changing = Pick<Call, 'deps' | 'caller' | 'signal'>;

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

/** The JSON body that is equivalent to a document. */
function readFile(document: unknown, name?: string) {
  const { metadata, spec } = readDocument(document, 'RoleBinding', {
    topLevel: ['roleRef', 'subjects'],
    isClosed: true,
  });
  requireName(metadata.name, name, 'metadata.name');
  return { name: metadata.name, ...spec };
}

const needs = () => ['roles', 'roleBindings'];
const named = { params: shapes.nameParam, needs };
const upload = { kind: 'file', part: 'rolebinding', members: bindingBody } as const;

export const roleBindingRoutes = grouped('Role bindings', [
  route({
    method: 'GET',
    path: '/rolebindings',
    operation: 'listRoleBindings',
    summary: 'All role bindings',
    access: { resource: 'rolebindings', verb: 'list' },
    needs,
    reply: { status: 200, schema: z.array(bindingShape) },
    handler: ({ deps }) => list(deps),
  }),
  route({
    method: 'POST',
    path: '/rolebindings',
    operation: 'createRoleBinding',
    summary: 'Create a role binding',
    access: { resource: 'rolebindings', verb: 'create' },
    needs,
    body: {
      kind: 'json',
      schema: shapes.anyObject,
      documents: bindingBody.meta({ id: 'NewRoleBinding' }),
      shows: bindingShape,
    },
    reply: { status: 201, schema: bindingShape },
    errors: [400, 409],
    handler: (call) => create(call, call.body),
  }),
  route({
    method: 'POST',
    path: '/rolebindings/yaml',
    operation: 'createRoleBindingFromYaml',
    summary: 'Create a role binding from a file',
    description: 'A document of kind RoleBinding.',
    access: { resource: 'rolebindings', verb: 'create' },
    needs,
    body: upload,
    reply: { status: 201, schema: bindingShape },
    errors: [400, 409],
    handler: (call) => create(call, readFile(call.document)),
  }),
  route({
    method: 'GET',
    path: '/rolebindings/{name}',
    operation: 'getRoleBinding',
    summary: 'One role binding',
    access: { resource: 'rolebindings', verb: 'get', name: 'name' },
    ...named,
    reply: { status: 200, schema: bindingShape },
    handler: async ({ deps, params, signal }) =>
      readBinding(await presentBinding(deps, params.name, signal), deps.subjects),
  }),
  route({
    method: 'PATCH',
    path: '/rolebindings/{name}',
    operation: 'updateRoleBinding',
    summary: 'Change a role binding, also its name and its role',
    access: { resource: 'rolebindings', verb: 'patch', name: 'name' },
    ...named,
    body: {
      kind: 'json',
      schema: shapes.anyObject,
      documents: bindingChanges.meta({ id: 'RoleBindingChanges' }),
      shows: bindingShape,
    },
    reply: { status: 200, schema: bindingShape },
    errors: [400, 404, 409],
    handler: (call) => change(call, call.params.name, call.body),
  }),
  route({
    method: 'PATCH',
    path: '/rolebindings/yaml/{name}',
    operation: 'updateRoleBindingFromYaml',
    summary: 'Change a role binding from a file',
    access: { resource: 'rolebindings', verb: 'patch', name: 'name' },
    ...named,
    body: upload,
    reply: { status: 200, schema: bindingShape },
    errors: [400, 404, 409],
    handler: (call) => change(call, call.params.name, readFile(call.document, call.params.name)),
  }),
  route({
    method: 'DELETE',
    path: '/rolebindings/{name}',
    operation: 'deleteRoleBinding',
    summary: 'Delete a role binding',
    access: { resource: 'rolebindings', verb: 'delete', name: 'name' },
    ...named,
    reply: { status: 204 },
    errors: [404],
    handler: (call) => remove(call, call.params.name),
  }),
]);
