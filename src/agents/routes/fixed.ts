import type { Reply } from '../../http/reply.ts';
import type { AgentCall, Observe } from '../channel/call.ts';
import { AgentFailure } from '../channel/failure.ts';

/** Responses that do not depend on the node. */
export function createFixedHandlers({ observe, caCert }: { observe: Observe; caCert?: (() => string) | undefined }) {
  return {
    certificate(call: AgentCall): Reply {
      observe(call);
      const body = caCert?.() ?? '';
      if (!body)
        throw new AgentFailure('CERTIFICATE_NOT_FOUND', 'there is no certificate to trust besides those of the system');
      return { status: 200, body, type: 'text/plain; charset=utf-8' };
    },
  };
}
