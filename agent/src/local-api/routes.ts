import { AgentError } from '../domain/agent-error.ts';
import { ApiError } from './errors.ts';
import type { Route } from './route.ts';
import { CONTENT_ROUTES } from './routes/content.ts';
import { MICROSERVICE_ROUTES } from './routes/microservices.ts';
import { PROBE_ROUTES } from './routes/probes.ts';
import { SYSTEM_ROUTES } from './routes/system.ts';
import { WORKLOAD_ROUTES } from './routes/workload.ts';

/** The local API: an array of routes is the router; the first that matches answers. */
export const ROUTES: readonly Route[] = [
  ...PROBE_ROUTES,
  ...SYSTEM_ROUTES,
  ...WORKLOAD_ROUTES,
  ...CONTENT_ROUTES,
  ...MICROSERVICE_ROUTES,
];

/** Routes that answer 501 (docs/spec/agent-local-api.md#routes-that-are-not-built). */
const LATER: readonly [RegExp, string][] = [
  [/^\/v1\/(images|volumes|deploy)(\/|:|$)|^\/v1\/(models|knowledge):/, 'this part of the local API'],
  [/^\/v1\/system\/(controlplane|controller|logs:stream|config\/switch)/, 'this part of the local API'],
  [/^\/v1\/(ms|microservices)\/[^/]+\/(exec\/sessions|logs:stream)/, 'this form of exec sessions and log streams'],
  [/^\/v1\/auth\/tokens/, 'token management'],
];

/** Why a path that no route has is not there. */
export function unrouted(path: string): ApiError {
  const later = LATER.find(([pattern]) => pattern.test(path));
  if (later) return new ApiError('NOT_IMPLEMENTED', `this version of the agent does not have ${later[1]} yet`);
  return new ApiError('NOT_FOUND', `no route ${path}`);
}

/** Errors of other layers, in the words of the local API. */
export function toApiError(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error;
  if (error instanceof AgentError) return new ApiError(error.code, error.message);
  return undefined;
}
