import type { IncomingMessage } from 'node:http';
import { type ByteBudget, isFull } from '../lib/byte-budget.ts';
import type { Clock } from '../lib/clock.ts';

/** Reads a request body within bounds: of its size, of what one caller and all callers send at once, and of time. */
export type ReadBody = (req: IncomingMessage, rules: BodyRules) => Promise<Buffer>;

export interface BodyRules {
  maxBytes: number;
  budget: ByteBudget;
  /** the bodies of one caller count together: a node, a user, or an address before authentication */
  caller: string;
  /** called with the size of each chunk, before it is accepted or refused */
  received?: (bytes: number) => void;
  /** time until the body must be complete, in addition to what the slowest link needs for the bytes received so far */
  ms: number;
}

export type BodyRefusal = 'encoding' | 'too-large' | 'caller-full' | 'class-full' | 'too-slow' | 'cut-off';

export interface BodyReaderOptions {
  clock: Pick<Clock, 'now' | 'after'>;
  /** the error that a refused body is answered with; codes differ between the HTTP surfaces */
  refuse: (why: BodyRefusal, message: string) => Error;
}

/** Bytes per millisecond (16 kbit/s): a large report or upload may come over a slow link. */
const MIN_RATE = 2;

/** Resolves with an empty buffer when there is no body. Rejects with what `refuse` returns or `received` throws. */
export function createBodyReader({ clock, refuse }: BodyReaderOptions): ReadBody {
  return async (req, { maxBytes, budget, caller, ms, received: count }) => {
    const encoding = req.headers['content-encoding'];
    if (encoding !== undefined && encoding !== 'identity')
      throw refuse('encoding', 'send the body without content encoding');
    const tooLarge = () => refuse('too-large', `the body exceeds ${maxBytes} bytes`);
    const busy = () => refuse('class-full', 'too many requests are being received');
    if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge();
    const callerFull = () => refuse('caller-full', 'too many requests of this sender are being received');
    const body = { end: (_: Error) => {} };
    const opened = budget.open(caller, () => body.end(callerFull()));
    if (isFull(opened)) throw opened.full === 'class' ? busy() : callerFull();
    using share = opened;
    return await collect(req, { ms, clock, refuse, body }, (received, more) => {
      count?.(more);
      if (received > maxBytes) throw tooLarge();
      if (!share.take(more)) throw busy();
    });
  };
}

/** Calls `admit` before a chunk is kept; it throws to refuse the body. Sets `body.end`, which refuses the body at any time. */
function collect(
  req: IncomingMessage,
  { ms, clock, refuse, body }: BodyReaderOptions & { ms: number; body: { end: (error: Error) => void } },
  admit: (received: number, more: number) => void,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const began = clock.now();
    let received = 0;
    let cancel: () => void;
    const settle = (outcome: () => void) => {
      cancel();
      req.off('data', onData).off('end', onEnd).off('error', onCut).off('close', onCut);
      outcome();
    };
    const abandon = (error: unknown) => {
      req.pause();
      settle(() => reject(error));
    };
    body.end = abandon;
    const onData = (chunk: Buffer) => {
      received += chunk.length;
      try {
        admit(received, chunk.length);
        chunks.push(chunk);
      } catch (error) {
        abandon(error);
      }
    };
    const onEnd = () => settle(() => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    const onCut = () => settle(() => reject(refuse('cut-off', 'the request ended early')));
    /** Each byte received extends the deadline by what it takes at the minimum rate. */
    const watch = () => {
      const left = began + ms + received / MIN_RATE - clock.now();
      if (left <= 0) abandon(refuse('too-slow', `the body came too slowly: ${received} bytes so far`));
      else cancel = clock.after(left, watch);
    };
    cancel = clock.after(ms, watch);
    req.on('data', onData).on('end', onEnd).on('error', onCut).on('close', onCut);
  });
}
