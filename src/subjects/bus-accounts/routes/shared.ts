import { z } from 'zod';
import { BOUNDS } from '../../../api/bounds.ts';
import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusUser } from '../../../api/v3/bus-user.ts';
import { holderIn } from '../../../datastore/holder.ts';
import { replyShape } from '../../../kinds/rest.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { forbidden, notFound } from '../../../rest/contract/errors.ts';
import type { Requester } from '../../../rest/contract/route.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { findObject } from '../../../rest/objects/lookup.ts';
import { invalid } from '../../../rules/errors.ts';
import { idOf, uuidOf } from '../../../rules/identity.ts';
import { objectName } from '../../../rules/names.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { KINDS } from '../../kinds.ts';
import { accountNameOf } from '../rules/account.ts';
import { accountRead, type BusAccountRead, type BusUserRead, userRead } from '../rules/read.ts';
import { accountSecretName, BUS_KEYS, userSecretName } from '../rules/secret.ts';
import { userKey, userNameOf } from '../rules/user.ts';

export const BUS_TAG = 'Message bus';

/** How long a reply waits for the leader to sign. */
const SIGNED_MS = 5_000;

const text = () => z.string().nullable();
export const accountShape = replyShape(
  {
    id: z.number().int().nullable(),
    name: z.string(),
    publicKey: text(),
    jwt: text().describe('null while it is made, and for callers who may not see it'),
    isSystem: z.boolean(),
    isLeafSystem: z.boolean(),
    applicationId: z.number().int().nullable(),
  },
  'BusAccount',
);
export const userShape = replyShape(
  {
    id: z.number().int().nullable(),
    name: z.string(),
    publicKey: text(),
    jwt: text().describe('null while it is made, and for callers who may not see it'),
    isBearer: z.boolean(),
  },
  'BusUser',
);
export const accountParam = z.object({
  appName: z.string().min(1).max(BOUNDS.anyName).describe('name of an application, or of an account of the system'),
});
export const userParams = accountParam.extend({
  userName: z.string().min(1).max(BOUNDS.anyName).describe('name of a user of the account'),
});

/** 400 while the bus is off. */
export function requireBus({ self }: Pick<RestDependencies, 'self'>): void {
  if (!self.isBusEnabled)
    throw invalid('the message bus is off: BUS_ENABLED of the controller is not true', undefined, 'BUS_DISABLED');
}

/** Credentials and tokens of the system's accounts decide who is a server of the bus. */
export const maySeeSystem = ({ caller }: Pick<Requester, 'caller'>): Promise<boolean> =>
  caller.may({ resource: 'busbootstraps', verb: 'get' });

export async function requireMaySee(requester: Requester, account: BusAccount, user?: BusUser): Promise<void> {
  const isOfSystem = account.spec.system !== undefined || user?.spec.node !== undefined;
  if (isOfSystem && !(await maySeeSystem(requester)))
    throw forbidden(
      `${user ? `user "${user.spec.name}" of ` : ''}account "${accountNameOf(account)}" belongs to the system: only who may get busbootstraps reads its credentials`,
    );
}

/** The present account of that name, or 404. */
export async function presentAccount({ deps, signal }: Requester, name: string): Promise<BusAccount> {
  const account = await findObject(deps, KINDS.busAccounts, name, signal);
  if (account) return account;
  throw notFound('BUS_ACCOUNT_NOT_FOUND', `there is no bus account "${name}"`);
}

/** The present user of that name in an account, if there is one: of the store, or as another replica has just created it. */
export async function findUser(
  { deps, signal }: Requester,
  account: string,
  name: string,
): Promise<BusUser | undefined> {
  const key = userKey(account, name);
  const known = holderIn(KINDS.busUsers, deps.busUsers.find('name', key).filter(isPresent), 'name', key);
  const user = await deps.busUsers.read(known?.metadata.name ?? objectName(key), signal);
  return user && isPresent(user) && userNameOf(user) === key ? user : undefined;
}

export async function presentUser(requester: Requester, account: string, name: string): Promise<BusUser> {
  const user = await findUser(requester, account, name);
  if (user) return user;
  throw notFound('BUS_USER_NOT_FOUND', `there is no user "${name}" of the bus account "${account}"`);
}

/** The number of the application of an account. */
export function applicationIdOf({ applications }: RestDependencies, { spec }: BusAccount): number | undefined {
  const { application: name } = spec;
  if (name === undefined) return undefined;
  const application = holderIn(KINDS.applications, applications.find('name', name), 'name', name);
  return application && idOf(application);
}

/** An account as the caller sees it. */
export function shownAccount(deps: RestDependencies, account: BusAccount, seesSystem: boolean): BusAccountRead {
  const isShown = account.spec.system === undefined || seesSystem;
  const { [BUS_KEYS.token]: jwt } = isShown ? deps.busSecrets.read('account', accountSecretName(uuidOf(account))) : {};
  const shown = accountRead(account, { jwt, applicationId: applicationIdOf(deps, account) });
  return { ...shown, publicKey: (jwt === undefined ? undefined : decodeToken(jwt)?.sub) ?? shown.publicKey };
}

/** A user as the caller sees it: the token of a bearer is a password. */
export function shownUser(deps: RestDependencies, user: BusUser, { seesToken }: { seesToken: boolean }): BusUserRead {
  const { [BUS_KEYS.token]: jwt } = deps.busSecrets.read('user', userSecretName(uuidOf(user)));
  return userRead(user, jwt === undefined ? undefined : decodeToken(jwt)?.sub, seesToken ? jwt : undefined);
}

/** Waits a moment until the leader has signed what was just created. */
export async function whenSigned(
  { deps, signal }: Requester,
  of: 'account' | 'user',
  object: BusAccount | BusUser,
): Promise<void> {
  const name = (of === 'account' ? accountSecretName : userSecretName)(uuidOf(object));
  await deps.busSecrets.whenSigned(of, name, SIGNED_MS, signal);
}
