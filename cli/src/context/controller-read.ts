import http from 'node:http';
import https from 'node:https';
import { startDeadline } from '../../../src/kube/deadline.ts';
import type { FrameSocketRequest } from '../../../src/session-client/socket.ts';
import { line } from '../../../src/terminal/safe.ts';
import { CommandError, UnreachableError } from './errors.ts';

/** How long, ms, the controller has for a response, and the bytes that are read of it. */
const [READ_MS, MOST_BYTES] = [15_000, 1024 * 1024];

/**
 * The JSON of a GET from the controller, over the way of sessions. Rejects with a CommandError that has the words of the controller
 * when it refuses, and with an UnreachableError when it does not answer within 15 s.
 */
export async function readJson(request: FrameSocketRequest, signal: AbortSignal): Promise<unknown> {
  using deadline = startDeadline(READ_MS, signal);
  const { status, text } = await send(request, deadline.signal).catch((error: Error) => {
    signal.throwIfAborted();
    throw new UnreachableError(`the controller does not answer: ${line(error.message)}`);
  });
  const body = parsed(text);
  if (status === 200) return body;
  throw new CommandError(refusal(status, line(String(body?.message ?? `it answered with ${status}`))));
}

function send({ url, headers, ca, through }: FrameSocketRequest, signal: AbortSignal) {
  const target = url.replace(/^ws/, 'http');
  const { request } = target.startsWith('https:') ? https : http;
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const connection = through ? { createConnection: () => through } : { agent: false as const };
    const asked = request(target, { headers, signal, ...(ca !== undefined && { ca }), ...connection }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MOST_BYTES) response.destroy(new Error(`its response has more than ${MOST_BYTES} bytes`));
        else chunks.push(chunk);
      });
      response.once('error', reject);
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
    });
    asked.once('error', reject);
    asked.end();
  });
}

function parsed(text: string): { message?: unknown } | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const refusal = (status: number, reason: string): string =>
  status === 401 ? tokenRefusal(reason) : status === 403 ? `not permitted: ${reason}` : reason;

/** What helps when the controller does not accept a token. */
export const tokenRefusal = (reason: string): string =>
  `the controller does not accept the token (${reason}); "kubectl create token NAME --audience skerry" makes one for $SKERRY_TOKEN or the file of $SKERRY_TOKEN_FILE, --service-account NAME does so by itself`;
