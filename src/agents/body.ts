import type { IncomingMessage } from 'node:http';
import { jsonExcess } from '../api/json.ts';
import { type ByteBudget, isFull } from '../kube/byte-budget.ts';
import type { Clock } from '../kube/mod.ts';
import { AgentFailure } from './failure.ts';

/** Reads JSON bodies within bounds: of each, of what one caller and all of them send at once, and of time. */
export type ReadBody = (req: IncomingMessage, rules: BodyRules) => Promise<unknown>;

export interface BodyRules {
  maxBytes: number;
  budget: ByteBudget;
  /** whose bodies count together: a node, or an address as long as nobody knows who speaks */
  caller: string;
  /** that its JSON may have; as many as any message of an agent when absent */
  elements?: number;
  /** told of what arrives, whatever becomes of it */
  received?: (bytes: number) => void;
  /** until it must be complete, beyond what the slowest link needs for what has arrived */
  ms: number;
}

/** Bytes per millisecond (16 kbit/s): a report of many microservices may come over a thin line. */
const SLOWEST = 2;

/** Undefined when there is no body. Rejects with AgentFailure. */
export function createReadBody(clock: Clock): ReadBody {
  return async (req, { maxBytes, budget, caller, ms, elements, received: tell }) => {
    const encoding = req.headers['content-encoding'];
    if (encoding !== undefined && encoding !== 'identity') {
      throw new AgentFailure('UNSUPPORTED_ENCODING', 'send the body without content encoding');
    }
    if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(maxBytes);
    using share = opened(budget, caller);
    const body = await collect(req, ms, clock, (received, more) => {
      tell?.(more);
      if (received > maxBytes) throw tooLarge(maxBytes);
      if (!share.take(more)) throw busy();
    });
    return parse(body, elements);
  };
}

function opened(budget: ByteBudget, caller: string) {
  const share = budget.open(caller);
  if (!isFull(share)) return share;
  throw share.full === 'class'
    ? busy()
    : new AgentFailure('TOO_MANY_REQUESTS', 'too many requests of this sender are being received');
}

const tooLarge = (maxBytes: number) => new AgentFailure('BODY_TOO_LARGE', `the body exceeds ${maxBytes} bytes`);
const busy = () => new AgentFailure('CONTROLLER_DB_BUSY', 'too many requests are being received');

/** `admit` is called before a chunk is kept, and throws to refuse it. */
function collect(
  req: IncomingMessage,
  ms: number,
  clock: Clock,
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
    const refuse = (error: unknown) => {
      req.pause();
      settle(() => reject(error));
    };
    const onData = (chunk: Buffer) => {
      received += chunk.length;
      try {
        admit(received, chunk.length);
        chunks.push(chunk);
      } catch (error) {
        refuse(error);
      }
    };
    const onEnd = () => settle(() => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    const onCut = () => settle(() => reject(new AgentFailure('REQUEST_TIMEOUT', 'the request was cut off')));
    /** What has arrived so far buys time for the rest. */
    const watch = () => {
      const left = began + ms + received / SLOWEST - clock.now();
      if (left <= 0) refuse(new AgentFailure('REQUEST_TIMEOUT', `the body came too slowly: ${received} bytes so far`));
      else cancel = clock.after(left, watch);
    };
    cancel = clock.after(ms, watch);
    req.on('data', onData).on('end', onEnd).on('error', onCut).on('close', onCut);
  });
}

function parse(body: Buffer, elements?: number): unknown {
  if (body.length === 0) return undefined;
  const text = body.toString('utf8');
  const excess = jsonExcess(text, { elements });
  if (excess) throw new AgentFailure('VALIDATION_ERROR', `the body ${excess}`);
  try {
    return JSON.parse(text);
  } catch {
    throw new AgentFailure('VALIDATION_ERROR', 'the body is not JSON');
  }
}
