import { printable } from '../api/printable.ts';
import { DomainError } from '../domain/errors.ts';
import { ApiError, isTransient } from '../kube/api-error.ts';

/** Names of error classes on the wire, by status (docs/spec/rest-v3.md#errors). */
const NAMES: Readonly<Record<number, string>> = {
  400: 'ValidationError',
  401: 'AuthenticationError',
  403: 'ForbiddenError',
  404: 'NotFoundError',
  405: 'MethodNotAllowedError',
  409: 'ConflictError',
  413: 'PayloadTooLargeError',
  415: 'UnsupportedMediaTypeError',
  429: 'RateLimitExceededError',
  431: 'HeadersTooLargeError',
  500: 'InternalError',
  501: 'NotImplementedError',
  503: 'ServiceUnavailableError',
};

/** Seconds after which a client may try again when nobody said otherwise. */
export const RETRY_AFTER = 5;

/** An answer that is not a success. Its text reaches the client: never put anything secret or internal into it. */
export class HttpError extends Error {
  override readonly name: string;
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Further members of the body. */
  readonly members: Readonly<Record<string, unknown>>;

  constructor(
    status: number,
    code: string,
    message: string,
    options: {
      name?: string;
      cause?: unknown;
      headers?: Record<string, string>;
      members?: Record<string, unknown>;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = status;
    this.code = code;
    this.name = options.name ?? NAMES[status] ?? 'Error';
    this.headers = options.headers ?? {};
    this.members = options.members ?? {};
  }
}

export const invalid = (message: string, code = 'VALIDATION_ERROR') => new HttpError(400, code, message);
export const notFound = (code: string, message: string) => new HttpError(404, code, message);
export const duplicate = (message: string, code = 'DUPLICATE_NAME') =>
  new HttpError(409, code, message, { name: 'DuplicatePropertyError' });
export const forbidden = (message: string, code = 'FORBIDDEN') => new HttpError(403, code, message);
export const unauthenticated = (message: string) =>
  new HttpError(401, 'UNAUTHENTICATED', message, { headers: { 'www-authenticate': 'Bearer realm="v3"' } });
/** Asked too often; `retryAfter` in seconds. */
export const tooOften = (message: string, retryAfter: number) =>
  new HttpError(429, 'TOO_MANY_REQUESTS', message, {
    headers: { 'retry-after': String(Math.max(1, Math.ceil(retryAfter))) },
  });
export const unavailable = (message: string, cause?: unknown, retryAfter = RETRY_AFTER) =>
  new HttpError(503, 'SERVICE_UNAVAILABLE', message, {
    cause,
    headers: { 'retry-after': String(Math.max(1, Math.ceil(retryAfter))) },
  });

export interface ErrorBody {
  name: string;
  message: string;
  code: string;
  error?: string;
  [member: string]: unknown;
}

/** How an error is answered. `cause` is what the log gets: set for faults of ours, not for those of the client. */
export interface ErrorReply {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: ErrorBody;
  cause?: unknown;
}

/** The one place where an error becomes an answer. */
export function errorReply(error: unknown): ErrorReply {
  const { status, headers, name, message, code, cause, members } = toHttpError(error);
  return {
    status,
    headers,
    body: { name, message: printable(message), code, ...(status === 403 && { error: 'Forbidden' }), ...members },
    ...((status === 500 || cause !== undefined) && status >= 500 && { cause: cause ?? error }),
  };
}

function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof DomainError) return new HttpError(error.status, error.code, error.message, { name: error.name });
  if (error instanceof ApiError) return fromApi(error);
  if (isTransient(error)) return unavailable('the cluster does not answer, try again', error);
  return new HttpError(500, 'INTERNAL_ERROR', 'the controller failed to carry out the request', { cause: error });
}

/** What the API server said no to. */
function fromApi(error: ApiError): HttpError {
  const { status, reason, details } = error;
  if (reason === 'AlreadyExists') return duplicate('an object of this name exists already');
  if (status === 404) return notFound('NOT_FOUND', `${details.kind ?? 'object'} ${details.name ?? ''} does not exist`);
  if (isPolicy(error)) return new HttpError(400, 'REFUSED_BY_POLICY', afterContext(error));
  if (status === 409)
    return new HttpError(409, 'CONFLICT', 'the object was changed at the same time, try again', { cause: error });
  if (status === 422) return invalid(fieldText(error));
  if (status === 413 || error.message.includes('request is too large'))
    return invalid('the object would become too large to be stored', 'OBJECT_TOO_LARGE');
  if (status === 401 || isTransient(error))
    return unavailable('the cluster cannot carry this out now, try again', error, error.retryAfterSeconds);
  return new HttpError(500, 'INTERNAL_ERROR', 'the cluster refused what the controller asked for', { cause: error });
}

/** Admission webhooks and policies speak to whoever wrote the object. */
const isPolicy = (error: ApiError) => /admission webhook|ValidatingAdmissionPolicy/.test(error.message);

/** `create /apis/...: text` without what only concerns ourselves. */
const afterContext = (error: ApiError) => error.message.replace(/^[a-z]+ \/[^ ]*: /, '');

/**
 * The first thing that an object's schema or rules refuse, without the refused value: it may be secret, and whoever sent
 * it knows it.
 */
function fieldText(error: ApiError): string {
  const cause = error.details.causes?.find((one) => one.message);
  if (!cause?.message) return 'the object is not valid';
  const text = afterValue(cause.message);
  const field = cause.field?.replace(/^spec\./, '').replace(/^<nil>$/, '');
  return field ? `${field}: ${text}` : text;
}

/** `Invalid value: <JSON>: why` without the value, which may be a whole object; rules of the root have none. */
function afterValue(message: string): string {
  const [start = ''] = /^Invalid value: /.exec(message) ?? [];
  const text = message.slice(start.length);
  if (!start) return message;
  if (!/^["{[]/.test(text)) return text.replace(/^\S+: /, '');
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]|: /g)) {
    if (token === '{' || token === '[') depth++;
    else if (token === '}' || token === ']') depth--;
    else if (token === ': ' && depth === 0) return text.slice(index + token.length);
  }
  return 'has a value that is not valid';
}
