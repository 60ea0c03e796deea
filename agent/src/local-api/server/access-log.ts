import { createHash } from 'node:crypto';
import type { Clock } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import { createTokenBuckets } from '../../../../src/lib/token-bucket.ts';
import type { IdentifiedCaller, Listener } from './authenticate.ts';
import type { LocalRoute } from './route.ts';

/** A request that was answered, or whose client did not wait for the answer. */
export interface AnsweredRequest {
  method: string;
  /** absent where there is none, or where the caller may not know */
  route?: Pick<LocalRoute, 'path' | 'operation'>;
  /** absent: the client had disconnected */
  status?: number;
  milliseconds: number;
  listener: Listener;
  identified: IdentifiedCaller;
}

/** Lines of one listener at once, and then per second. A container or a user can send any number of requests. */
const LINES = { burst: 30, perSecond: 0.1 };

/**
 * Returns a function that logs requests: `api.reject` where access was refused, `api.access` else. Changes are logged as usual
 * work, reads for debugging alone. Neither paths nor queries are logged, which may have secrets.
 */
export function createAccessLog({ log, clock }: { log: Log; clock: Clock }): (request: AnsweredRequest) => void {
  const lines = createTokenBuckets({ ...LINES, clock });
  /** by listener: how many were logged for debugging alone since the last line */
  const unlogged = new Map<Listener, number>();
  return ({ method, route, status, milliseconds, listener, identified }) => {
    const isRejected = status === 401 || status === 403;
    const fields = {
      event: isRejected ? 'api.reject' : 'api.access',
      ...{
        method,
        route: route?.path ?? 'none',
        status: status ?? 'disconnected',
        durationMs: Math.round(milliseconds),
      },
      ...{ listener, caller: identified.kind },
      ...('claims' in identified && { jti: digestOf(identified.claims.jti) }),
    };
    const isUsual = !isRejected && method === 'GET';
    if (isUsual || !lines.take(listener)) {
      if (!isUsual) unlogged.set(listener, (unlogged.get(listener) ?? 0) + 1);
      log.debug(fields, TEXT);
      return;
    }
    const missing = unlogged.get(listener);
    unlogged.delete(listener);
    const shown = { ...fields, ...(missing && { unlogged: missing }) };
    if (isRejected) log.warn(shown, TEXT);
    else log.info(shown, TEXT);
  };
}

const TEXT = 'A request of the local API';

const digestOf = (text: string) => createHash('sha256').update(text).digest('hex');
