import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { BOUNDS } from '../../../api/bounds.ts';
import { API_VERSION } from '../../../api/names.ts';
import type { BusAccount } from '../../../api/v3/bus-account.ts';
import { replyShape } from '../../../kinds/rest.ts';
import { forbidden } from '../../../rest/contract/errors.ts';
import { grouped, type Requester, route } from '../../../rest/contract/route.ts';
import { createNamed, isPresent } from '../../../rest/objects/deletion.ts';
import { edit, withChanges } from '../../../rest/objects/edit.ts';
import { listReply } from '../../../rest/objects/list-reply.ts';
import { applicationByName, findObject } from '../../../rest/objects/lookup.ts';
import { TAKEN_ACCOUNT_NAMES } from '../../../rules/bus-accounts.ts';
import { invalid } from '../../../rules/errors.ts';
import { identityLabels } from '../../../rules/identity.ts';
import { objectName } from '../../../rules/names.ts';
import { KINDS } from '../../kinds.ts';
import { accountNameOf } from '../rules/account.ts';
import { requireRule } from './rule-exists.ts';
import {
  accountParam,
  accountShape,
  BUS_TAG,
  maySeeSystem,
  presentAccount,
  requireBus,
  shownAccount,
  whenSigned,
} from './shared.ts';

/** The routes of accounts of the message bus (docs/spec/message-bus.md#accounts-and-users). */
const kind = KINDS.busAccounts;
const { plural: resource } = kind.definition;
const byName = { name: 'appName', names: (name: string) => [objectName(name)] };

export const busAccountRoutes = grouped(BUS_TAG, [
  route({
    method: 'GET',
    path: '/bus/accounts',
    operation: 'listBusAccounts',
    summary: 'All accounts of the message bus',
    access: { resource, verb: 'list' },
    reply: { status: 200, schema: replyShape({ accounts: z.array(accountShape) }) },
    needs: () => [kind.key, KINDS.applications.key],
    async handler(call) {
      const { deps } = call;
      const seesSystem = await maySeeSystem(call);
      const accounts = deps.busAccounts.list().filter(isPresent);
      const sorted = accounts.toSorted((a, b) => (accountNameOf(a) < accountNameOf(b) ? -1 : 1));
      return listReply('accounts', sorted, (account) => [{ ...shownAccount(deps, account, seesSystem) }]) as never;
    },
  }),
  route({
    method: 'GET',
    path: '/bus/accounts/{appName}',
    operation: 'getBusAccount',
    summary: 'The account of an application',
    access: { resource, verb: 'get', ...byName },
    params: accountParam,
    reply: { status: 200, schema: accountShape },
    needs: () => [kind.key, KINDS.applications.key],
    async handler(call) {
      const account = await presentAccount(call, call.params.appName);
      return shownAccount(call.deps, account, await maySeeSystem(call)) as never;
    },
  }),
  route({
    method: 'POST',
    path: '/bus/accounts/{appName}',
    operation: 'ensureBusAccount',
    summary: 'Give an application an account',
    description: 'The account that the application has is returned; another rule limits it from then on.',
    access: { resource, verb: 'create' },
    params: accountParam,
    body: {
      kind: 'json',
      optional: true,
      schema: z.strictObject({ busRule: z.string().min(1).max(BOUNDS.anyName).optional() }).optional(),
    },
    reply: { status: 201, schema: accountShape },
    errors: [400, 404, 409],
    needs: () => [kind.key, KINDS.applications.key],
    async handler(call) {
      const { deps, params, body } = call;
      requireBus(deps);
      const account = await ensure(call, params.appName, body?.busRule);
      await whenSigned(call, 'account', account);
      return shownAccount(deps, account, false) as never;
    },
  }),
]);

async function ensure(requester: Requester, name: string, rule: string | undefined): Promise<BusAccount> {
  const { deps, signal } = requester;
  const known = await findObject(deps, kind, name, signal);
  if (known?.spec.system !== undefined || TAKEN_ACCOUNT_NAMES.includes(name))
    throw invalid(`appName: the account "${name}" belongs to the system`, 'appName', 'BUS_NAME_TAKEN');
  const application = await applicationByName(deps, name, signal);
  if (rule !== undefined) await requireRule(deps, 'busAccountRules', rule, signal);
  if (known) return rebind(requester, known, rule);
  const make = async (): Promise<BusAccount> => ({
    apiVersion: API_VERSION,
    kind: kind.resource.kind,
    metadata: {
      name: objectName(name),
      labels: identityLabels({ uuid: randomUUID(), id: await deps.ids.next(kind.resource.kind, signal) }),
      ownerReferences: [
        {
          apiVersion: application.apiVersion,
          kind: application.kind,
          name: application.metadata.name,
          uid: application.metadata.uid ?? '',
        },
      ],
    },
    spec: { name, application: name, ...(rule !== undefined && { rule }) },
  });
  return createNamed(deps.busAccounts, { kind: kind.noun, name }, make, signal);
}

/** Where the application asks for its account, the application says the rule. */
async function rebind(requester: Requester, account: BusAccount, rule: string | undefined): Promise<BusAccount> {
  const { deps, caller, signal } = requester;
  if (rule === undefined || account.spec.rule === rule) return account;
  const name = accountNameOf(account);
  if (account.spec.busAccess !== true)
    return edit(
      deps.busAccounts,
      () => presentAccount(requester, name),
      (present) => withChanges(present, { spec: { ...present.spec, rule } }),
      signal,
    );
  if (!(await caller.may({ resource: 'applications', verb: 'patch' })))
    throw forbidden(`the application "${name}" says the rule of its account, and you may not change applications`);
  await edit(
    deps.applications,
    () => applicationByName(deps, name, signal),
    (application) =>
      withChanges(application, {
        spec: { ...application.spec, busConfig: { ...application.spec.busConfig, busRule: rule } },
      }),
    signal,
  );
  return account;
}
