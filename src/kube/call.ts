import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { sleep, systemClock } from '../lib/clock.ts';
import { ApiError, isConflict, isUnauthorized, TransportError } from './api-error.ts';
import { startDeadline } from './deadline.ts';
import type { KubeMetrics } from './metrics.ts';
import { errorFrom, parseBody, readResponseBody } from './response.ts';
import type { KubeTransport } from './transport.ts';

/** Every call ends after at most `timeoutMs` (default 30 s), retries included. */
export interface CallOptions {
  signal?: AbortSignal;
  timeoutMs?: number;
}

/** What the calls of a client share. */
export interface CallContext {
  transport: KubeTransport;
  metrics: KubeMetrics;
  maxResponseBytes: number;
  mayWrite: () => boolean;
  /** retries of a call without a connection to the API server */
  connectRetries: number;
}

export const CALL_MS = 30_000;
export const RETRIES = 5;
const RETRY: Backoff = { baseMs: 100, factor: 3, maxMs: 5_000, jitter: 0.5 };

/** One request for the retry loop. `repeatable`: the effect of two executions is that of one. */
export interface ApiCall {
  verb: string;
  resource: string;
  method: string;
  path: string;
  body?: unknown;
  contentType?: string;
  /** the media type of the response, where it is not the usual one */
  accept?: string;
  repeatable: boolean;
}

/**
 * The delay before a failed call is retried, or undefined when it must not be retried. `attempt` counts from 1.
 */
export function retryDelay(
  error: unknown,
  attempt: number,
  repeatable: boolean,
  random: () => number,
  connectRetries: number = RETRIES,
): number | undefined {
  const isRefused = error instanceof TransportError && error.code === 'refused';
  if (attempt > (isRefused ? connectRetries : RETRIES)) return undefined;
  const backoff = backoffDelay(RETRY, attempt, random);
  if (error instanceof TransportError) {
    const executedForSure = error.code === 'malformed' || error.code === 'too-large';
    if (executedForSure || error.code === 'timeout') return undefined;
    return repeatable || isRefused ? backoff : undefined;
  }
  if (!(error instanceof ApiError)) return undefined;
  // 429 comes from flow control, before the request is executed.
  const mayRepeat = error.status === 429 || (error.status >= 500 && repeatable);
  if (!mayRepeat) return undefined;
  return Math.max(backoff, (error.retryAfterSeconds ?? 0) * 1000);
}

/** Whether a request that failed with this error may have been executed. */
const mayBeDone = (error: unknown): boolean =>
  error instanceof TransportError ? error.code !== 'refused' : error instanceof ApiError && error.status >= 500;

/** Sends one request. Returns the parsed body, or throws an ApiError or TransportError. */
async function exchange(context: CallContext, call: ApiCall, signal: AbortSignal): Promise<unknown> {
  const start = performance.now();
  let code = '';
  try {
    const response = await context.transport.send({
      method: call.method,
      path: call.path,
      headers: {
        ...(call.body !== undefined && { 'content-type': call.contentType ?? 'application/json' }),
        ...(call.accept !== undefined && { accept: call.accept }),
      },
      ...(call.body !== undefined && { body: JSON.stringify(call.body) }),
      lane: 'call',
      signal,
    });
    code = String(response.statusCode);
    const text = await readResponseBody(response, context.maxResponseBytes, signal);
    if (response.statusCode >= 400) throw errorFrom(response, text, `${call.verb} ${call.path}`);
    return text === '' ? undefined : parseBody(text);
  } catch (error) {
    code ||= error instanceof TransportError ? error.code : 'aborted';
    throw error;
  } finally {
    context.metrics.apiRequest?.(
      { verb: call.verb, resource: call.resource, code },
      (performance.now() - start) / 1000,
    );
  }
}

/** Carries out a call: with a deadline, retries, one reload of the credentials after a 401, and the fence of a former leader. */
export async function performCall(
  context: CallContext,
  call: ApiCall,
  { signal, timeoutMs = CALL_MS }: CallOptions,
): Promise<unknown> {
  if (call.method !== 'GET' && !context.mayWrite()) throw new FencedError(`${call.verb} ${call.path}`);
  using deadline = startDeadline(timeoutMs, signal);
  let reloaded = false;
  /** the error of an attempt that may have been executed */
  let unclear: unknown;
  for (let attempt = 1; ; attempt++) {
    try {
      return await exchange(context, call, deadline.signal);
    } catch (error) {
      if (deadline.signal.aborted) throw deadline.signal.reason;
      // The conflict may come from the earlier attempt: a caller that reads and retries would write twice.
      if (unclear !== undefined && call.method !== 'DELETE' && isConflict(error)) throw unclear;
      if (mayBeDone(error)) unclear ??= error;
      if (isUnauthorized(error) && !reloaded) {
        reloaded = true;
        context.transport.reload();
        continue;
      }
      const delay = retryDelay(error, attempt, call.repeatable, Math.random, context.connectRetries);
      // A delay beyond the deadline would only replace this error by a timeout, which says less.
      if (delay === undefined || systemClock.now() + delay >= deadline.at) throw error;
      await sleep(delay, deadline.signal);
      if (deadline.signal.aborted) throw deadline.signal.reason;
      if (call.method !== 'GET' && !context.mayWrite()) throw new FencedError(`${call.verb} ${call.path}`);
    }
  }
}

/** A write by a client that may not write any more: a former leader. No request was sent. */
export class FencedError extends Error {
  override readonly name = 'FencedError';
  readonly code = 'KUBE_FENCED';
  constructor(context: string) {
    super(`${context}: refused, this process may not write now`);
  }
}
