import type { ErrorCode, ErrorStatus } from '../api/error-codes.ts';
import { printable } from '../api/printable.ts';
import type { Reply } from './reply.ts';

/** Names of error classes in responses, by status (docs/spec/rest-v3.md#errors). */
const NAMES: Readonly<Record<ErrorStatus, string>> = {
  400: 'ValidationError',
  401: 'AuthenticationError',
  403: 'ForbiddenError',
  404: 'NotFoundError',
  405: 'MethodNotAllowedError',
  408: 'RequestTimeoutError',
  409: 'ConflictError',
  413: 'PayloadTooLargeError',
  415: 'UnsupportedMediaTypeError',
  429: 'RateLimitExceededError',
  431: 'HeadersTooLargeError',
  500: 'InternalError',
  501: 'NotImplementedError',
  503: 'ServiceUnavailableError',
};

/** Default of Retry-After, in seconds. */
export const RETRY_AFTER = 5;

export interface HttpErrorOptions {
  name?: string;
  cause?: unknown;
  headers?: Record<string, string>;
  members?: Record<string, unknown>;
}

/** A response that is not a success. Its text reaches the client: never put anything secret or internal into it. */
export class HttpError<Status extends ErrorStatus = ErrorStatus> extends Error {
  override readonly name: string;
  readonly status: ErrorStatus;
  readonly code: ErrorCode;
  readonly headers: Readonly<Record<string, string>>;
  /** further members of the body */
  readonly members: Readonly<Record<string, unknown>>;

  constructor(status: Status, code: ErrorCode<Status>, message: string, options: HttpErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = status;
    this.code = code;
    this.name = options.name ?? NAMES[status];
    this.headers = options.headers ?? {};
    this.members = options.members ?? {};
  }
}

/** The body of every error response, of REST and of the agent routes. */
export interface ErrorBody {
  name: string;
  message: string;
  code: ErrorCode;
  error?: string;
  [member: string]: unknown;
}

export const errorBody = ({ name, message, code, members }: HttpError): ErrorBody => ({
  name,
  message: printable(message),
  code,
  ...members,
});

export const replyTo = (error: HttpError): Reply => ({
  status: error.status,
  headers: error.headers,
  body: JSON.stringify(errorBody(error)),
});

/** `Retry-After` in whole seconds, at least one. */
export const retryAfter = (seconds: number) => ({ 'retry-after': String(Math.max(1, Math.ceil(seconds))) });
