import type { Application, EdgeNode } from '../api/v3/index.ts';

/** Orders of a node that are annotations with a counter. */
export type NodeOrder = 'reconcile' | 'reboot' | 'prune' | 'version';

/** What the annotation of an order says. */
export interface Order {
  /** how many were ever given */
  count: number;
  /** of a version order */
  command?: 'upgrade' | 'rollback';
  semver?: string;
}

/** The latest order of a kind; count 0 when none was given or the annotation cannot be read. */
export function orderOf(_node: EdgeNode, _order: NodeOrder): Order {
  throw new Error('not written yet');
}

/** True until the node (or, for reconcile, the controller) has carried out the latest order. */
export function isDue(_node: EdgeNode, _order: NodeOrder): boolean {
  throw new Error('not written yet');
}

/** Annotations to write for one more order. */
export function giveOrder(
  _node: EdgeNode,
  _order: NodeOrder,
  _details?: { command: 'upgrade' | 'rollback'; semver?: string },
): Record<string, string> {
  throw new Error('not written yet');
}

/** Rebuilds ever ordered, by entry name. */
export function rebuildCounts(_application: Application): Readonly<Record<string, number>> {
  throw new Error('not written yet');
}

/** Annotations to write for one more rebuild of the named entries. */
export function orderRebuild(_application: Application, _entries: readonly string[]): Record<string, string> {
  throw new Error('not written yet');
}
