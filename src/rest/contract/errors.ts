import type { RestErrorCode } from '../../api/error-codes.ts';
import { type ErrorBody, errorBody, HttpError, RETRY_AFTER, retryAfter } from '../../http/http-error.ts';
import { ApiError, isTransient } from '../../kube/api-error.ts';
import { DomainError } from '../../rules/errors.ts';

export const badRequest = (message: string, code: RestErrorCode<400> = 'VALIDATION_ERROR') =>
  new HttpError(400, code, message);
export const notFound = (code: RestErrorCode<404>, message: string) => new HttpError(404, code, message);
const duplicate = (message: string) =>
  new HttpError(409, 'DUPLICATE_NAME', message, { name: 'DuplicatePropertyError' });
export const forbidden = (message: string) => new HttpError(403, 'FORBIDDEN', message);
export const unauthenticated = (message: string) =>
  new HttpError(401, 'UNAUTHENTICATED', message, { headers: { 'www-authenticate': 'Bearer realm="v3"' } });
/** 429; `seconds` until the next attempt. */
export const tooOften = (message: string, seconds: number) =>
  new HttpError(429, 'TOO_MANY_REQUESTS', message, { headers: retryAfter(seconds) });
export const unavailable = (message: string, cause?: unknown, seconds = RETRY_AFTER) =>
  new HttpError(503, 'SERVICE_UNAVAILABLE', message, { cause, headers: retryAfter(seconds) });

/** The response to an error. `cause` is for the log: set for errors of the controller, not for those of the client. */
export interface ErrorReply {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: ErrorBody;
  cause?: unknown;
}

/** The one place where an error becomes a response of the REST API. */
export function errorReply(error: unknown): ErrorReply {
  const failure = toHttpError(error);
  const { status, headers, cause } = failure;
  return {
    status,
    headers,
    body: { ...errorBody(failure), ...(status === 403 && { error: 'Forbidden' }) },
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

/** The response to a refusal of the API server. */
function fromApi(error: ApiError): HttpError {
  const { status, reason, details } = error;
  if (reason === 'AlreadyExists') return duplicate('an object of this name exists already');
  if (status === 404) return notFound('NOT_FOUND', `${details.kind ?? 'object'} ${details.name ?? ''} does not exist`);
  if (isPolicy(error)) return new HttpError(400, 'REFUSED_BY_POLICY', afterContext(error));
  if (status === 409)
    return new HttpError(409, 'CONFLICT', 'the object was changed at the same time, try again', { cause: error });
  if (status === 422) return badRequest(fieldText(error));
  if (status === 413 || error.message.includes('request is too large'))
    return badRequest('the object would become too large to be stored', 'OBJECT_TOO_LARGE');
  if (status === 401 || isTransient(error))
    return unavailable('the cluster cannot carry this out now, try again', error, error.retryAfterSeconds);
  return new HttpError(500, 'INTERNAL_ERROR', 'the cluster refused what the controller asked for', { cause: error });
}

/** Messages of admission webhooks and policies are meant for the author of the object. */
const isPolicy = (error: ApiError) => /admission webhook|ValidatingAdmissionPolicy/.test(error.message);

/** `create /apis/...: text` without the request, which is internal. */
const afterContext = (error: ApiError) => error.message.replace(/^[a-z]+ \/[^ ]*: /, '');

/**
 * The first violation of an object's schema or rules, without the refused value, which may be secret and which the client
 * knows.
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
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*(?:"|\\?$)|[{}[\]]|: /gs)) {
    if (token === '{' || token === '[') depth++;
    else if (token === '}' || token === ']') depth--;
    else if (token === ': ' && depth === 0) return text.slice(index + token.length);
  }
  return 'has a value that is not valid';
}
