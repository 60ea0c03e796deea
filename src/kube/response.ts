import type { Dispatcher } from 'undici';
import { ApiError, type StatusBody, TransportError } from './api-error.ts';
import { apiVersionOf, type KubeObject, type Resource } from './object.ts';
import { translate } from './transport.ts';

export async function readResponseBody(
  response: Dispatcher.ResponseData,
  maxBytes: number,
  signal: AbortSignal,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > maxBytes) throw new TransportError('too-large', `a response exceeds ${maxBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    throw translate(error, signal);
  }
  return Buffer.concat(chunks, size).toString('utf8');
}

export function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new TransportError('malformed', 'the response is not JSON', cause);
  }
}

/** The error of a response with a status from 400 on; `context` is what was asked for. */
export function errorFrom(
  response: Pick<Dispatcher.ResponseData, 'statusCode' | 'headers'>,
  text: string,
  context: string,
): ApiError {
  let body: StatusBody;
  try {
    body = JSON.parse(text) as StatusBody;
    if (body === null || typeof body !== 'object') throw new TypeError('not a Status');
  } catch {
    body = { message: text.slice(0, 500).trim() || `HTTP ${response.statusCode}` };
  }
  return new ApiError(response.statusCode, body, context, retryAfterOf(response.headers['retry-after']));
}

/** Kubernetes sends seconds; a proxy in front of it may send a date. */
function retryAfterOf(header: string | string[] | undefined): number | undefined {
  const text = Array.isArray(header) ? header[0] : header;
  if (text === undefined) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

/** Adds the `apiVersion` and `kind` that the server leaves out of the objects of a list or a watch. */
export function typed<T extends KubeObject>(resource: Resource<T>, object: T): T {
  object.apiVersion ??= apiVersionOf(resource);
  object.kind ??= resource.kind;
  return object;
}
