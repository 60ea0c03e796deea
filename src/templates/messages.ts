import type { LookUpName, Rendering } from '../rules/renderer.ts';

/** Between the controller and the process that renders. One document at a time. */

export type ToProcess =
  | { render: Rendering }
  /** the answer to a look-up; `failed` has the reason */
  | { answer: number; value?: unknown; failed?: string };

export type FromProcess =
  | { ready: true }
  | { lookUp: number; filter: LookUpName; input: unknown }
  | { done: Record<string, unknown> }
  | { failed: RenderFailure };

/** Why a document cannot be rendered, and where. */
export interface RenderFailure {
  path: readonly (string | number)[];
  message: string;
}
