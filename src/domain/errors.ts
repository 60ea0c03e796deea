import type { Verdict } from './inputs.ts';

/** `name` of a REST error body by kind of failure (docs/spec/rest-v3.md#errors). */
const NAMES = {
  400: 'ValidationError',
  403: 'ForbiddenError',
  404: 'NotFoundError',
  409: 'ConflictError',
} as const;
export type DomainStatus = keyof typeof NAMES;

/**
 * A request that a rule refuses: for the REST layer, which turns it into a body without further thought. The message
 * names the field, its value where it is no secret, and what would be right.
 */
export class DomainError extends Error {
  readonly status: DomainStatus;
  readonly code: string;
  /** path of the field in the words of the request */
  readonly field: string | undefined;

  constructor(status: DomainStatus, code: string, message: string, options: { field?: string; name?: string } = {}) {
    super(message);
    this.name = options.name ?? NAMES[status];
    this.status = status;
    this.code = code;
    this.field = options.field;
  }
}

export const invalid = (message: string, field?: string, code = 'VALIDATION_ERROR') =>
  new DomainError(400, code, message, { field });
export const notFound = (code: string, message: string, field?: string) =>
  new DomainError(404, code, message, { field });
export const conflict = (code: string, message: string, field?: string) =>
  new DomainError(409, code, message, { field });
/** A name that is taken; 409 always. */
export const duplicateName = (what: string, name: string) =>
  new DomainError(409, 'DUPLICATE_NAME', `${what} name "${name}" is already used`, {
    field: 'name',
    name: 'DuplicatePropertyError',
  });

/** The same verdict as REST says it. */
export const verdictError = (verdict: Verdict, field?: string) =>
  new DomainError(verdict.status, verdict.code, verdict.message, { field: field ?? verdict.field });
