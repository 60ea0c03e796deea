import type { IncomingMessage } from 'node:http';
import { isDeeperThan, JSON_DEPTH } from '../api/json.ts';
import type { Clock } from '../kube/mod.ts';
import { AgentFailure } from './failure.ts';

/** Reads JSON bodies within bounds: of each, of all together, and of time. Rejects with AgentFailure. */
export type ReadBody = (req: IncomingMessage, maxBytes: number) => Promise<unknown>;

export interface BodyLimits {
  pendingBytes: number;
  pendingBodies: number;
  /** beyond what the slowest link needs for it */
  bodyMs: number;
}

/** Bytes per millisecond (16 kbit/s): a report of many microservices may come over a thin line. */
const SLOWEST = 2;

export function createReadBody({ pendingBytes, pendingBodies, bodyMs }: BodyLimits, clock: Clock): ReadBody {
  let bodies = 0;
  let bytes = 0;

  return async (req, maxBytes) => {
    const encoding = req.headers['content-encoding'];
    if (encoding !== undefined && encoding !== 'identity') {
      throw new AgentFailure('UNSUPPORTED_ENCODING', 'send the body without content encoding');
    }
    const declared = Number(req.headers['content-length'] ?? 0);
    if (declared > maxBytes) throw tooLarge(maxBytes);
    if (bodies >= pendingBodies || bytes + declared > pendingBytes) throw busy();
    let reserved = declared;
    bodies++;
    bytes += reserved;
    try {
      return parse(
        await collect(req, bodyMs + Math.round(declared / SLOWEST), clock, (received) => {
          if (received > maxBytes) throw tooLarge(maxBytes);
          if (received <= reserved) return;
          if (bytes + received - reserved > pendingBytes) throw busy();
          bytes += received - reserved;
          reserved = received;
        }),
      );
    } finally {
      bodies--;
      bytes -= reserved;
    }
  };
}

const tooLarge = (maxBytes: number) => new AgentFailure('BODY_TOO_LARGE', `the body exceeds ${maxBytes} bytes`);
const busy = () => new AgentFailure('CONTROLLER_DB_BUSY', 'too many requests are being received');

/** `admit` is called before a chunk is kept, with the length including it, and throws to refuse it. */
function collect(req: IncomingMessage, ms: number, clock: Clock, admit: (received: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let received = 0;
    const settle = (outcome: () => void) => {
      cancel();
      req.off('data', onData).off('end', onEnd).off('error', onCut).off('close', onCut);
      outcome();
    };
    const onData = (chunk: Buffer) => {
      received += chunk.length;
      try {
        admit(received);
        chunks.push(chunk);
      } catch (error) {
        req.pause();
        settle(() => reject(error));
      }
    };
    const onEnd = () => settle(() => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    const onCut = () => settle(() => reject(new AgentFailure('REQUEST_TIMEOUT', 'the request was cut off')));
    const cancel = clock.after(ms, () => {
      req.pause();
      settle(() => reject(new AgentFailure('REQUEST_TIMEOUT', `the body was not complete within ${ms} ms`)));
    });
    req.on('data', onData).on('end', onEnd).on('error', onCut).on('close', onCut);
  });
}

function parse(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  const text = body.toString('utf8');
  if (isDeeperThan(text))
    throw new AgentFailure('VALIDATION_ERROR', `the body is nested deeper than ${JSON_DEPTH} levels`);
  try {
    return JSON.parse(text);
  } catch {
    throw new AgentFailure('VALIDATION_ERROR', 'the body is not JSON');
  }
}
