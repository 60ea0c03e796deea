import { ANNOTATIONS } from '../api/names.ts';
import type { Application, EdgeNode } from '../api/v3/index.ts';

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
 * The latest order of a kind; count 0 when none was given or the annotation cannot be read. The annotation is a JSON
 * number, or `{"count": 2, "command": "upgrade", "semver": "1.2.3"}` for a version order.
 */
export function orderOf(node: EdgeNode, order: NodeOrder): Order {
  const value = json(node.metadata.annotations?.[ANNOTATIONS[order]]);
  if (isCount(value)) return { count: value };
  if (typeof value !== 'object' || value === null) return { count: 0 };
  const { count, command, semver } = value as Record<string, unknown>;
  if (!isCount(count)) return { count: 0 };
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
  // above what the node says it did, lest an order be taken for one of a former life of this object
  const count = Math.max(orderOf(node, order).count, node.status?.orders?.[order] ?? 0) + 1;
  return { [ANNOTATIONS[order]]: details ? JSON.stringify({ count, ...details }) : String(count) };
}

/** Rebuilds ever ordered, by entry name. */
export function rebuildCounts(application: Application): Readonly<Record<string, number>> {
  const value = json(application.metadata.annotations?.[ANNOTATIONS.rebuild]);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
  return Object.fromEntries(Object.entries(value).filter((pair): pair is [string, number] => isCount(pair[1])));
}

/** Annotations to write for one more rebuild of the named entries. Counts of removed entries stay: a name can return. */
export function orderRebuild(application: Application, entries: readonly string[]): Record<string, string> {
  const counts = rebuildCounts(application);
  const raised = entries.map((name) => [name, countOf(counts, name) + 1] as const);
  return { [ANNOTATIONS.rebuild]: JSON.stringify({ ...counts, ...Object.fromEntries(raised) }) };
}

/** Rebuilds ever ordered of one entry. */
export function rebuildCount(application: Application, entry: string): number {
  return countOf(rebuildCounts(application), entry);
}

const countOf = (counts: Readonly<Record<string, number>>, name: string) =>
  Object.hasOwn(counts, name) ? (counts[name] ?? 0) : 0;

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function json(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
