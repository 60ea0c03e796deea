import { FRAME_TYPES, type Frame, type FrameType } from '../../../src/wire/frames.ts';
import { SESSION_TIMES } from '../../../src/wire/sessions.ts';
import { ofFormerRun } from '../domain/runs.ts';
import type { LogOptions } from '../engine-port/logs.ts';
import { errorText } from '../machine/log.ts';
import { withCapability } from './capability.ts';
import { SessionConnection } from './connection.ts';
import { containerLog } from './container-log.ts';
import type { Listed } from './decide.ts';
import { noLog } from './no-log.ts';
import { FRAME_BYTES, type SessionContext, type SessionRun } from './session.ts';

type LogSession = Extract<Listed, { kind: 'log' }>;

/** A log session: sends the lines that were asked for, and with `follow` those that come, until the session is over. */
export function runLog(session: LogSession, refusal: string | undefined, context: SessionContext): SessionRun {
  const { clock, random } = context;
  const ids = {
    sessionId: session.id,
    ...(session.microservice !== undefined && { microserviceUuid: session.microservice }),
    ...(session.microservice === undefined && session.node !== undefined && { iofogUuid: session.node }),
  };
  const frame = (type: FrameType, text: string): Frame => {
    const data = Buffer.from(text);
    return { type, ...ids, timestamp: clock.wall(), data: data.subarray(0, FRAME_BYTES) };
  };
  const begun = Promise.withResolvers<{ resumed: boolean }>();
  const connection: SessionConnection = new SessionConnection({
    ...{ kind: 'log', clock, random },
    dial: (listener, attempt) => context.dial(session.path, listener, attempt),
    started: (resumed) => begun.resolve({ resumed }),
    frame({ type }) {
      if (type === FRAME_TYPES.LOG_STOP || type === FRAME_TYPES.CLOSE) connection.end();
    },
  });
  connection.over.addEventListener('abort', () => begun.resolve({ resumed: false }), { once: true });
  const lastFrames = (error?: string) => [
    ...(error === undefined ? [] : [frame(FRAME_TYPES.LOG_ERROR, error)]),
    frame(FRAME_TYPES.LOG_STOP, ''),
  ];

  async function work(): Promise<void> {
    const { resumed } = await begun.promise;
    if (connection.over.aborted || connection.isEnding) return;
    if (refusal) return connection.finish(lastFrames(refusal));
    try {
      // Which lines an earlier process of the agent has sent is not known: only what comes from now on is certain to be new.
      if (resumed)
        await connection.send(frame(FRAME_TYPES.LOG_ERROR, 'the agent was started again, lines may be missing'));
      const missing = missingLog();
      if (missing !== undefined) {
        if (!session.tail.follow) return connection.finish(lastFrames(missing));
        await connection.send(frame(FRAME_TYPES.LOG_ERROR, missing));
      }
      for await (const { line, ts } of linesOf(optionsOf(session, resumed ? clock.wall() : undefined))) {
        if (connection.over.aborted) return;
        await connection.send({ ...frame(FRAME_TYPES.LOG_LINE, line), ...timeOf(ts) });
      }
      await connection.finish(lastFrames());
    } catch (error) {
      if (!connection.over.aborted) await connection.finish(lastFrames(errorText(error)));
    }
  }

  /** Why there is no log, of a microservice that has not started here. */
  function missingLog(): string | undefined {
    const { microservice } = session;
    if (microservice === undefined || context.containerOf(microservice)) return undefined;
    return noLog(context.stateOf(microservice));
  }

  function linesOf(options: LogOptions): AsyncIterable<{ line: string; ts?: string }> {
    const { microservice } = session;
    if (microservice !== undefined) {
      const container = () => context.containerOf(microservice);
      const asked = session.tail.previous ? ofFormerRun(options, container(), context.runsOf(microservice)) : options;
      return containerLog(
        { ...context, engine: withCapability(context.engine, 'logs'), container },
        asked,
        connection.over,
      );
    }
    return context.ownLog(options, connection.over);
  }

  const connected = connection.run();
  return {
    connection,
    refuse: (reason) => void connection.finish(lastFrames(reason), SESSION_TIMES.close),
    done: Promise.all([connected, work()]).then(() => {}),
  };
}

/** A line has the time at which it was written, where the engine knows it. */
function timeOf(ts: string | undefined): { timestamp?: number } {
  const timestamp = Date.parse(ts ?? '');
  return Number.isNaN(timestamp) ? {} : { timestamp };
}

function optionsOf({ tail: { lines, follow, since, until } }: LogSession, from: number | undefined): LogOptions {
  const begin = from ?? (since === undefined ? undefined : Date.parse(since));
  return {
    tail: lines,
    follow,
    ...(begin !== undefined && { since: begin }),
    ...(until !== undefined && { until: Date.parse(until) }),
  };
}
