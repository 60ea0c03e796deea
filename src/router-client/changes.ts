import type { AttributeForm } from '../router-schema/schema.ts';
import { ROUTER_SCHEMA } from '../router-schema/schema.ts';
import { normalValue } from '../router-schema/values.ts';
import type { RouterAttribute, RouterPair } from '../wire/router.ts';

/** What management can make and delete in a running router, in the order in which it is made. */
export const MANAGED = ['sslProfile', 'listener', 'connector', 'tcpConnector', 'tcpListener'] as const;
export type Managed = (typeof MANAGED)[number];

/** An entity of a router. */
export interface RouterEntity {
  kind: Managed;
  name: string;
  /** without the name */
  attributes: Readonly<Record<string, RouterAttribute>>;
}

/** An entity as a router shows it, with all that it has besides. */
export interface FoundEntity {
  kind: Managed;
  name: string;
  attributes: Readonly<Record<string, unknown>>;
}

export interface RouterChange {
  operation: 'create' | 'update' | 'delete';
  entity: RouterEntity;
}

/**
 * Which entities of a running router are ours: `all`, or of the bridges of services those alone that have their names. Others stay,
 * unless an entity that is wanted has the name.
 */
export type Owned = 'all' | 'bridges';

const isManaged = (kind: string): kind is Managed => (MANAGED as readonly string[]).includes(kind);

/** The entities of a configuration that management can make; pairs without a name cannot be compared. */
export function managedEntities(pairs: readonly RouterPair[]): RouterEntity[] {
  return pairs.flatMap(([kind, { name, ...attributes }]) =>
    isManaged(kind) && typeof name === 'string' ? [{ kind, name, attributes }] : [],
  );
}

const SUFFIXES: Partial<Record<Managed, string>> = { tcpListener: '-listener', tcpConnector: '-connector' };

/** Whether an entity has the name of a bridge of a service. */
function isBridge({ kind, name }: Pick<FoundEntity, 'kind' | 'name'>): boolean {
  const suffix = SUFFIXES[kind];
  return suffix !== undefined && name.endsWith(suffix);
}

/**
 * The requests after which a router has the wanted entities, in an order in which each of them succeeds: a name or a port is free before it is
 * used again, and a profile exists before a listener refers to it. None when nothing differs.
 */
export function changesTo(
  found: readonly FoundEntity[],
  wanted: readonly RouterEntity[],
  owned: Owned = 'all',
): RouterChange[] {
  const wantedByName = new Map(wanted.map((entity) => [entity.name, entity]));
  const kept = new Set<string>();
  const ended: FoundEntity[] = [];
  const updated: RouterEntity[] = [];
  for (const one of found) {
    const entity = wantedByName.get(one.name);
    // Names are unique across all kinds.
    if (!entity) {
      if (owned === 'all' || isBridge(one)) ended.push(one);
      continue;
    }
    const differing = entity.kind === one.kind ? differences(one, entity) : undefined;
    if (differing?.length === 0) kept.add(one.name);
    else if (differing?.every(({ isUpdatable }) => isUpdatable) && isUpdatableKind(one.kind)) {
      kept.add(one.name);
      updated.push(entity);
    } else ended.push(one);
  }
  const made = wanted.filter(({ name }) => !kept.has(name));
  const inOrder = <T extends { kind: Managed }>(of: readonly T[]) =>
    MANAGED.flatMap((kind) => of.filter((one) => one.kind === kind));
  const [endedLast, endedFirst] = [true, false].map((isLast) =>
    ended.filter(({ kind, name }) => (kind === 'sslProfile' && !wantedByName.has(name)) === isLast),
  ) as [FoundEntity[], FoundEntity[]];
  return [
    ...inOrder(endedFirst).toReversed().map(deletion),
    ...updated.map((entity) => ({ operation: 'update', entity }) as const),
    ...inOrder(made).map((entity) => ({ operation: 'create', entity }) as const),
    ...endedLast.map(deletion),
  ];
}

const isUpdatableKind = (kind: Managed) => ROUTER_SCHEMA[kind].operations.includes('update');

const deletion = ({ kind, name }: FoundEntity): RouterChange => ({
  operation: 'delete',
  entity: { kind, name, attributes: {} },
});

/** The attributes in which an entity is not as wanted, those that the router alone sets left out. */
function differences(found: FoundEntity, wanted: RouterEntity): AttributeForm[] {
  const { attributes } = ROUTER_SCHEMA[wanted.kind];
  return Object.entries(attributes).flatMap(([name, form]) => {
    if (form.isReadOnly || name === 'name' || name === 'type') return [];
    const has = found.attributes[name] ?? undefined;
    const wants = wanted.attributes[name];
    const isSame = wants === undefined ? isAbsent(form, has) : normalValue(form, wants) === normalValue(form, has);
    return isSame ? [] : [form];
  });
}

const isAbsent = ({ absent = [], ...form }: AttributeForm, has: unknown): boolean =>
  has === undefined || absent.some((value) => normalValue(form, value) === normalValue(form, has));
