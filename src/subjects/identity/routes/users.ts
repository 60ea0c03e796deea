import { z } from 'zod';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { AuthUser } from '../../../api/v3/auth-user.ts';
import { HttpError } from '../../../http/http-error.ts';
import type { StoredUser } from '../../../identity/contract/users.ts';
import { replyShape } from '../../../kinds/rest.ts';
import type { Caller } from '../../../rest/contract/access.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { badRequest, forbidden, notFound } from '../../../rest/contract/errors.ts';
import { type EmbeddedDoor, embeddedDoor } from '../../../rest/contract/identity-door.ts';
import { grouped, route } from '../../../rest/contract/route.ts';
import { isPresent, requireUnprotected } from '../../../rest/objects/deletion.ts';
import { edit } from '../../../rest/objects/edit.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { authUserKind } from '../kinds/auth-user.ts';
import { isEmail, normalEmail } from '../rules/email.ts';
import { normalGroup } from '../rules/groups.ts';

const needs = () => ['authUsers', 'authGroups', 'authPolicies'];
const params = z.object({ id: z.string().describe('uuid of the user') });

const userShape = replyShape(
  {
    id: z.string(),
    email: z.string(),
    groups: z.array(z.string()),
    mustChangePassword: z.boolean(),
    mfaEnabled: z.boolean(),
    isBootstrap: z.boolean(),
    createdAt: z.string(),
    updatedAt: z.string(),
  },
  'User',
);
const createBody = z
  .object({
    email: z.string().min(1),
    password: z.string().min(1).describe('The user has to change it at the first login.'),
    groups: z.array(z.string()).max(64).optional(),
  })
  .meta({ id: 'NewUser' });
const patchBody = z
  .object({
    email: z.string().min(1).optional(),
    groups: z.array(z.string()).max(64).optional().describe('All groups of the user: others end.'),
  })
  .meta({ id: 'UserChanges' });

const shown = (user: StoredUser) => ({
  id: user.uuid,
  email: user.email,
  groups: [...user.groups],
  mustChangePassword: user.mustChangePassword,
  mfaEnabled: user.mfaEnabled,
  isBootstrap: user.isBootstrap,
  createdAt: user.createdAt,
  updatedAt: user.updatedAt,
});

/** A user of a list, from the stores. */
function listed({ users }: EmbeddedDoor, object: AuthUser) {
  const { metadata } = object;
  const uuid = uuidOf(object);
  const facts = users.facts(uuid);
  const createdAt = metadata.creationTimestamp ?? '';
  return {
    id: uuid,
    email: object.spec.email,
    groups: [...(facts?.groups ?? [])],
    mustChangePassword: facts?.mustChangePassword ?? false,
    mfaEnabled: facts?.mfaEnabled ?? false,
    isBootstrap: facts?.isBootstrap ?? false,
    createdAt,
    updatedAt: metadata.annotations?.[ANNOTATIONS.updatedAt] ?? createdAt,
  };
}

function validEmail(text: string): string {
  const email = normalEmail(text);
  if (isEmail(email)) return email;
  throw badRequest('email: must be an e-mail address of at most 254 characters');
}

/** The groups as users have them; 400 with every name that is no group. */
function knownGroups(deps: RestDependencies, names: readonly string[]): string[] {
  const groups = [...new Set(names.map(normalGroup))];
  const unknown = groups.filter((name) => !deps.authGroups.find('called', name).some(isPresent));
  if (unknown.length > 0) throw badRequest(`groups: there is no group ${unknown.join(', ')}`, 'GROUPS_NOT_FOUND');
  return groups;
}

/** Nobody makes or changes a user that has more than they may give: neither by its groups, nor by its password. */
async function requireNotStronger(
  { grants }: EmbeddedDoor,
  caller: Caller,
  { email, name = email, groups }: { email: string; name?: string; groups: readonly string[] },
): Promise<void> {
  if (grants) {
    for (const one of new Set([email, name])) await grants.requireNotStronger(caller, { email: one, groups });
    return;
  }
  const permission = { resource: 'authgroups', verb: 'bind' } as const;
  for (const group of groups)
    if (!(await caller.may(permission)) && !(await caller.may({ ...permission, name: group })))
      throw forbidden(`groups: ${caller.identity?.name ?? ''} may not bind authgroups "${group}"`);
}

async function present({ users }: EmbeddedDoor, id: string, signal: AbortSignal): Promise<StoredUser> {
  const user = /^[0-9a-f-]{36}$/.test(id) ? await users.byUuid(id, signal) : undefined;
  if (user) return user;
  throw notFound('USER_NOT_FOUND', `there is no user with the id ${id}`);
}

/** Bytes that a user counts for: its object and its Secret. */
const STORED = { content: 0, objects: 4096, count: 1 };

const access = (verb: 'list' | 'create' | 'get' | 'patch' | 'delete') => ({
  resource: authUserKind.definition.plural,
  verb,
  ...(verb !== 'list' && verb !== 'create' && { name: 'id' }),
});

export const userRoutes = grouped(authUserKind.rest.tag, [
  route({
    method: 'GET',
    path: '/users',
    operation: 'listUsers',
    summary: 'All users, by e-mail',
    access: access('list'),
    needs,
    reply: { status: 200, schema: z.array(userShape) },
    errors: [501],
    handler({ deps }) {
      const door = embeddedDoor(deps);
      const users = deps.authUsers.list().filter((user) => isPresent(user));
      return users.map((user) => listed(door, user)).sort((a, b) => (a.email < b.email ? -1 : 1));
    },
  }),
  route({
    method: 'POST',
    path: '/users',
    operation: 'createUser',
    summary: 'Create a user',
    access: access('create'),
    needs,
    body: { kind: 'json', schema: createBody },
    reply: { status: 201, schema: userShape },
    errors: [409, 501],
    async handler({ deps, caller, body, signal }) {
      const door = embeddedDoor(deps);
      const email = validEmail(body.email);
      const groups = knownGroups(deps, body.groups ?? []);
      await requireNotStronger(door, caller, { email, groups });
      const problem = await door.passwords.problem(body.password, undefined, signal);
      if (problem !== undefined) throw badRequest(`password: ${problem}`, 'PASSWORD_NOT_ALLOWED');
      using _ = await deps.budgets.reserve(caller, { usage: STORED, growth: STORED, ofUser: STORED });
      const hash = await door.passwords.hash(body.password, signal);
      return shown(await door.users.create({ email, groups, hash, mustChangePassword: true }, signal));
    },
  }),
  route({
    method: 'GET',
    path: '/users/{id}',
    operation: 'getUser',
    summary: 'One user',
    access: access('get'),
    params,
    needs,
    reply: { status: 200, schema: userShape },
    errors: [404, 501],
    handler: async ({ deps, params: { id }, signal }) => shown(await present(embeddedDoor(deps), id, signal)),
  }),
  route({
    method: 'PATCH',
    path: '/users/{id}',
    operation: 'changeUser',
    summary: 'Change the e-mail or the groups of a user',
    access: access('patch'),
    params,
    needs,
    body: { kind: 'json', schema: patchBody },
    reply: { status: 200, schema: userShape },
    errors: [404, 409, 501],
    async handler({ deps, caller, params: { id }, body, signal }) {
      const door = embeddedDoor(deps);
      const user = await present(door, id, signal);
      const email = body.email === undefined ? user.email : validEmail(body.email);
      const groups = body.groups && knownGroups(deps, body.groups);
      await requireNotStronger(door, caller, user);
      await requireNotStronger(door, caller, { email, groups: groups ?? user.groups });
      if (email !== user.email) await door.users.rename(user.uuid, email, signal);
      if (groups) await putGroups(deps, user.uuid, groups, signal);
      return shown(await present(door, id, signal));
    },
  }),
  route({
    method: 'DELETE',
    path: '/users/{id}',
    operation: 'deleteUser',
    summary: 'Delete a user, and end its logins',
    access: access('delete'),
    params,
    needs,
    reply: { status: 204 },
    errors: [404, 501],
    async handler({ deps, caller, params: { id }, signal }) {
      const door = embeddedDoor(deps);
      const user = await present(door, id, signal);
      if (caller.identity?.subject === user.uuid)
        throw new HttpError(403, 'OWN_ACCOUNT', 'you may not delete your own account');
      if (user.isBootstrap) throw new HttpError(403, 'BOOTSTRAP_USER', 'the first administrator may not be deleted');
      await requireNotStronger(door, caller, user);
      const [object] = deps.authUsers.find('uuid', user.uuid);
      if (object) requireUnprotected({ ...object, spec: { name: object.spec.email } });
      await door.users.remove(user.uuid, signal);
      return undefined;
    },
  }),
  route({
    method: 'POST',
    path: '/users/{id}/reset-password',
    operation: 'resetPassword',
    summary: 'Give a user a temporary password, and end its logins',
    access: access('patch'),
    params,
    needs,
    reply: {
      status: 200,
      schema: replyShape({ temporaryPassword: z.string(), mustChangePassword: z.literal(true) }, 'TemporaryPassword'),
    },
    errors: [404, 501],
    async handler({ deps, caller, params: { id }, signal }) {
      const door = embeddedDoor(deps);
      const user = await present(door, id, signal);
      await requireNotStronger(door, caller, user);
      const temporaryPassword = await door.passwordChange.reset(user.uuid, signal);
      return { temporaryPassword, mustChangePassword: true as const };
    },
  }),
  route({
    method: 'POST',
    path: '/users/{id}/reset-token',
    operation: 'createResetToken',
    summary: 'A token with which a user sets a new password, once',
    access: access('patch'),
    params,
    needs,
    reply: {
      status: 200,
      schema: replyShape({ resetToken: z.string(), expiresIn: z.number().int() }, 'ResetToken'),
    },
    errors: [404, 501],
    async handler({ deps, caller, params: { id }, signal }) {
      const door = embeddedDoor(deps);
      const user = await present(door, id, signal);
      await requireNotStronger(door, caller, user);
      const { token, expiresIn } = await door.passwordChange.resetToken(user.uuid, signal);
      return { resetToken: token, expiresIn };
    },
  }),
  route({
    method: 'POST',
    path: '/auth/jwks/rotate',
    operation: 'rotateSigningKey',
    summary: 'Make a new signing key',
    description:
      'It is published at once and signs after a minute; tokens of the former key stay valid until they expire. No restart is needed.',
    access: { resource: 'authadmin', verb: 'patch' },
    reply: {
      status: 200,
      schema: replyShape({ kid: z.string(), rotatedAt: z.string(), restartRequired: z.literal(true) }, 'RotatedKey'),
    },
    errors: [501],
    handler: async ({ deps, signal }) => ({
      ...(await embeddedDoor(deps).keys.rotate(signal)),
      restartRequired: true as const,
    }),
  }),
]);

/** Replaces the groups of a user. */
async function putGroups(deps: RestDependencies, uuid: string, groups: string[], signal: AbortSignal): Promise<void> {
  const name = deps.authUsers.find('uuid', uuid)[0]?.metadata.name ?? uuid;
  await edit(
    deps.authUsers,
    async () => {
      const object = await deps.authUsers.read(name, signal);
      if (object && isPresent(object)) return object;
      throw notFound('USER_NOT_FOUND', `there is no user with the id ${uuid}`);
    },
    (object) => {
      const at = new Date(deps.clock()).toISOString();
      const annotations = { ...object.metadata.annotations, [ANNOTATIONS.updatedAt]: at };
      const { groups: _, ...spec } = object.spec;
      return {
        ...object,
        metadata: { ...object.metadata, annotations },
        spec: { ...spec, ...(groups.length > 0 && { groups }) },
      };
    },
    signal,
  );
}
