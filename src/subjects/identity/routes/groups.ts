import { z } from 'zod';
import { ANNOTATIONS, API_VERSION } from '../../../api/names.ts';
import { type AuthGroup, authGroupResource } from '../../../api/v3/auth-group.ts';
import { HttpError } from '../../../http/http-error.ts';
import { replyShape } from '../../../kinds/rest.ts';
import type { Caller } from '../../../rest/contract/access.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { badRequest, forbidden } from '../../../rest/contract/errors.ts';
import { embeddedDoor } from '../../../rest/contract/identity-door.ts';
import { grouped, route } from '../../../rest/contract/route.ts';
import * as shapes from '../../../rest/crud/shapes.ts';
import { createNamed, isPresent, requireUnprotected } from '../../../rest/objects/deletion.ts';
import { edit } from '../../../rest/objects/edit.ts';
import { presentObject } from '../../../rest/objects/lookup.ts';
import { duplicateName } from '../../../rules/errors.ts';
import { identityLabels, idOf, uuidOf } from '../../../rules/identity.ts';
import { objectName, v3Name } from '../../../rules/names.ts';
import { compareTexts } from '../../../rules/precedence.ts';
import { validateSpec } from '../../../rules/validate.ts';
import { authGroupKind } from '../kinds/auth-group.ts';
import { isSystemGroup, normalGroup } from '../rules/groups.ts';

/** Groups of users. Role bindings name them; users name them, and a former name counts as the group while it exists. */

const resource = authGroupKind.definition.plural;
const needs = () => ['authUsers', 'authGroups', 'roleBindings'];

const groupShape = replyShape(
  { id: z.number().int().optional(), name: z.string(), isSystem: z.boolean(), mfaRequired: z.boolean() },
  'Group',
);
const createBody = z
  .strictObject({ name: z.string().min(1).max(255), mfaRequired: z.boolean().optional() })
  .meta({ id: 'NewGroup' });
const patchBody = z
  .strictObject({ name: z.string().min(1).max(255).optional(), mfaRequired: z.boolean().optional() })
  .meta({ id: 'GroupChanges' });

function shown(group: AuthGroup) {
  const [id, name] = [idOf(group), v3Name(group)];
  return {
    ...(id !== undefined && { id }),
    name,
    isSystem: isSystemGroup(name),
    mfaRequired: group.spec.mfaRequired === true,
  };
}

const groupsOf = ({ authGroups }: RestDependencies) =>
  authGroups
    .list()
    .filter((group) => isPresent(group))
    .map(shown)
    .sort((a, b) => compareTexts(a.name, b.name));

/** A group that has the name, or had it before. */
const holderOf = ({ authGroups }: RestDependencies, name: string) => authGroups.find('called', name).find(isPresent);

/** Whether users or role bindings name a group already, so that it gives something to somebody as soon as it exists. */
function isNamed({ authUsers, roleBindings, subjects }: RestDependencies, name: string): boolean {
  const native = subjects.prefix ? `${subjects.prefix}:${name}` : name;
  return (
    authUsers.list().some(({ spec }) => spec.groups?.includes(name)) ||
    roleBindings.list().some(({ subjects: bound }) => bound?.some((one) => one.kind === 'Group' && one.name === native))
  );
}

/** 403 unless the caller may give the membership of the group. */
async function requireMayBindGroup(caller: Caller, name: string): Promise<void> {
  const permission = { resource, verb: 'bind' } as const;
  if ((await caller.may(permission)) || (await caller.may({ ...permission, name }))) return;
  throw forbidden(
    `name: ${caller.identity?.name ?? ''} may not bind ${resource} "${name}" in the API group of this controller`,
  );
}

const named = {
  params: shapes.nameParam,
  needs,
};
const systemGroup = (what: string) => new HttpError(403, 'SYSTEM_GROUP', `groups of the system are not ${what}`);
const access = (verb: 'get' | 'patch' | 'delete') => ({
  resource,
  verb,
  name: 'name',
  names: (name: string) => [objectName(normalGroup(name))],
});

export const groupRoutes = grouped(authGroupKind.rest.tag, [
  route({
    method: 'GET',
    path: '/groups',
    operation: 'listGroups',
    summary: 'All groups, by name',
    access: { resource, verb: 'list' },
    needs,
    reply: { status: 200, schema: z.array(groupShape) },
    errors: [501],
    handler({ deps }) {
      embeddedDoor(deps);
      return groupsOf(deps);
    },
  }),
  route({
    method: 'POST',
    path: '/groups',
    operation: 'createGroup',
    summary: 'Create a group',
    access: { resource, verb: 'create' },
    needs,
    body: { kind: 'json', schema: createBody },
    reply: { status: 201, schema: groupShape },
    errors: [400, 409, 501],
    async handler({ deps, caller, body, signal }) {
      embeddedDoor(deps);
      const name = normalGroup(body.name);
      const spec = validateSpec(authGroupResource.spec, { name, ...(body.mfaRequired && { mfaRequired: true }) });
      if (isSystemGroup(name) || holderOf(deps, name)) throw duplicateName('group', name);
      if (isNamed(deps, name)) await requireMayBindGroup(caller, name);
      const make = async (): Promise<AuthGroup> => {
        const id = await deps.ids.next(authGroupKind.definition.kind, signal);
        const { name: _, ...rest } = spec;
        const metadata = { name: objectName(name), labels: identityLabels({ id }) };
        return { apiVersion: API_VERSION, kind: authGroupKind.definition.kind, metadata, spec: rest };
      };
      return shown(await createNamed(deps.authGroups, { kind: 'group', name }, make, signal));
    },
  }),
  route({
    method: 'GET',
    path: '/groups/{name}',
    operation: 'getGroup',
    summary: 'One group',
    access: access('get'),
    ...named,
    reply: { status: 200, schema: groupShape },
    errors: [404, 501],
    async handler({ deps, params, signal }) {
      embeddedDoor(deps);
      return shown(await presentObject(deps, authGroupKind, normalGroup(params.name), signal));
    },
  }),
  route({
    method: 'PATCH',
    path: '/groups/{name}',
    operation: 'updateGroup',
    summary: 'Rename a group, or let its members need a second factor',
    description: 'Role bindings are untouched: a group with another name has what is bound to that name.',
    access: access('patch'),
    ...named,
    body: { kind: 'json', schema: patchBody },
    reply: { status: 200, schema: groupShape },
    errors: [400, 404, 409, 501],
    async handler({ deps, caller, params, body, signal }) {
      embeddedDoor(deps);
      const from = normalGroup(params.name);
      const to = body.name === undefined ? from : normalGroup(body.name);
      if (body.name === undefined && body.mfaRequired === undefined) throw badRequest('give name or mfaRequired');
      await presentObject(deps, authGroupKind, from, signal);
      await requireMayBindGroup(caller, from);
      if (to !== from) {
        if (isSystemGroup(from)) throw systemGroup('renamed');
        validateSpec(authGroupResource.spec, { name: to });
        const holder = holderOf(deps, to);
        if (isSystemGroup(to) || (holder && v3Name(holder) !== from)) throw duplicateName('group', to);
        await requireMayBindGroup(caller, to);
      }
      const changed = await edit(
        deps.authGroups,
        () => presentObject(deps, authGroupKind, from, signal),
        (group) => withChangesOf(group, { name: to, mfaRequired: body.mfaRequired }, deps.clock()),
        signal,
      );
      return shown(changed);
    },
  }),
  route({
    method: 'DELETE',
    path: '/groups/{name}',
    operation: 'deleteGroup',
    summary: 'Delete a group',
    access: access('delete'),
    ...named,
    reply: { status: 204 },
    errors: [404, 501],
    async handler({ deps, params, signal }) {
      embeddedDoor(deps);
      const name = normalGroup(params.name);
      if (isSystemGroup(name)) throw systemGroup('deleted');
      const group = await presentObject(deps, authGroupKind, name, signal);
      requireUnprotected(group);
      await deps.authGroups.delete(group, signal);
      return undefined;
    },
  }),
  route({
    method: 'POST',
    path: '/auth/migration/export',
    operation: 'exportUsers',
    summary: 'All users and groups, without anything secret',
    access: { resource: 'authadmin', verb: 'create' },
    needs,
    reply: {
      status: 200,
      schema: replyShape(
        {
          exportedAt: z.string(),
          authMode: z.literal('embedded'),
          users: z.array(z.object({ id: z.string(), email: z.string(), groups: z.array(z.string()) })),
          groups: z.array(z.object({ id: z.number().int().optional(), name: z.string(), isSystem: z.boolean() })),
        },
        'ExportedUsers',
      ),
    },
    errors: [501],
    handler({ deps }) {
      embeddedDoor(deps);
      const users = deps.authUsers.list().filter((user) => isPresent(user));
      return {
        exportedAt: new Date(deps.clock()).toISOString(),
        authMode: 'embedded' as const,
        users: users
          .map((user) => ({ id: uuidOf(user), email: user.spec.email, groups: [...(user.spec.groups ?? [])] }))
          .sort((a, b) => compareTexts(a.email, b.email)),
        groups: groupsOf(deps).map(({ mfaRequired: _, ...group }) => group),
      };
    },
  }),
]);

/** The group with another name, whose former one stays an alias, so that no user is rewritten. */
function withChangesOf(
  group: AuthGroup,
  { name, mfaRequired }: { name: string; mfaRequired: boolean | undefined },
  now: number,
): AuthGroup {
  const former = v3Name(group);
  const { mfaRequired: before, aliases = [], ...spec } = group.spec;
  const isRequired = mfaRequired ?? before ?? false;
  const called = [...new Set([...aliases, ...(name === former ? [] : [former])])].filter((one) => one !== name);
  const annotations = { ...group.metadata.annotations, [ANNOTATIONS.updatedAt]: new Date(now).toISOString() };
  return {
    ...group,
    metadata: { ...group.metadata, annotations },
    spec: {
      ...spec,
      ...(name !== former && { name }),
      ...(called.length > 0 && { aliases: called }),
      ...(isRequired && { mfaRequired: true }),
    },
  };
}
