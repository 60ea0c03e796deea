import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusUser } from '../../../api/v3/bus-user.ts';
import type { BusUserRuleSpec } from '../../../api/v3/bus-user-rule.ts';
import { SYSTEM_ACCOUNT } from '../../../rules/bus-accounts.ts';
import { BUS_REQUESTS } from '../../../rules/bus-requests.ts';
import { v3Name } from '../../../rules/names.ts';

/** The users of the system that are no users of the leaf servers of applications. */
export const HUB_USER = 'admin-hub';
export const CONTROLLER_USER = 'controller';
export const serverUserName = (node: string): string => `admin-server-${node}`;
export const leafAdminName = (node: string): string => `admin-leaf-${node}`;
/** The user with which the leaf server of a node connects to the hub for one account. */
export const leafUserName = (node: string): string => `leaf-${node}`;

const RULE = {
  default: 'default-user',
  mqtt: 'default-mqtt-user',
  leaf: 'default-leaf-user',
  controller: 'controller-user',
};

/** Users are named within their account, whose name has no slash where others than the controller make users. */
export const userKey = (account: string, user: string): string => `${account}/${user}`;
export const userNameOf = (user: Pick<BusUser, 'metadata' | 'spec'>): string =>
  userKey(user.spec.account, v3Name(user));

/** Rule of a user where the rule that it names does not exist. */
export function defaultUserRuleOf({ spec: { account, isBearer, node, ...spec } }: Pick<BusUser, 'spec'>): string {
  if (isBearer) return RULE.mqtt;
  if (node !== undefined) return account.startsWith(SYSTEM_ACCOUNT) ? RULE.default : RULE.leaf;
  return account === CONTROLLER_USER && spec.name === CONTROLLER_USER ? RULE.controller : RULE.default;
}

/** Name of the rule that a user asks for. */
export const userRuleOf = (user: Pick<BusUser, 'spec'>): string => user.spec.rule ?? defaultUserRuleOf(user);

/**
 * The grant of the user of the system on a machine with a bus server, which sends its server tokens that the operator signed. Every server
 * lets that user in, the hub too: without a limit, whoever steals the machine could answer in the place of servers, and stop them.
 */
const SERVER_USER: Pick<BusUserRuleSpec, 'pubAllow' | 'subAllow'> = {
  pubAllow: [BUS_REQUESTS.update, BUS_REQUESTS.list, BUS_REQUESTS.lookUp('*'), BUS_REQUESTS.ofServer('*', 'RELOAD')],
  subAllow: ['_INBOX.>'],
};

/** What a rule grants a user of an account. */
export const grantOf = (
  rule: BusUserRuleSpec,
  { spec: user }: Pick<BusUser, 'spec'>,
  { spec: account }: Pick<BusAccount, 'spec'>,
): BusUserRuleSpec => (account.system === 'system' && user.node !== undefined ? { ...rule, ...SERVER_USER } : rule);

/** Whether the controller itself hands out the credentials: to a microservice, to a bus server or to itself. */
export const isDelivered = ({ spec }: Pick<BusUser, 'spec'>, isOfSystem: boolean): boolean =>
  isOfSystem || spec.microserviceUuid !== undefined || spec.node !== undefined;

/**
 * Whether a user has a place of the system, in which the controller makes other users: in an account of the system, or as the user of
 * a node. Where no policy is installed, whoever may write a BusUser could take such a place, and servers would obey the credentials.
 */
export function isForeignUser(user: Pick<BusUser, 'metadata' | 'spec'>, { spec }: Pick<BusAccount, 'spec'>): boolean {
  const { node, microserviceUuid } = user.spec;
  const expected = {
    system: node === undefined ? HUB_USER : serverUserName(node),
    leaf: node !== undefined && node === spec.node ? leafAdminName(node) : undefined,
    controller: node === undefined ? CONTROLLER_USER : undefined,
  };
  if (spec.system !== undefined) return microserviceUuid !== undefined || v3Name(user) !== expected[spec.system];
  return node !== undefined && v3Name(user) !== leafUserName(node);
}
