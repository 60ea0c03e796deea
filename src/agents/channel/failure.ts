import { STATUS_CODES } from 'node:http';
import { HttpError, RETRY_AFTER, retryAfter } from '../../http/http-error.ts';
import { isTransient } from '../../kube/mod.ts';

/**
 * Why a request of an agent failed, with the codes of docs/spec/agent-channel.md#errors. An agent checks `retryable` first:
 * it is false only when the credential or the request is certainly wrong.
 */
const CODES = {
  AGENT_AUTH_HEADER_INVALID: 401,
  AGENT_JWT_MALFORMED: 401,
  AGENT_JWT_MISSING_SUBJECT: 401,
  AGENT_JWT_SIGNATURE_INVALID: 401,
  AGENT_JWT_EXPIRED: 401,
  AGENT_JWT_ALREADY_USED: 401,
  AGENT_NODE_NOT_FOUND: 401,
  AGENT_PUBLIC_KEY_NOT_FOUND: 401,
  EXPIRED_PROVISION_KEY: 401,
  INVALID_PROVISIONING_KEY: 404,
  NODE_NOT_FOUND: 404,
  MICROSERVICE_NOT_FOUND: 404,
  VERSION_COMMAND_NOT_FOUND: 404,
  TUNNEL_NOT_FOUND: 404,
  CERTIFICATE_NOT_FOUND: 404,
  ROUTE_NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  PROVISIONING_KEY_WAITS: 409,
  VALIDATION_ERROR: 400,
  BODY_TOO_LARGE: 413,
  UNSUPPORTED_ENCODING: 415,
  SYSTEM_NODE_REQUIRED: 403,
  REQUEST_TIMEOUT: 408,
  TOO_MANY_REQUESTS: 429,
  CONTROLLER_NOT_READY: 503,
  CONTROLLER_DB_BUSY: 503,
  CONTROLLER_DB_UNAVAILABLE: 503,
  CONTROLLER_AUTH_VERIFICATION_FAILED: 503,
} as const;
export type AgentFailureCode = keyof typeof CODES;

export class AgentFailure extends HttpError {
  declare readonly code: AgentFailureCode;

  constructor(code: AgentFailureCode, message: string, options: { retryAfterSeconds?: number; cause?: unknown } = {}) {
    const status = CODES[code];
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
