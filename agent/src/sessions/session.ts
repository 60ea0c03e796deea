import type { Clock } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { FrameListener, FrameSocket } from '../../../src/session-client/socket.ts';
import type { Random } from '../domain/jitter.ts';
import type { Runs } from '../domain/runs.ts';
import type { Container } from '../engine-port/container.ts';
import type { Capable } from '../engine-port/engine.ts';
import type { StartedProgram } from '../engine-port/exec.ts';
import type { LogLine, LogOptions } from '../engine-port/logs.ts';
import type { Attempt, SessionConnection } from './connection.ts';
import type { ReportedState } from './no-log.ts';

/** What sessions need of the agent. */
export interface SessionContext {
  /** a session that needs a capability which the engine lacks is refused */
  engine: Capable;
  clock: Clock;
  random: Random;
  log: Log;
  /** Begins to open a socket; throws while the agent has no controller. */
  dial(path: string, listener: FrameListener, attempt: Attempt): FrameSocket;
  /** the container of a microservice that runs, else its last container */
  containerOf(uuid: string): Container | undefined;
  /** the report of a microservice; undefined when this node does not know it */
  stateOf(uuid: string): ReportedState | undefined;
  /** the runs of its container; undefined while they are not known */
  runsOf(uuid: string): Runs | undefined;
  programs: StartedPrograms;
  /** the agent's own log */
  ownLog: OwnLog;
}

/** The programs that were started in containers, for the next process of the agent, should this one be killed. */
export interface StartedPrograms {
  add(program: StartedProgram): void;
  remove(program: StartedProgram): void;
  left(): StartedProgram[];
}

/** The time of a line is empty when it says none. */
export type OwnLog = (options: LogOptions, signal: AbortSignal) => AsyncIterable<Pick<LogLine, 'line' | 'ts'>>;

/** A session that has begun. */
export interface SessionRun {
  connection: SessionConnection;
  /** Ends it and says why. */
  refuse(reason: string): void;
  /** Resolves when nothing of it is left. */
  done: Promise<void>;
}

/** A session of a user on this machine. */
export interface LocalRun extends Omit<SessionRun, 'connection'> {
  connection: Pick<SessionConnection, 'end' | 'drop'>;
}

/** An exec session that has begun. */
export interface ExecRun extends SessionRun {
  /** Resolves when the program runs or has run; with the reason when it could not be started. */
  hasStarted(): Promise<string | undefined>;
}

/** Data of one frame. */
export const FRAME_BYTES = 64 * 1024;

/** Why a session ends, or none begins. */
export const STOPPING = 'the agent of the node stops';
