import { z } from 'zod';
import type { UpgradeRequest } from '../../../../../src/lib/web-socket/handshake.ts';
import type { LogLine, LogOptions } from '../../../engine-port/logs.ts';
import { logFields, logLine, logRange, tailOf } from '../../server/fields.ts';
import { collect } from '../../server/lines.ts';
import { routesWith } from '../../server/route.ts';

/** What the routes of the agent's own log need of it. */
export interface OwnLogDependencies {
  agent: {
    readonly sessions: {
      /** from the log files, where there are any */
      ownLogs(options: LogOptions, signal: AbortSignal): AsyncIterable<LogLine>;
      /** Sends a log over the connection that `take` gives. */
      streamLog(
        log: { reader: string; lines: (signal: AbortSignal) => AsyncIterable<LogLine> },
        take: () => UpgradeRequest,
      ): Promise<void>;
    };
  };
}

const { route, socket } = routesWith<OwnLogDependencies>('agent');

/** What the agent itself has logged, for its admin. */
export const OWN_LOG_ROUTES = [
  route({
    method: 'GET',
    path: '/v1/system/logs',
    operation: 'getLogs',
    summary: 'What the agent has logged',
    access: 'admin',
    query: () => z.object(logFields()),
    reply: { form: 'bare', schema: () => z.object({ entries: z.array(logLine()) }), line: logLine },
    handler: async ({ query, signal, deps: { agent } }) => {
      const { since, until, follow } = query;
      const lines = agent.sessions.ownLogs({ tail: tailOf(query), since, until, follow }, signal);
      return follow ? lines : { entries: await collect(lines) };
    },
  }),
  socket({
    method: 'GET',
    path: '/v1/system/logs:stream',
    operation: 'streamLogs',
    summary: 'What the agent logs, as it does',
    access: 'admin',
    query: () => z.object(logRange(100)),
    errors: [409],
    socket: 'the log of the agent',
    connect: async ({ query, deps: { agent } }, take) => {
      const { since, until } = query;
      const options = { tail: tailOf(query), since, until, follow: true };
      const lines = (signal: AbortSignal) => agent.sessions.ownLogs(options, signal);
      await agent.sessions.streamLog({ reader: '', lines }, take);
    },
  }),
];
