import { AgentError } from '../../domain/agent-error.ts';
import { ConfigError } from '../../domain/config.ts';
import { engineTrouble } from '../../domain/engine-trouble.ts';

/** Codes of the local API and their statuses (docs/spec/agent-local-api.md#errors). */
export const API_ERRORS = {
  INVALID_ARGUMENT: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  CONFLICT: 409,
  APPLY_IN_PROGRESS: 409,
  PAYLOAD_TOO_LARGE: 413,
  INTERNAL: 500,
  NOT_IMPLEMENTED: 501,
  UNAVAILABLE: 503,
  EXEC_START_TIMEOUT: 504,
} as const;
export type ApiErrorCode = keyof typeof API_ERRORS;

/** A request that cannot be answered as asked. */
export class LocalApiError extends Error {
  readonly code: ApiErrorCode;
  readonly details: Record<string, unknown> | undefined;
  constructor(code: ApiErrorCode, message: string, details?: Record<string, unknown>) {
    super(message);
    this.name = 'LocalApiError';
    this.code = code;
    this.details = details;
  }
}

/** Errors of other layers, in the words of the local API. */
export function toApiError(error: unknown): LocalApiError | undefined {
  if (error instanceof LocalApiError) return error;
  const known = error instanceof AgentError ? error : engineTrouble(error);
  if (known) return new LocalApiError(known.code, known.message, known.details);
  // The request is right, and the files of the machine are not.
  if (error instanceof ConfigError) return new LocalApiError('CONFLICT', error.message);
  return undefined;
}
