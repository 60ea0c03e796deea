import { STATUS_CODES } from 'node:http';
import { AGENT_ERROR_CODES, type AgentErrorCode } from '../../api/error-codes.ts';
import { HttpError, RETRY_AFTER, retryAfter } from '../../http/http-error.ts';
import { isTransient } from '../../kube/mod.ts';

/**
 * Why a request of an agent failed. An agent checks `retryable` first: it is false only when the credential or the request is
 * certainly wrong.
 */
export class AgentFailure extends HttpError {
  declare readonly code: AgentErrorCode;

  constructor(code: AgentErrorCode, message: string, options: { retryAfterSeconds?: number; cause?: unknown } = {}) {
    const status = AGENT_ERROR_CODES[code];
    const retryable = status === 503 || status === 429 || status === 408;
    const seconds = options.retryAfterSeconds ?? (status === 503 || status === 429 ? RETRY_AFTER : undefined);
    super(status, code, message, {
      cause: options.cause,
      members: { error: STATUS_CODES[status], retryable },
      ...(seconds !== undefined && { headers: retryAfter(seconds) }),
    });
  }
}

export const notReady = (message: string, retryAfterSeconds?: number) =>
  new AgentFailure('CONTROLLER_NOT_READY', message, { retryAfterSeconds });

/** The response to an agent for any error. Errors of the controller are 503 and contain nothing internal. */
export function failureOf(error: unknown): AgentFailure {
  if (error instanceof AgentFailure) return error;
  if (isTransient(error)) {
    return new AgentFailure('CONTROLLER_DB_UNAVAILABLE', 'the cluster does not answer at present', { cause: error });
  }
  return new AgentFailure('CONTROLLER_DB_BUSY', 'the request could not be carried out now', { cause: error });
}
