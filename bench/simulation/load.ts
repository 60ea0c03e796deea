import { signingKey } from '../../agent/src/state/token.ts';
import { createHttp } from '../http.ts';
import { assertAllAnswered, type Load, openLoop } from '../load.ts';
import { nodeTokens } from '../tokens.ts';
import type { NodeCredentials } from './calls.ts';

/** A request of a node, without credentials. */
const REQUESTS = {
  /** a poll that is answered at once */
  poll: ({ have }: NodeCredentials) => ({
    method: 'GET',
    path: `/api/v3/agent/changes?have=${encodeURIComponent(have)}`,
  }),
  /** a full report in which nothing has changed */
  report: ({ report }: NodeCredentials) => ({ method: 'PUT', path: '/api/v3/agent/status', body: report }),
} as const;

/** Sends requests as nodes that run in another process. */
export interface NodeLoad extends AsyncDisposable {
  /**
   * Sends requests of all nodes in turn at a fixed rate, whether responses arrive or not. Throws unless every response is
   * as expected.
   */
  send(what: keyof typeof REQUESTS, rate: number, seconds: number): Promise<Load>;
}

/**
 * Sends from this process, over connections of its own: the process of the nodes is busy with a thousand agents, and would
 * send late.
 */
export function createNodeLoad(nodes: readonly NodeCredentials[], url: string): NodeLoad {
  const http = createHttp(url, CONNECTIONS);
  const keys = nodes.map(({ nodeKey }) => signingKey(nodeKey));
  return {
    async send(what, rate, seconds) {
      // Signed beforehand, since a thousand machines would sign in parallel.
      const each = Math.ceil((rate * seconds) / nodes.length);
      const tokens = nodes.map(({ uuid }, at) => nodeTokens(uuid, keys[at] as (typeof keys)[0], each));
      const load = await openLoop(rate, seconds, async (i) => {
        const at = i % nodes.length;
        const node = nodes[at] as NodeCredentials;
        const token = tokens[at]?.[Math.floor(i / nodes.length)];
        const { status, text } = await http.send({
          ...REQUESTS[what](node),
          headers: { ...node.headers, authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        });
        if (status >= 300) throw new Error(`a ${what} was answered ${status} ${text.slice(0, 200)}`);
      });
      assertAllAnswered(load);
      return load;
    },
    [Symbol.asyncDispose]: () => http[Symbol.asyncDispose](),
  };
}

const CONNECTIONS = 64;
