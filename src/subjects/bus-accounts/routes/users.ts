import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { BOUNDS } from '../../../api/bounds.ts';
import { API_VERSION } from '../../../api/names.ts';
import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusUser } from '../../../api/v3/bus-user.ts';
import { inUseError, usersOf } from '../../../kinds/definition.ts';
import { replyShape } from '../../../kinds/rest.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { notFound } from '../../../rest/contract/errors.ts';
import { grouped, type Requester, route } from '../../../rest/contract/route.ts';
import { createNamed, deleteObject, isPresent } from '../../../rest/objects/deletion.ts';
import { listReply } from '../../../rest/objects/list-reply.ts';
import { invalid } from '../../../rules/errors.ts';
import { identityLabels, idOf, uuidOf } from '../../../rules/identity.ts';
import { objectName, v3Name } from '../../../rules/names.ts';
import { KINDS } from '../../kinds.ts';
import { accessAskedBy } from '../rules/access.ts';
import { accountNameOf } from '../rules/account.ts';
import { EXPIRES_IN_EXPECTS, lifeOfUser } from '../rules/expiry.ts';
import { BUS_KEYS, userSecretName } from '../rules/secret.ts';
import { userKey } from '../rules/user.ts';
import { requireMqtt } from './mqtt.ts';
import { requireRule } from './rule-exists.ts';
import {
  accountParam,
  applicationIdOf,
  BUS_TAG,
  findUser,
  maySeeSystem,
  presentAccount,
  presentUser,
  requireBus,
  requireMaySee,
  shownUser,
  userParams,
  userShape,
  whenSigned,
} from './shared.ts';

/** The routes of users of the message bus (docs/spec/message-bus.md#accounts-and-users). */
const kind = KINDS.busUsers;
const { plural: resource } = kind.definition;
const needs = () => [kind.key, KINDS.busAccounts.key, KINDS.applications.key];

const createBody = z.strictObject({
  name: z.string().min(1).max(BOUNDS.anyName),
  expiresIn: z
    .string()
    .refine((value) => lifeOfUser(value) !== undefined, `must be ${EXPIRES_IN_EXPECTS}`)
    .optional()
    .describe(`${EXPIRES_IN_EXPECTS}; never when absent`),
  busRule: z.string().min(1).max(BOUNDS.anyName).optional(),
});
type CreateBody = z.output<typeof createBody>;

const list = replyShape({ users: z.array(userShape) });

export const busUserRoutes = grouped(BUS_TAG, [
  route({
    method: 'GET',
    path: '/bus/users',
    operation: 'listBusUsers',
    summary: 'All users of the message bus',
    access: { resource, verb: 'list' },
    reply: { status: 200, schema: list },
    needs,
    handler: (call) => listed(call, call.deps.busUsers.list()),
  }),
  route({
    method: 'GET',
    path: '/bus/accounts/{appName}/users',
    operation: 'listUsersOfBusAccount',
    summary: 'The users of an account',
    access: { resource, verb: 'list' },
    params: accountParam,
    reply: { status: 200, schema: list },
    needs,
    async handler(call) {
      const account = await presentAccount(call, call.params.appName);
      return listed(call, call.deps.busUsers.find('account', accountNameOf(account)));
    },
  }),
  route({
    method: 'POST',
    path: '/bus/accounts/{appName}/users',
    operation: 'createBusUser',
    summary: 'Create a user of an account',
    description: 'A user of the name that exists is returned as it is: delete it and create it again for another key.',
    access: { resource, verb: 'create' },
    params: accountParam,
    body: { kind: 'json', schema: createBody },
    reply: { status: 201, schema: userShape },
    errors: [400, 404, 409],
    needs,
    handler: (call) => create(call, call.params.appName, call.body, {}),
  }),
  route({
    method: 'GET',
    path: '/bus/accounts/{appName}/users/{userName}/creds',
    operation: 'getBusUserCredentials',
    summary: 'The credentials file of a user',
    description: 'Credentials of users of the system are shown to callers who may get `busbootstraps`.',
    access: { resource: 'bususers/creds', verb: 'get' },
    params: userParams,
    isAudited: true,
    reply: { status: 200, schema: replyShape({ credsBase64: z.string() }) },
    needs,
    async handler(call) {
      const { deps, params } = call;
      const account = await presentAccount(call, params.appName);
      const user = await presentUser(call, params.appName, params.userName);
      await requireMaySee(call, account, user);
      await whenSigned(call, 'user', user);
      const creds = deps.busSecrets.read('user', userSecretName(uuidOf(user)))[BUS_KEYS.creds];
      if (creds === undefined)
        throw notFound('BUS_USER_NOT_FOUND', `the user "${params.userName}" has no credentials yet, try again`);
      return { credsBase64: Buffer.from(creds).toString('base64') };
    },
  }),
  route({
    method: 'DELETE',
    path: '/bus/accounts/{appName}/users/{userName}',
    operation: 'deleteBusUser',
    summary: 'Delete and revoke a user of an account',
    access: { resource, verb: 'delete' },
    params: userParams,
    reply: { status: 204 },
    errors: [400, 404, 409],
    needs,
    handler: (call) => remove(call, call.params),
  }),
  route({
    method: 'POST',
    path: '/bus/accounts/{appName}/mqtt-bearer',
    operation: 'createBusBearer',
    summary: 'Create a user of MQTT, whose token is its password',
    description: 'A user of the name that exists is returned as it is.',
    access: { resource, verb: 'create' },
    params: accountParam,
    body: { kind: 'json', schema: createBody },
    reply: { status: 201, schema: userShape },
    errors: [400, 404, 409],
    needs,
    handler: (call) => create(call, call.params.appName, call.body, { isBearer: true }),
  }),
  route({
    method: 'DELETE',
    path: '/bus/accounts/{appName}/mqtt-bearer/{userName}',
    operation: 'deleteBusBearer',
    summary: 'Delete and revoke a user of MQTT',
    access: { resource, verb: 'delete' },
    params: userParams,
    reply: { status: 204 },
    errors: [400, 404, 409],
    needs,
    handler: (call) => remove(call, call.params, { isBearer: true }),
  }),
]);

/** Users with what lists say besides, by account and name. Tokens that are passwords are no part of a list. */
async function listed(requester: Requester, users: readonly BusUser[]) {
  const { deps } = requester;
  const seesSystem = await maySeeSystem(requester);
  const sorted = users.filter(isPresent).toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  const accounts = new Map<string, object & { isSystem: boolean }>();
  const ofAccount = (name: string) => {
    const known = accounts.get(name) ?? describeAccount(deps, name);
    accounts.set(name, known);
    return known;
  };
  return listReply('users', sorted, (user) => {
    const account = ofAccount(user.spec.account);
    const isOfSystem = account.isSystem || user.spec.node !== undefined;
    const seesToken = user.spec.isBearer !== true && (!isOfSystem || seesSystem);
    const shown = shownUser(deps, user, { seesToken });
    return [{ ...shown, ...account, microserviceUuid: user.spec.microserviceUuid ?? null }];
  }) as never;
}

const keyOf = (user: BusUser) => userKey(user.spec.account, v3Name(user));

function describeAccount(deps: RestDependencies, name: string) {
  const [account] = deps.busAccounts.find('name', name);
  const applicationId = account && applicationIdOf(deps, account);
  return {
    accountId: (account && idOf(account)) ?? null,
    accountName: name,
    applicationId: applicationId ?? null,
    applicationName: account?.spec.application ?? null,
    isSystem: account?.spec.system !== undefined,
  };
}

async function create(requester: Requester, appName: string, body: CreateBody, { isBearer }: { isBearer?: true }) {
  const { deps, signal, caller } = requester;
  requireBus(deps);
  const account = await presentAccount(requester, appName);
  if (account.spec.system !== undefined)
    throw invalid(`appName: users of the account "${appName}" belong to the system`, 'appName', 'BUS_USER_OF_SYSTEM');
  const known = await findUser(requester, appName, body.name);
  if (known) {
    const seesToken =
      known.spec.node === undefined &&
      (!known.spec.isBearer || (await caller.may({ resource: 'bususers/creds', verb: 'get' })));
    return shownUser(deps, known, { seesToken }) as never;
  }
  if (body.busRule !== undefined) await requireRule(deps, 'busUserRules', body.busRule, signal);
  if (isBearer) requireMqtt(deps, account);
  const user = await createNamed(
    deps.busUsers,
    { kind: kind.noun, name: userKey(appName, body.name) },
    () => made(requester, account, body, isBearer),
    signal,
  );
  await whenSigned(requester, 'user', user);
  return shownUser(deps, user, { seesToken: true }) as never;
}

async function made(
  { deps, signal }: Requester,
  account: BusAccount,
  body: CreateBody,
  isBearer: true | undefined,
): Promise<BusUser> {
  const of = accountNameOf(account);
  const life = body.expiresIn === undefined ? undefined : lifeOfUser(body.expiresIn);
  return {
    apiVersion: API_VERSION,
    kind: kind.resource.kind,
    metadata: {
      name: objectName(userKey(of, body.name)),
      labels: identityLabels({ uuid: randomUUID(), id: await deps.ids.next(kind.resource.kind, signal) }),
      ownerReferences: [
        {
          apiVersion: account.apiVersion,
          kind: account.kind,
          name: account.metadata.name,
          uid: account.metadata.uid ?? '',
        },
      ],
    },
    spec: {
      name: body.name,
      account: of,
      ...(body.busRule !== undefined && { rule: body.busRule }),
      ...(isBearer && { isBearer }),
      ...(life !== undefined && { expiresAt: new Date(deps.clock() + life).toISOString() }),
    },
  };
}

async function remove(
  requester: Requester,
  { appName, userName }: z.output<typeof userParams>,
  { isBearer }: { isBearer?: true } = {},
): Promise<undefined> {
  const { deps, signal } = requester;
  requireBus(deps);
  const account = await presentAccount(requester, appName);
  const user = await presentUser(requester, appName, userName);
  if (account.spec.system !== undefined || user.spec.node !== undefined)
    throw invalid(
      `userName: the user "${userName}" of the account "${appName}" belongs to the system`,
      'userName',
      'BUS_USER_OF_SYSTEM',
    );
  if (isBearer && !user.spec.isBearer)
    throw invalid(
      `userName: "${userName}" is no user of MQTT: delete it with the route of users`,
      'userName',
      'BUS_USER_NOT_BEARER',
    );
  const linked = microservicesOf(deps, user);
  if (linked.length > 0) throw inUseError(kind, user, usersOf(linked));
  await deleteObject(deps.busUsers, user, signal);
  return undefined;
}

/** Microservices that exist, ask for access, and have the user. */
function microservicesOf({ applications }: RestDependencies, { spec }: BusUser): string[] {
  const { microserviceUuid } = spec;
  if (microserviceUuid === undefined) return [];
  return applications
    .find('microservice', microserviceUuid)
    .filter((application) =>
      accessAskedBy(application)?.users.some((user) => user.microserviceUuid === microserviceUuid),
    )
    .map((application) => `microservice ${v3Name(application)}/${spec.name}`);
}
