import { createHash } from 'node:crypto';
import { isIP } from 'node:net';
import { byteSizeOf } from '../../../../api/schema.ts';
import type { BusAccountRuleSpec, BusUserRuleSpec } from '../../../../api/v3/index.ts';
import { importerOf } from './activation.ts';

/**
 * The claims of the tokens of the message bus (JWT of version 2 of nats-io/jwt), computed from rules. All functions are pure: who
 * calls them says the time and signs.
 */

/** Payload of a token; `signJwt` makes the token of it. */
export interface BusClaims {
  /** hash of everything else: two tokens that differ never share it, since servers compare it */
  jti: string;
  /** Unix s */
  iat: number;
  /** Unix s; never when absent */
  exp?: number;
  /** public key of who signs */
  iss: string;
  /** public key of whom the token is about */
  sub: string;
  name: string;
  nats: BusGrant;
}

/** What a token grants; nats-io/jwt names its further members. */
interface BusGrant extends Record<string, unknown> {
  type: 'operator' | 'account' | 'user';
  version: number;
  /** of an account: Unix s by public key of a user, whose tokens issued until then count no more */
  revocations?: Record<string, number>;
  /** of a user whose token a signing key signed: the account */
  issuer_account?: string;
}

const VERSION = 2;
const NO_LIMIT = -1;
/** Servers keep these numbers in 32 bits, and older ones wrap a larger one round to none at all. */
const MOST = 2 ** 31 - 1;

/** Claims of the operator, which signs itself. */
export function operatorClaims(input: { key: string; name: string; iat: number; systemAccount?: string }): BusClaims {
  const { key, name, iat, systemAccount } = input;
  const grant = { ...(systemAccount !== undefined && { system_account: systemAccount }) };
  return claims({ iat, iss: key, sub: key, name }, 'operator', grant);
}

/** Claims of an account. `operator` and `key` are public keys. */
export function accountClaims(input: {
  operator: string;
  key: string;
  name: string;
  rule: BusAccountRuleSpec;
  /** by public key of the user, Unix s */
  revocations: Record<string, number>;
  /** public keys that sign users as well */
  signingKeys?: readonly string[];
  iat: number;
}): BusClaims {
  const { operator, key, name, rule, revocations, signingKeys = [], iat } = input;
  return claims({ iat, iss: operator, sub: key, name }, 'account', {
    ...filled('imports', importsOf(rule, key)),
    ...(rule.exports?.length && { exports: rule.exports }),
    limits: limitsOf(rule),
    ...(signingKeys.length > 0 && { signing_keys: signingKeys }),
    ...(Object.keys(revocations).length > 0 && { revocations: sorted(revocations) }),
    ...filled('default_permissions', permissionsOf(rule)),
    ...(rule.description && { description: rule.description }),
    ...(rule.infoUrl && { info_url: rule.infoUrl }),
  });
}

/** Claims of a user of an account. All keys are public. */
export function userClaims(input: {
  account: string;
  /** the signing key of the account that signs; the account itself when absent */
  issuer?: string;
  key: string;
  name: string;
  rule: BusUserRuleSpec;
  /** whether the token alone admits; as the rule says when absent */
  isBearer?: boolean;
  iat: number;
  /** Unix s */
  exp?: number;
}): BusClaims {
  const { account, issuer = account, key, name, rule, iat, exp } = input;
  const isBearer = input.isBearer ?? rule.bearerToken ?? false;
  const types = rule.allowedConnectionTypes ?? [];
  // Bearer tokens are for devices, which connect by MQTT whatever the rule allows besides.
  const connectionTypes = input.isBearer && !types.includes('MQTT') ? ['MQTT' as const, ...types] : types;
  return claims({ iat, ...(exp !== undefined && { exp }), iss: issuer, sub: key, name }, 'user', {
    ...permissionsOf(rule),
    subs: atMost(rule.maxSubscriptions),
    data: bytes(rule.maxData),
    payload: atMost(bytes(rule.maxPayload)),
    ...(rule.src?.length && { src: rule.src.map(network) }),
    ...(rule.times?.length && { times: rule.times.map(({ start, end }) => ({ start, end })) }),
    ...(rule.timesLocation && { times_location: rule.timesLocation }),
    ...(isBearer && { bearer_token: true }),
    ...(rule.proxyRequired && { proxy_required: true }),
    ...(connectionTypes.length > 0 && { allowed_connection_types: connectionTypes }),
    ...(issuer !== account && { issuer_account: account }),
    ...(rule.tags?.length && { tags: rule.tags }),
  });
}

function claims(head: Omit<BusClaims, 'jti' | 'nats'>, type: BusGrant['type'], grant: Record<string, unknown>) {
  const whole = { ...head, nats: { ...grant, type, version: VERSION } };
  return { jti: createHash('sha256').update(JSON.stringify(whole)).digest('base64url'), ...whole };
}

/** Servers refuse a token as a whole for an activation that is for another account. An account needs no import from itself. */
const importsOf = ({ imports = [] }: BusAccountRuleSpec, key: string) =>
  imports.filter(({ account, token }) => account !== key && (!token || importerOf(token) === key));

/** Limits of an account. Servers read an absent one as 0: none at all. */
function limitsOf(rule: BusAccountRuleSpec): Record<string, unknown> {
  const { tieredLimits = {} } = rule;
  const tiers = Object.entries(tieredLimits).map(([tier, store]) => [tier, storeLimits(store)] as const);
  return {
    subs: atMost(rule.maxSubscriptions),
    data: bytes(rule.maxData),
    payload: atMost(bytes(rule.maxMsgPayload)),
    imports: atMost(rule.maxImports),
    exports: atMost(rule.maxExports),
    wildcards: rule.exportsAllowWildcards ?? true,
    ...(rule.disallowBearer && { disallow_bearer: true }),
    conn: atMost(rule.maxConnections),
    leaf: atMost(rule.maxLeafNodeConnections),
    ...(tiers.length > 0
      ? { tiered_limits: Object.fromEntries(tiers) }
      : STORE_FIELDS.some((field) => rule[field] !== undefined) && storeLimits(rule)),
  };
}

type Store = Pick<
  BusAccountRuleSpec,
  | 'memStorage'
  | 'diskStorage'
  | 'streams'
  | 'consumer'
  | 'maxAckPending'
  | 'memMaxStreamBytes'
  | 'diskMaxStreamBytes'
  | 'maxBytesRequired'
>;

/** Members of the store group of a rule. */
export const STORE_FIELDS = [
  'memStorage',
  'diskStorage',
  'streams',
  'consumer',
  'maxAckPending',
  'memMaxStreamBytes',
  'diskMaxStreamBytes',
  'maxBytesRequired',
] as const satisfies readonly (keyof Store)[];

/** The whole group, once any of it is set. */
const storeLimits = (store: Store) => ({
  mem_storage: bytes(store.memStorage),
  disk_storage: bytes(store.diskStorage),
  streams: atMost(store.streams),
  consumer: atMost(store.consumer),
  max_ack_pending: atMost(store.maxAckPending),
  mem_max_stream_bytes: bytes(store.memMaxStreamBytes),
  disk_max_stream_bytes: bytes(store.diskMaxStreamBytes),
  ...(store.maxBytesRequired && { max_bytes_required: true }),
});

type Permissions = Pick<BusUserRuleSpec, 'pubAllow' | 'pubDeny' | 'subAllow' | 'subDeny' | 'respMax' | 'respTtl'>;

function permissionsOf({ pubAllow, pubDeny, subAllow, subDeny, respMax, respTtl }: Permissions) {
  const list = (allow: readonly string[] = [], deny: readonly string[] = []) => ({
    ...(allow.length > 0 && { allow }),
    ...(deny.length > 0 && { deny }),
  });
  const replies = respMax !== undefined || respTtl !== undefined;
  return {
    ...filled('pub', list(pubAllow, pubDeny)),
    ...filled('sub', list(subAllow, subDeny)),
    ...(replies && { resp: { max: respMax ?? 0, ttl: respTtl ?? 0 } }),
  };
}

const filled = (member: string, value: object) => (Object.keys(value).length > 0 ? { [member]: value } : {});
const bytes = (value: number | string | undefined) => (value === undefined ? NO_LIMIT : byteSizeOf(value));
const atMost = (value: number | undefined) => (value === undefined ? NO_LIMIT : Math.min(value, MOST));

/** Servers refuse everybody when one of the networks is a plain address. */
function network(source: string): string {
  const family = isIP(source);
  if (family === 0) return source;
  return `${source}/${family === 4 ? 32 : 128}`;
}

/** In the order of the keys, so that the same content has the same bytes. */
const sorted = (map: Record<string, number>) =>
  Object.fromEntries(Object.entries(map).toSorted(([a], [b]) => (a < b ? -1 : 1)));
