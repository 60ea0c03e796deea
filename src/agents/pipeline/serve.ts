import type { ErrorCode } from '../../api/error-codes.ts';
import { replyTo } from '../../http/http-error.ts';
import { send } from '../../http/reply.ts';
import { isTransient } from '../../kube/mod.ts';
import type { Log } from '../../lib/log.ts';
import type { AgentRouteMetrics } from '../channel/dependencies.ts';
import type { Exchange } from '../channel/exchange.ts';
import { failureOf } from '../channel/failure.ts';
import type { Outgoing } from './outgoing.ts';
import type { Pipeline } from './pipeline.ts';
import type { Readiness } from './readiness.ts';

export interface ServeOptions {
  pipeline: Pick<Pipeline, 'run'>;
  readiness: Pick<Readiness, 'ready'>;
  outgoing: Pick<Outgoing, 'charge'>;
  audit: (exchange: Exchange, result: { status: number; code?: ErrorCode }) => void;
  metrics: AgentRouteMetrics;
  log: Log;
}

/** Takes a request through the pipeline and sends its response, or the error that it ends with. Never rejects. */
export function createServe({ pipeline, readiness, outgoing, audit, metrics, log }: ServeOptions) {
  return async (exchange: Exchange): Promise<void> => {
    const { req, res, path } = exchange;
    try {
      const reply = await pipeline.run(exchange);
      audit(exchange, reply);
      const { call, address = '' } = exchange;
      const onReleased = outgoing.charge(call?.uuid ?? address, Buffer.byteLength(reply.body ?? ''));
      send(res, reply, { closing: !readiness.ready, compress: true, onReleased });
    } catch (error) {
      const failure = failureOf(error);
      audit(exchange, failure);
      metrics.agent?.('refused', failure.code);
      if (failure.cause !== undefined) {
        const level = isTransient(failure.cause) ? 'warn' : 'error';
        log[level]({ err: failure.cause, path }, 'Agent request failed');
      }
      // On the same connection the rest of an unread body would have to be received first, and a retry would reach the
      // same replica.
      const closing = !readiness.ready || failure.code === 'CONTROLLER_NOT_READY' || !req.complete;
      send(res, replyTo(failure), { closing });
    }
  };
}
