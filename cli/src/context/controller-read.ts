import { startDeadline } from '../../../src/kube/deadline.ts';
import type { FrameSocketRequest } from '../../../src/session-client/socket.ts';
import { line } from '../../../src/terminal/safe.ts';
import { askController } from './ask-controller.ts';
import { CommandError, UnreachableError } from './errors.ts';

/** How long, ms, the controller has for a response, and the bytes that are read of it. */
const [READ_MS, MOST_BYTES] = [15_000, 1024 * 1024];

/**
 * The JSON of a GET from the controller, over the way of sessions. Rejects with a CommandError that has the words of the controller
 * when it refuses, and with an UnreachableError when it does not answer within 15 s.
 */
export async function readJson(
  { url, headers, ca, through }: FrameSocketRequest,
  signal: AbortSignal,
): Promise<unknown> {
  using deadline = startDeadline(READ_MS, signal);
  const asked = { headers, ca, through, mostBytes: MOST_BYTES };
  const { status, text } = await askController(url.replace(/^ws/, 'http'), asked, deadline.signal).catch(
    (error: Error) => {
      signal.throwIfAborted();
      throw new UnreachableError(`the controller does not answer: ${line(error.message)}`);
    },
  );
  const body = parsed(text);
  if (status === 200) return body;
  throw new CommandError(refusal(status, line(String(body?.message ?? `it answered with ${status}`))));
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
