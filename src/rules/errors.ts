import type { RestErrorCode } from '../api/error-codes.ts';
import type { Verdict } from './verdict.ts';

/** `name` of a REST error body by kind of failure (docs/spec/rest-v3.md#errors). */
const NAMES = {
  400: 'ValidationError',
  403: 'ForbiddenError',
  404: 'NotFoundError',
  409: 'ConflictError',
} as const;
export type DomainStatus = keyof typeof NAMES;

/**
 * The error for a request that a rule refuses; REST makes an error body of it. The message names the field, its value unless
 * that is secret, and a value that would be valid.
 */
export class DomainError<Status extends DomainStatus = DomainStatus> extends Error {
  readonly status: DomainStatus;
  readonly code: RestErrorCode<DomainStatus>;
  /** path of the field, spelled as in the request */
  readonly field: string | undefined;

  constructor(
    status: Status,
    code: RestErrorCode<Status>,
    message: string,
    options: { field?: string; name?: string } = {},
  ) {
    super(message);
    this.name = options.name ?? NAMES[status];
    this.status = status;
    this.code = code;
    this.field = options.field;
  }
}

export const invalid = (message: string, field?: string, code: RestErrorCode<400> = 'VALIDATION_ERROR') =>
  new DomainError(400, code, message, { field });
export const conflict = (code: RestErrorCode<409>, message: string, field?: string) =>
  new DomainError(409, code, message, { field });
/** A name that another object has; always 409. */
export const duplicateName = (what: string, name: string) =>
  new DomainError(409, 'DUPLICATE_NAME', `${what} name "${name}" is already used`, {
    field: 'name',
    name: 'DuplicatePropertyError',
  });

/** A verdict as a REST error. */
export const verdictError = (verdict: Verdict, field?: string) =>
  new DomainError<DomainStatus>(verdict.status, verdict.code, verdict.message, { field: field ?? verdict.field });
