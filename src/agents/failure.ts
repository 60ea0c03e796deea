import { STATUS_CODES } from 'node:http';
import { printable } from '../api/printable.ts';

/**
 * Why a request of an agent was not carried out, with the codes of docs/spec/agent-channel.md#errors. An agent looks at
 * `retryable` before anything else: false only for what is provably a bad credential or a bad request.
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

export class AgentFailure extends Error {
  override readonly name = 'AgentFailure';
  readonly code: AgentFailureCode;
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: AgentFailureCode, message: string, options: { retryAfterSeconds?: number; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = CODES[code];
    this.retryAfterSeconds = options.retryAfterSeconds ?? (this.status === 503 || this.status === 429 ? 5 : undefined);
  }

  get retryable(): boolean {
    return this.status === 503 || this.status === 429 || this.status === 408;
  }

  body(): string {
    return JSON.stringify({
      name: NAMES[this.status] ?? 'Error',
      error: STATUS_CODES[this.status],
      code: this.code,
      message: printable(this.message),
      retryable: this.retryable,
    });
  }
}

const NAMES: Record<number, string> = {
  400: 'ValidationError',
  401: 'AuthenticationError',
  403: 'ForbiddenError',
  404: 'NotFoundError',
  405: 'MethodNotAllowedError',
  408: 'RequestTimeoutError',
  413: 'PayloadTooLargeError',
  415: 'UnsupportedMediaTypeError',
  429: 'RateLimitExceededError',
  503: 'ServiceUnavailableError',
};

export const notReady = (message: string, retryAfterSeconds?: number) =>
  new AgentFailure('CONTROLLER_NOT_READY', message, { retryAfterSeconds });
