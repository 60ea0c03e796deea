import type { ServerResponse } from 'node:http';
import { printable } from '../../../../src/api/printable.ts';
import type { Log } from '../../../../src/lib/log.ts';
import { drained } from '../../machine/drained.ts';
import { errorText } from '../../machine/log.ts';
import { DISCARDED } from './body.ts';
import { API_ERRORS, LocalApiError, toApiError } from './errors.ts';
import type { LocalReply } from './route.ts';

/** ms */
const LINGER = 2_000;

/** Sends the result of a handler in the form of its route; lines are sent as they come. */
export async function writeReply(
  outgoing: ServerResponse,
  { form, status }: LocalReply,
  result: unknown,
): Promise<void> {
  if (isLines(result)) return writeLines(outgoing, result);
  if (typeof form === 'object') {
    outgoing.writeHead(200, { 'content-type': form.text }).end(String(result));
    return;
  }
  writeJson(outgoing, statusOf(status, result), form === 'envelope' ? { success: true, data: result } : result);
}

function statusOf(status: LocalReply['status'], result: unknown): number {
  if (typeof status !== 'object') return status ?? 200;
  return status.when(result) ? status.other : 200;
}

const isLines = (result: unknown): result is AsyncIterable<unknown> =>
  typeof result === 'object' && result !== null && Symbol.asyncIterator in result;

async function writeLines(outgoing: ServerResponse, lines: AsyncIterable<unknown>): Promise<void> {
  outgoing.writeHead(200, { 'content-type': 'application/x-ndjson' });
  // The first line may be long in coming.
  outgoing.flushHeaders();
  for await (const line of lines) {
    if (outgoing.destroyed) return;
    if (!outgoing.write(`${JSON.stringify(line)}\n`)) await drained(outgoing);
  }
  outgoing.end();
}

function writeJson(outgoing: ServerResponse, status: number, value: unknown): void {
  outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

interface ErrorAudience {
  requestId: string;
  log: Log;
  /** the text of an error that nobody foresaw is for them; it may name paths and settings of the machine */
  isTold: boolean;
}

/** Sends an error in the words of the local API. An error that nobody foresaw is logged. */
export function writeError(outgoing: ServerResponse, error: unknown, { requestId, log, isTold }: ErrorAudience): void {
  const known = toApiError(error);
  if (!known) log.error({ error: errorText(error), requestId }, 'A request of the local API failed');
  const { code, message, details } =
    known ?? new LocalApiError('INTERNAL', isTold ? errorText(error) : 'the agent has the reason in its log');
  if (outgoing.headersSent) return void outgoing.destroy();
  const body = { success: false, error: { code, message: printable(message), details, requestId } };
  if (outgoing.req.complete) return void writeJson(outgoing, API_ERRORS[code], body);
  outgoing.writeHead(API_ERRORS[code], { 'content-type': 'application/json', connection: 'close' });
  linger(outgoing, JSON.stringify(body));
}

/**
 * Answers, and goes on receiving for a moment, without use, before the connection ends: a client that is cut off in the middle
 * of sending sees a broken connection and not the answer.
 */
function linger(outgoing: ServerResponse, text: string): void {
  const { req } = outgoing;
  let received = 0;
  const end = () => {
    clearTimeout(timer);
    outgoing.end();
  };
  const timer = setTimeout(end, LINGER);
  req.on('data', (piece: Buffer) => {
    received += piece.length;
    if (received > DISCARDED) end();
  });
  req.once('end', end).once('close', end);
  req.resume();
  outgoing.write(text);
}
