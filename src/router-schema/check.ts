import { type EntityKind, isEntityKind, ROUTER_SCHEMA } from './schema.ts';
import { expectationOf, normalValue } from './values.ts';

/** Ports by the names that routers know, as the machine does. */
const NAMED_PORTS: Readonly<Record<string, number>> = { amqp: 5672, amqps: 5671 };
const LONGEST_SHOWN = 64;

/** Names of entities that are alike are refused across all kinds; sections that a router makes itself are no trouble. */
interface Checked {
  kind: EntityKind;
  attributes: Readonly<Record<string, unknown>>;
  /** how messages name it */
  shown: string;
}

/**
 * Everything because of which a router would not start with this configuration, or would not do what it says: each names entity, attribute
 * and what would be right. `pairs` is the content of skrouterd.json.
 */
export function configProblems(pairs: unknown): string[] {
  const { problems, checked } = checkPairs(pairs);
  return [...problems, ...portProblems(checked)];
}

/** Everything because of which a router would not start with this configuration. */
export const startProblems = (pairs: unknown): string[] => checkPairs(pairs).problems;

function checkPairs(pairs: unknown): { problems: string[]; checked: readonly Checked[] } {
  if (!Array.isArray(pairs))
    return { problems: ['the configuration is no list of pairs [entity, attributes]'], checked: [] };
  const problems: string[] = [];
  const checked: Checked[] = [];
  for (const [index, pair] of pairs.entries()) {
    const found = pairOf(pair);
    if (!found) problems.push(`pair ${index} is no [entity, attributes]`);
    else if (!isEntityKind(found.entity)) problems.push(`pair ${index}: there is no entity ${quoted(found.entity)}`);
    else {
      const shown = shownOf(found.entity, found.attributes, index);
      checked.push({ kind: found.entity, attributes: found.attributes, shown });
      problems.push(
        ...attributeProblems(found.entity, found.attributes, 'file').map((problem) => `${shown}: ${problem}`),
      );
    }
  }
  const all = [singleProblems, nameProblems, referenceProblems, roleProblems].flatMap((problemsOf) =>
    problemsOf(checked),
  );
  return { problems: [...problems, ...all], checked };
}

/**
 * The problems of the attributes of one entity. `file`: in a configuration; `create`, `update`: in a request, which sets less.
 */
export function attributeProblems(
  kind: EntityKind,
  attributes: Readonly<Record<string, unknown>>,
  by: 'file' | 'create' | 'update',
): string[] {
  const { attributes: forms } = ROUTER_SCHEMA[kind];
  const given = Object.entries(attributes).flatMap(([name, value]) => {
    const form = Object.hasOwn(forms, name) ? forms[name] : undefined;
    if (!form) return [`there is no attribute ${quoted(name)}`];
    if (form.isReadOnly) return [`the attribute ${name} is the router's own`];
    if (by === 'update' && !form.isUpdatable && name !== 'name' && name !== 'type')
      return [`the attribute ${name} cannot be changed`];
    return normalValue(form, value) === undefined ? [`${name}: ${quoted(value)} is not ${expectationOf(form)}`] : [];
  });
  if (by === 'update') return given;
  const missing = Object.entries(forms).filter(([name, form]) => form.isRequired && attributes[name] === undefined);
  return [...given, ...missing.map(([name]) => `${name} is required`), ...ownProblems(kind, attributes)];
}

/** What no form of an attribute says. */
function ownProblems(kind: EntityKind, attributes: Readonly<Record<string, unknown>>): string[] {
  const problems: string[] = [];
  if (kind === 'router' && /[\s|$\p{C}]/u.test(String(attributes.id ?? '')))
    problems.push(`id: ${quoted(attributes.id)} has white space, a control character, | or $`);
  if (PORTED.has(kind) && attributes.port !== undefined && portOf(attributes) === undefined)
    problems.push(`port: ${quoted(attributes.port)} is no port from 1 to 65535`);
  if ((kind === 'tcpListener' || kind === 'tcpConnector') && (attributes.port === undefined || !attributes.address))
    problems.push('address and port are required');
  const [ordinal, oldest] = [attributes.ordinal, attributes.oldestValidOrdinal].map((value) => Number(value ?? 0));
  if (kind === 'sslProfile' && ((oldest ?? 0) < 0 || (ordinal ?? 0) < (oldest ?? 0)))
    problems.push('ordinal is less than oldestValidOrdinal, or negative');
  return problems;
}

const PORTED: ReadonlySet<EntityKind> = new Set(['listener', 'connector', 'tcpListener', 'tcpConnector']);

function singleProblems(checked: readonly Checked[]): string[] {
  const several = Object.entries(ROUTER_SCHEMA).flatMap(([kind, { isSingle }]) =>
    isSingle && checked.filter((one) => one.kind === kind).length > 1 ? [`there are several pairs ${kind}`] : [],
  );
  return [...(checked.some(({ kind }) => kind === 'router') ? [] : ['there is no pair router']), ...several];
}

function nameProblems(checked: readonly Checked[]): string[] {
  const first = new Map<unknown, Checked>();
  return checked.flatMap((one) => {
    const { name } = one.attributes;
    const other = name === undefined ? undefined : first.get(name);
    if (name !== undefined && !other) first.set(name, one);
    return other ? [`${one.shown}: ${other.shown} has the same name`] : [];
  });
}

function referenceProblems(checked: readonly Checked[]): string[] {
  const named = new Set(checked.map(({ kind, attributes }) => `${kind}/${String(attributes.name)}`));
  return checked.flatMap(({ kind, attributes, shown }) =>
    Object.entries(ROUTER_SCHEMA[kind].attributes).flatMap(([name, { refersTo }]) => {
      const to = attributes[name];
      if (!refersTo || to === undefined || named.has(`${refersTo}/${String(to)}`)) return [];
      return [`${shown}: there is no ${refersTo} ${quoted(to)}`];
    }),
  );
}

function roleProblems(checked: readonly Checked[]): string[] {
  const mode = String(checked.find(({ kind }) => kind === 'router')?.attributes.mode ?? 'standalone');
  return checked.flatMap(({ kind, attributes, shown }) => {
    const problem = kind === 'listener' || kind === 'connector' ? roleProblem(kind, attributes, mode) : undefined;
    return problem ? [`${shown}: ${problem}`] : [];
  });
}

/** Why an end of a connection cannot be in a router of this mode. */
export function roleProblem(
  kind: 'listener' | 'connector',
  { role = 'normal' }: Readonly<Record<string, unknown>>,
  mode: string,
): string | undefined {
  const isBetween = role === 'inter-router' || role === 'edge';
  if (mode === 'standalone' && isBetween) return `role ${String(role)} needs a router of mode interior or edge`;
  if (mode !== 'interior' && role === 'inter-router') return 'role inter-router needs a router of mode interior';
  if (mode === 'edge' && kind === 'listener' && role === 'edge') return 'role edge needs a router of mode interior';
  return undefined;
}

/** A second listener at a port is made, and never listens. */
function portProblems(checked: readonly Checked[]): string[] {
  const first = new Map<number, Checked[]>();
  return checked.flatMap((one) => {
    if (one.kind !== 'listener' && one.kind !== 'tcpListener') return [];
    const port = portOf({ port: 'amqp', ...one.attributes });
    if (port === undefined) return [];
    const others = first.get(port) ?? [];
    first.set(port, [...others, one]);
    const other = others.find(({ attributes }) => areHostsAlike(attributes.host, one.attributes.host));
    return other ? [`${one.shown}: port ${port} is the port of ${other.shown}`] : [];
  });
}

const ALL_HOSTS: ReadonlySet<unknown> = new Set([undefined, '', '0.0.0.0', '::', '[::]']);
const areHostsAlike = (one: unknown, other: unknown) => one === other || ALL_HOSTS.has(one) || ALL_HOSTS.has(other);

function portOf({ port }: Readonly<Record<string, unknown>>): number | undefined {
  const number = NAMED_PORTS[String(port)] ?? (/^\d{1,5}$/.test(String(port)) ? Number(port) : 0);
  return number >= 1 && number <= 65_535 ? number : undefined;
}

function pairOf(pair: unknown): { entity: string; attributes: Record<string, unknown> } | undefined {
  if (!Array.isArray(pair) || pair.length !== 2) return undefined;
  const [entity, attributes] = pair as unknown[];
  if (typeof entity !== 'string' || typeof attributes !== 'object' || !attributes || Array.isArray(attributes))
    return undefined;
  return { entity, attributes: attributes as Record<string, unknown> };
}

function shownOf(kind: string, { name }: Readonly<Record<string, unknown>>, index: number): string {
  return name === undefined ? `pair ${index} (${kind})` : `${kind} ${quoted(name)}`;
}

const quoted = (value: unknown): string => JSON.stringify(String(value).slice(0, LONGEST_SHOWN));
