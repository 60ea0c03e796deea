import type { Fields } from './body-values.ts';
import { DomainError } from './errors.ts';

/** The renderer of expressions, and what it is asked; src/templates has it. */

/** A document whose texts may be expressions. */
export interface Rendering {
  /** JSON; expressions read it as `self`, with the texts that were rendered before them */
  document: Fields;
  /** values that expressions use by their names */
  variables?: Fields;
  /** the members that are rendered, by their paths; all when absent */
  only?: readonly (readonly string[])[];
  /** expressions are read and not evaluated: the document stays as it is */
  parsesOnly?: true;
}

export const LOOK_UPS = ['findAgent', 'findApplication', 'findMicroserviceAgent'] as const;
export type LookUpName = (typeof LOOK_UPS)[number];

/** Answers the filters that read other objects. Throws DomainError for what does not exist or may not be read. */
export type LookUp = (filter: LookUpName, input: unknown, signal: AbortSignal) => Promise<unknown>;

export interface RenderOptions {
  lookUp: LookUp;
  /** whose share of the renderer it takes */
  caller: string;
  signal: AbortSignal;
  /** for this document, from its turn on; at most, and by default, that of the renderer */
  timeMs?: number;
}

export const EXPRESSION_FAILED = 'EXPRESSION_FAILED';

/** A document took longer than it may. */
export class RenderTimeout extends DomainError {
  constructor(timeMs: number) {
    super(400, EXPRESSION_FAILED, `the document takes longer than ${timeMs / 1000} s to render`);
  }
}

export interface Renderer {
  /** The document with its expressions replaced. Throws DomainError that names the field of the first that fails. */
  render(rendering: Rendering, options: RenderOptions): Promise<Fields>;
}
