import type { Dispatcher } from 'undici';
import { systemClock } from '../lib/clock.ts';
import { ApiError, type StatusBody, TransportError } from './api-error.ts';
import { CALL_MS, type CallContext } from './call.ts';
import { startDeadline } from './deadline.ts';
import { createJsonLines } from './json-lines.ts';
import { groupResource, type KubeObject, type Resource } from './object.ts';
import { pathOf, withQuery } from './path.ts';
import { errorFrom, readResponseBody, typed } from './response.ts';
import { type KubeTransport, METADATA_ONLY, translate } from './transport.ts';

export interface WatchOptions {
  signal?: AbortSignal;
  /** Deadline for the response headers; a watch itself has none. */
  timeoutMs?: number;
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  resourceVersion?: string;
  /** Stream the current state first, as ADDED events closed by a bookmark annotated `k8s.io/initial-events-end`. */
  sendInitialEvents?: boolean;
  /** the objects of events have their metadata alone */
  metadataOnly?: boolean;
  /** The number of seconds after which the server is to end the watch. */
  timeoutSeconds?: number;
  /** Called when the server has accepted the watch, possibly long before the first event. */
  onOpen?: () => void;
}

/** The object of a bookmark has only `metadata.resourceVersion` and annotations. */
export interface WatchEvent<T> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  object: T;
}

/** What the watches of a client share. */
export interface WatchContext extends Pick<CallContext, 'transport' | 'metrics' | 'maxResponseBytes'> {
  maxLineBytes: number;
}

/** One watch connection (see `KubeClient.watch`). */
export async function* watchStream<T extends KubeObject>(
  core: WatchContext,
  resource: Resource<T>,
  options: WatchOptions,
): AsyncGenerator<WatchEvent<T>, void> {
  const { transport, metrics } = core;
  const context = `watch ${groupResource(resource)}`;
  const path = withQuery(pathOf(resource, options.namespace), {
    watch: 'true',
    allowWatchBookmarks: 'true',
    labelSelector: options.labelSelector,
    fieldSelector: options.fieldSelector,
    resourceVersion: options.resourceVersion,
    ...(options.sendInitialEvents ? { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' } : {}),
    timeoutSeconds: options.timeoutSeconds,
  });
  const stop = new AbortController();
  const follow = () => stop.abort(options.signal?.reason);
  if (options.signal?.aborted) follow();
  else options.signal?.addEventListener('abort', follow);
  const start = performance.now();
  let code = '';
  try {
    const response = await openWatch(transport, path, stop, options);
    code = String(response.statusCode);
    if (response.statusCode >= 400) {
      using deadline = startDeadline(CALL_MS, stop.signal);
      throw errorFrom(response, await readResponseBody(response, core.maxResponseBytes, deadline.signal), context);
    }
    metrics.apiRequest?.(
      { verb: 'watch', resource: groupResource(resource), code },
      (performance.now() - start) / 1000,
    );
    options.onOpen?.();
    const lines = createJsonLines(core.maxLineBytes);
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      for (const line of lines.push(chunk)) yield watchEvent(resource, line, context);
    }
    lines.end();
  } catch (error) {
    throw error instanceof ApiError ? error : translate(error, stop.signal);
  } finally {
    options.signal?.removeEventListener('abort', follow);
  }
}

/** Waits for the response headers, at most `timeoutMs`. After a 401 it reloads the credentials and retries once. */
async function openWatch(
  transport: KubeTransport,
  path: string,
  stop: AbortController,
  { timeoutMs = CALL_MS, metadataOnly }: Pick<WatchOptions, 'timeoutMs' | 'metadataOnly'>,
): Promise<Dispatcher.ResponseData> {
  const cancel = systemClock.after(timeoutMs, () => {
    stop.abort(new TransportError('timeout', `no response headers within ${timeoutMs} ms`));
  });
  try {
    const send = () =>
      transport.send({
        method: 'GET',
        path,
        ...(metadataOnly && { headers: { accept: METADATA_ONLY.watch } }),
        lane: 'watch',
        signal: stop.signal,
      });
    const first = await send();
    if (first.statusCode !== 401) return first;
    transport.reload();
    await first.body.dump();
    return await send();
  } finally {
    cancel();
  }
}

function watchEvent<T extends KubeObject>(resource: Resource<T>, line: unknown, context: string): WatchEvent<T> {
  const { type, object } = (line ?? {}) as { type?: string; object?: T & StatusBody };
  if (object === null || typeof object !== 'object') {
    throw new TransportError('malformed', 'a watch event has no object');
  }
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
    case 'BOOKMARK':
      return { type, object: typed(resource, object as T) };
    case 'ERROR':
      throw new ApiError((object as StatusBody).code ?? 500, object as StatusBody, context);
    default:
      throw new TransportError('malformed', `unknown watch event type ${String(type).slice(0, 40)}`);
  }
}
