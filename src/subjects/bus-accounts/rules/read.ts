import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusUser } from '../../../api/v3/bus-user.ts';
import { idOf } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { accountNameOf } from './account.ts';

/** Accounts and users as the v3 API shows them. Members that are not known yet, or not shown to the caller, are null. */

export interface BusAccountRead {
  id: number | null;
  name: string;
  publicKey: string | null;
  jwt: string | null;
  isSystem: boolean;
  isLeafSystem: boolean;
  applicationId: number | null;
}

export interface BusUserRead {
  id: number | null;
  name: string;
  publicKey: string | null;
  jwt: string | null;
  isBearer: boolean;
}

/** `jwt` is the token as far as the caller may see it; `applicationId` the number of its application. */
export const accountRead = (
  account: BusAccount,
  { jwt, applicationId }: { jwt: string | undefined; applicationId: number | undefined },
): BusAccountRead => ({
  id: idOf(account) ?? null,
  name: accountNameOf(account),
  publicKey: account.status?.publicKey ?? null,
  jwt: jwt ?? null,
  isSystem: account.spec.system !== undefined,
  isLeafSystem: account.spec.system === 'leaf',
  applicationId: applicationId ?? null,
});

export const userRead = (user: BusUser, publicKey: string | undefined, jwt: string | undefined): BusUserRead => ({
  id: idOf(user) ?? null,
  name: v3Name(user),
  publicKey: publicKey ?? user.status?.publicKey ?? null,
  jwt: jwt ?? null,
  isBearer: user.spec.isBearer === true,
});
