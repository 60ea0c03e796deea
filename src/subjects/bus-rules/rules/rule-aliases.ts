import { isObject } from '../../../rules/document.ts';
import { invalid } from '../../../rules/errors.ts';
import { STORE_FIELDS } from './tokens/claims.ts';

/** Other spellings of the members of bus rules, which are the claims of a token, by path. */
type Aliases = Readonly<Record<string, string>>;

const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const permissions = (prefix: string): Aliases => ({
  [`${prefix}pub.allow`]: 'pubAllow',
  [`${prefix}pub.deny`]: 'pubDeny',
  [`${prefix}sub.allow`]: 'subAllow',
  [`${prefix}sub.deny`]: 'subDeny',
  [`${prefix}resp.max`]: 'respMax',
  [`${prefix}resp.ttl`]: 'respTtl',
});
const store = (prefix: string): Aliases =>
  Object.fromEntries(STORE_FIELDS.map((field) => [`${prefix}${snake(field)}`, field]));

const ACCOUNT: Aliases = {
  info_url: 'infoUrl',
  'limits.conn': 'maxConnections',
  'limits.leaf': 'maxLeafNodeConnections',
  'limits.subs': 'maxSubscriptions',
  'limits.imports': 'maxImports',
  'limits.exports': 'maxExports',
  'limits.data': 'maxData',
  'limits.payload': 'maxMsgPayload',
  'limits.wildcards': 'exportsAllowWildcards',
  'limits.disallow_bearer': 'disallowBearer',
  ...store('limits.'),
  ...permissions('default_permissions.'),
  tiered_limits: 'tieredLimits',
};
const TIER = store('');
const USER: Aliases = {
  subs: 'maxSubscriptions',
  payload: 'maxPayload',
  bearer_token: 'bearerToken',
  proxy_required: 'proxyRequired',
  allowed_connection_types: 'allowedConnectionTypes',
  times_location: 'timesLocation',
  locale: 'timesLocation',
  ...permissions(''),
};

/** The body of an account rule with the members of its spec. Throws DomainError where two spellings of one member are given. */
export function accountRuleBody(body: unknown): unknown {
  const known = spelled(body, ACCOUNT);
  if (!isObject(known) || !isObject(known.tieredLimits)) return known;
  const tiers = Object.entries(known.tieredLimits).map(([tier, limits]) => [
    tier,
    spelled(limits, TIER, `tieredLimits.${tier}.`),
  ]);
  return { ...known, tieredLimits: Object.fromEntries(tiers) };
}

/** The body of a user rule, likewise. */
export const userRuleBody = (body: unknown): unknown => spelled(body, USER);

function spelled(body: unknown, aliases: Aliases, path = ''): unknown {
  if (!isObject(body)) return body;
  const groups = new Set(Object.keys(aliases).flatMap((alias) => prefixesOf(alias)));
  const result: Record<string, unknown> = {};
  const givenAs = new Map<string, string>();
  const set = (field: string, at: string, value: unknown) => {
    const other = givenAs.get(field);
    if (other !== undefined)
      throw invalid(`${path}${at}: is another spelling of ${path}${other}; give one of them`, `${path}${at}`);
    givenAs.set(field, at);
    result[field] = value;
  };
  const walk = (members: Record<string, unknown>, prefix: string) => {
    for (const [name, value] of Object.entries(members)) {
      const at = `${prefix}${name}`;
      if (Object.hasOwn(aliases, at)) set(aliases[at] as string, at, value);
      else if (!groups.has(at)) {
        if (prefix) throw invalid(`${path}${at}: unknown field`, `${path}${at}`);
        set(name, name, value);
      } else if (isObject(value)) walk(value, `${at}.`);
      else throw invalid(`${path}${at}: must be an object`, `${path}${at}`);
    }
  };
  walk(body, '');
  return result;
}

/** `a.b.c` -> `a`, `a.b` */
const prefixesOf = (alias: string) => {
  const parts = alias.split('.');
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join('.'));
};
