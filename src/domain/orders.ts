import { ANNOTATIONS } from '../api/names.ts';
import type { Application, EdgeNode } from '../api/v3/index.ts';
import { conflict } from './errors.ts';

/** Counters above this are not read: there must be room for all orders to come. */
const MAX_ORDER = 2 ** 52;
/** What a machine says that it carried out counts up to here: counters, and Unix times in ms. */
const MAX_REPORTED = 10 ** 13;

/** Orders of a node that are annotations with a counter. */
export const NODE_ORDERS = ['reconcile', 'reboot', 'prune', 'version'] as const;
export type NodeOrder = (typeof NODE_ORDERS)[number];

/** What the annotation of an order says. */
export interface Order {
  /** how many were ever given */
  count: number;
  /** of a version order */
  command?: 'upgrade' | 'rollback';
  semver?: string;
}

/**
 * The latest order of a kind; count 0 when none was given. The annotation is a JSON number, or
 * `{"count": 2, "command": "upgrade", "semver": "1.2.3"}` for a version order. What was carried out remains so when the
 * annotation was dropped, as `kubectl replace` does, or cannot be read.
 */
export function orderOf(node: EdgeNode, order: NodeOrder): Order {
  const { count = 0, ...details } = annotated(node, order) ?? {};
  const carriedOut = node.status?.orders?.[order] ?? 0;
  return count >= carriedOut ? { count, ...details } : { count: carriedOut };
}

function annotated(node: EdgeNode, order: NodeOrder): Order | undefined {
  const value = json(node.metadata.annotations?.[ANNOTATIONS[order]]);
  if (isCount(value)) return { count: value };
  if (typeof value !== 'object' || value === null) return undefined;
  const { count, command, semver } = value as Record<string, unknown>;
  if (!isCount(count)) return undefined;
  return {
    count,
    ...((command === 'upgrade' || command === 'rollback') && { command }),
    ...(typeof semver === 'string' && semver !== '' && { semver }),
  };
}

/** True until the node (or, for reconcile, the controller) has carried out the latest order. */
export function isDue(node: EdgeNode, order: NodeOrder): boolean {
  return orderOf(node, order).count > (node.status?.orders?.[order] ?? 0);
}

/** The generation that a platform reconcile is about: edits of the spec and manual orders each raise it. */
export const platformGeneration = (node: EdgeNode): number =>
  (node.metadata.generation ?? 0) + orderOf(node, 'reconcile').count;

/** Annotations to write for one more order. */
export function giveOrder(
  node: EdgeNode,
  order: NodeOrder,
  details?: { command: 'upgrade' | 'rollback'; semver?: string },
): Record<string, string> {
  const count = next(orderOf(node, order).count, ANNOTATIONS[order]);
  return { [ANNOTATIONS[order]]: details ? JSON.stringify({ count, ...details }) : String(count) };
}

/** Rebuilds that the annotation orders, by entry name. */
export function rebuildCounts(application: Application): Readonly<Record<string, number>> {
  const value = json(application.metadata.annotations?.[ANNOTATIONS.rebuild]);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
  return Object.fromEntries(Object.entries(value).filter((pair): pair is [string, number] => isCount(pair[1])));
}

/** Annotations to write for one more rebuild of the named entries. Counts of removed entries stay: a name can return. */
export function orderRebuild(application: Application, entries: readonly string[]): Record<string, string> {
  const raised = entries.map((name) => [name, next(rebuildCount(application, name), ANNOTATIONS.rebuild)] as const);
  return { [ANNOTATIONS.rebuild]: JSON.stringify({ ...rebuildCounts(application), ...Object.fromEntries(raised) }) };
}

/**
 * Rebuilds ever ordered of one entry. The status remembers the highest count, and the machine what it carried out, so
 * that an order outlives its annotation and no later one looks as if it was carried out already.
 */
export function rebuildCount(application: Application, entry: string, carriedOut = 0): number {
  const known = application.status?.microservices?.find(({ name }) => name === entry)?.rebuilds ?? 0;
  const reported = carriedOut <= MAX_REPORTED ? carriedOut : 0;
  return Math.max(countOf(rebuildCounts(application), entry), known, reported);
}

/** Messages about orders in annotations that are not carried out: unreadable ones, and counts that are not higher. */
export function ignoredOrders(object: EdgeNode | Application): string[] {
  return object.kind === 'Application' ? ignoredRebuilds(object as Application) : ignoredNodeOrders(object as EdgeNode);
}

function ignoredRebuilds(application: Application): string[] {
  const text = application.metadata.annotations?.[ANNOTATIONS.rebuild];
  if (text === undefined) return [];
  const value = json(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [`${ANNOTATIONS.rebuild}: ${shown(text)}; must be a JSON object of whole numbers, such as {"web": 1}`];
  const counts = rebuildCounts(application);
  return Object.entries(value).flatMap(([name, given]) => {
    const before = `${ANNOTATIONS.rebuild}: ${shown(name)}: ${shown(JSON.stringify(given))}`;
    if (!Object.hasOwn(counts, name)) return [`${before}; ${MUST_BE_COUNT}`];
    const ordered = rebuildCount(application, name);
    return (given as number) < ordered ? [`${before}; ${notAbove(ordered)}`] : [];
  });
}

function ignoredNodeOrders(node: EdgeNode): string[] {
  return NODE_ORDERS.flatMap((order) => {
    const text = node.metadata.annotations?.[ANNOTATIONS[order]];
    if (text === undefined) return [];
    const before = `${ANNOTATIONS[order]}: ${shown(text)}`;
    const given = annotated(node, order);
    const example = order === 'version' ? ', as in {"count": 1, "command": "upgrade"}' : '';
    if (!given) return [`${before}; ${MUST_BE_COUNT}${example}`];
    if (order === 'version' && !given.command) return [`${before}; names no command, upgrade or rollback${example}`];
    const { count } = orderOf(node, order);
    return given.count < count ? [`${before}; ${notAbove(count)}`] : [];
  });
}

const MUST_BE_COUNT = `must be a whole number from 0 to ${MAX_ORDER}`;
const notAbove = (count: number) => `is below ${count}, which was ordered before; ${count + 1} orders it again`;
const shown = (text: string) => JSON.stringify(text.slice(0, 64));

function next(count: number, annotation: string): number {
  if (count < MAX_ORDER) return count + 1;
  throw conflict('ORDER_LIMIT', `${annotation}: its counter is at its end, ${MAX_ORDER}; no order can follow`);
}

const countOf = (counts: Readonly<Record<string, number>>, name: string) =>
  Object.hasOwn(counts, name) ? (counts[name] ?? 0) : 0;

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MAX_ORDER;

function json(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
