/**
 * The errors of requests to the API server, with stable codes, and predicates for the retry policies of client, reflector
 * and controllers.
 */

/** The part of a Kubernetes `Status` that we read. */
export interface StatusBody {
  kind?: string;
  status?: string;
  code?: number;
  reason?: string;
  message?: string;
  details?: StatusDetails;
  metadata?: { continue?: string; resourceVersion?: string };
}

export interface StatusDetails {
  name?: string;
  group?: string;
  kind?: string;
  uid?: string;
  retryAfterSeconds?: number;
  causes?: { reason?: string; message?: string; field?: string }[];
}

/** The API server responded with an error. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code = 'KUBE_API';
  readonly status: number;
  /** Machine-readable reason of the `Status` body (`NotFound`, `Conflict`, ...); empty when there was none. */
  readonly reason: string;
  readonly details: StatusDetails;
  /** From the Retry-After header, else from the body. */
  readonly retryAfterSeconds: number | undefined;
  /** On 410 of a list page: a token that continues the list from the latest state, which makes the list inconsistent. */
  readonly continueToken: string | undefined;

  constructor(status: number, body: StatusBody, context: string, retryAfterSeconds?: number) {
    super(`${context}: ${body.message ?? body.reason ?? `HTTP ${status}`}`);
    this.status = status;
    this.reason = body.reason ?? '';
    this.details = body.details ?? {};
    this.retryAfterSeconds = retryAfterSeconds ?? body.details?.retryAfterSeconds;
    this.continueToken = body.metadata?.continue || undefined;
  }
}

/**
 * There was no response, or it cannot be read.
 * - `refused`: no connection was made, so the request was not executed
 * - `lost`: the connection broke; whether the request was executed is unknown
 * - `timeout`: no complete response within the deadline; whether the request was executed is unknown
 * - `malformed`: the response is not JSON, or not the JSON that is expected
 * - `too-large`: a response or watch line exceeds the limit; it is dropped before all of it is in memory
 */
export type TransportErrorCode = 'refused' | 'lost' | 'timeout' | 'malformed' | 'too-large';

export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly code: TransportErrorCode;

  constructor(code: TransportErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

const hasStatus = (error: unknown, ...statuses: number[]): error is ApiError =>
  error instanceof ApiError && statuses.includes(error.status);

export const isNotFound = (error: unknown): error is ApiError => hasStatus(error, 404);
export const isForbidden = (error: unknown): error is ApiError => hasStatus(error, 403);
export const isUnauthorized = (error: unknown): error is ApiError => hasStatus(error, 401);
/** The API server refuses the object because of its schema or its size: another attempt fails in the same way. */
export const isStatusRefused = (error: unknown): error is ApiError => hasStatus(error, 400, 413, 422);

/** The object was changed after it was read. That is normal: read it again and retry, without a warning in the log. */
export const isConflict = (error: unknown): error is ApiError =>
  hasStatus(error, 409) && error.reason !== 'AlreadyExists';
export const isAlreadyExists = (error: unknown): error is ApiError =>
  hasStatus(error, 409) && error.reason === 'AlreadyExists';

/** The spec or patch itself is wrong, or a `test` of a JSON patch failed: another attempt fails in the same way. */
export const isInvalid = (error: unknown): error is ApiError => hasStatus(error, 400, 422);

/** The server no longer has the history that the resource version or continue token of the request needs (410). */
export const isExpired = (error: unknown): error is ApiError =>
  hasStatus(error, 410) || (error instanceof ApiError && (error.reason === 'Expired' || error.reason === 'Gone'));

/** The server is behind the requested resource version: it is another API server, or etcd was restored from a backup. */
export const isVersionTooLarge = (error: unknown): error is ApiError =>
  hasStatus(error, 504, 500) &&
  (error.details.causes?.some((cause) => cause.reason === 'ResourceVersionTooLarge') ||
    error.message.includes('Too large resource version'));

/** The same request may succeed later although no object changes. */
export const isTransient = (error: unknown): boolean =>
  error instanceof TransportError
    ? error.code === 'refused' || error.code === 'lost' || error.code === 'timeout'
    : error instanceof ApiError && (error.status === 429 || error.status >= 500);
