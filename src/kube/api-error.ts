/**
 * What can go wrong between us and the API server, as values with stable codes, and predicates so that the policies of
 * client, reflector and controllers read like prose.
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

/** The API server answered, and the answer was no. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code = 'KUBE_API';
  readonly status: number;
  /** Machine-readable reason of the `Status` body (`NotFound`, `Conflict`, ...); empty when there was none. */
  readonly reason: string;
  readonly details: StatusDetails;
  /** From the Retry-After header, else from the body. */
  readonly retryAfterSeconds: number | undefined;
  /** On 410 of a list page: the token that continues, inconsistently, from the latest state. */
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
 * The answer never came, or cannot be read.
 * - `refused`: no connection was made, so nothing was executed
 * - `lost`: the connection broke; whether the request was executed is unknown
 * - `timeout`: no complete answer within the deadline; likewise unknown
 * - `malformed`: bytes that are not the JSON they should be
 * - `too-large`: an answer or watch line beyond the cap, dropped before it was held in memory
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
/** The object is what the API server does not take: by its schema, or by its size. To send it again changes nothing. */
export const isStatusRefused = (error: unknown): error is ApiError => hasStatus(error, 400, 413, 422);
export const isTooManyRequests = (error: unknown): error is ApiError => hasStatus(error, 429);

/** Somebody changed the object since we read it. Normal life: read again, try again, tell nobody. */
export const isConflict = (error: unknown): error is ApiError =>
  hasStatus(error, 409) && error.reason !== 'AlreadyExists';
export const isAlreadyExists = (error: unknown): error is ApiError =>
  hasStatus(error, 409) && error.reason === 'AlreadyExists';

/** The spec or patch itself is wrong (or a JSON patch `test` failed): repeating it cannot help. */
export const isInvalid = (error: unknown): error is ApiError => hasStatus(error, 400, 422);

/** The server no longer has the history behind our resource version or continue token (410). */
export const isExpired = (error: unknown): error is ApiError =>
  hasStatus(error, 410) || (error instanceof ApiError && (error.reason === 'Expired' || error.reason === 'Gone'));

/** The server is behind the resource version we ask for: another replica, or an etcd that was restored. */
export const isVersionTooLarge = (error: unknown): error is ApiError =>
  hasStatus(error, 504, 500) &&
  (error.details.causes?.some((cause) => cause.reason === 'ResourceVersionTooLarge') ||
    error.message.includes('Too large resource version'));

/** The same request may succeed later without anybody changing anything. */
export const isTransient = (error: unknown): boolean =>
  error instanceof TransportError
    ? error.code === 'refused' || error.code === 'lost' || error.code === 'timeout'
    : error instanceof ApiError && (error.status === 429 || error.status >= 500);
