import type { EdgeNode } from '../../api/v3/index.ts';
import type { Liveness, Observation } from '../inputs.ts';

/** What is known of a node now, besides its object. */
export interface LiveNode {
  liveness: Liveness;
  observation?: Observation;
}

/** v3 read of a node: spec, else what the machine reports, else the documented default. */
export function nodeRead(
  _node: EdgeNode,
  _live: LiveNode,
  _options?: { platformStatus?: boolean },
): Record<string, unknown> {
  throw new Error('not written yet');
}

/** One filter of the list operation. */
export interface NodeFilter {
  key: string;
  value: string;
  condition: 'equals' | 'has';
}

/** Reads the filters of a body or a query; throws DomainError. */
export function readFilters(_value: unknown): NodeFilter[] {
  throw new Error('not written yet');
}

/** Whether a node read passes all filters. An empty field never matches. */
export function matches(_read: Record<string, unknown>, _filters: readonly NodeFilter[]): boolean {
  throw new Error('not written yet');
}
