import { FRAME_LIMITS, FRAME_TYPES, type Frame, type FrameType } from '../../wire/frames.ts';
import {
  type Activation,
  CLOSE_CODES,
  type CloseCode,
  type LogStart,
  readControl,
  SESSION_TIMES,
  type TailConfig,
  writeControl,
} from '../../wire/sessions.ts';

/**
 * One exec or log session between a user and an agent, as a value: what happened to it goes in, the session after that and
 * what is to be done comes out. No clock and no socket: the caller gives the time, and `deadline` says when it is to call
 * again.
 *
 *     pending --agent joins--> active --agent leaves--> resuming --agent joins--> active
 *        any of them --user leaves, either side closes, out of time--> over
 */
export interface Session {
  readonly id: string;
  readonly target: SessionTarget;
  readonly phase: 'pending' | 'active' | 'resuming' | 'over';
  /** when the phase began */
  readonly since: number;
  /** the last frame of either side */
  readonly activeAt: number;
  /** how often the agent is to connect: one more after each time that it was lost */
  readonly attempt: number;
  /** what the user sent while there was no agent */
  readonly waiting: readonly Frame[];
  readonly waitingBytes: number;
  /** whether a side takes no more frames at present */
  readonly full: Readonly<Record<End, boolean>>;
  /** whether reading from a side has been stopped, since the other side takes nothing */
  readonly paused: Readonly<Record<End, boolean>>;
  /** lines are being left out, which the user was told */
  readonly isDropping: boolean;
}

export type End = 'user' | 'agent';

/** When something happened: by a clock that never goes back, for times of the session, and for the frames, in whole ms. */
export interface Moment {
  readonly ms: number;
  readonly unixMs: number;
}

export type SessionTarget = (
  | { kind: 'exec'; node: string; microservice: string; command?: readonly string[]; tty?: boolean }
  | { kind: 'log'; node: string; microservice?: string; tail: TailConfig; endsWhenQuiet?: boolean }
) & {
  /** digest of the name of the user, for the bound of one user; absent in sessions of replicas before version 0.2 */
  user?: string;
};

export type SessionEvent =
  | { type: 'frame'; from: End; frame: Frame }
  | { type: 'joined' }
  | { type: 'left'; end: End }
  | { type: 'full' | 'drained'; end: End }
  /** the deadline may have passed */
  | { type: 'clock' }
  /** ended by the controller */
  | { type: 'stop'; code: CloseCode; reason: string };

export type Effect =
  | { do: 'send'; to: End; frame: Frame }
  | { do: 'close'; end: End; code: CloseCode; reason: string }
  | { do: 'pause' | 'resume'; end: End }
  /** the list of sessions that the node gets has changed */
  | { do: 'list' }
  /** last of all: why it ended, for the audit log */
  | { do: 'over'; code: CloseCode; reason: string };

export interface Transition {
  session: Session;
  effects: readonly Effect[];
}

/** What a user may send before the agent is there; then reading from the user stops. */
const WAITING_BYTES = 64 * 1024;
/** What a frame without data counts. */
const FRAME_BYTES = 256;
/** What the members of a frame besides its data may need. */
const IDS_BYTES = 1_024;

const T = FRAME_TYPES;
const NONE: readonly Effect[] = [];
const NEITHER: Session['full'] = Object.freeze({ user: false, agent: false });
const text = (words: string) => Buffer.from(words);

const NOTICES = {
  exec: {
    waiting: 'Waiting for the agent of the node to connect.\r\n',
    ready: 'Connected.\r\n',
    lost: '\r\nThe connection to the node is lost. Waiting for it to return.\r\n',
    back: 'Connected again.\r\n',
  },
  log: {
    waiting: 'waiting for the agent of the node to connect',
    ready: 'connected',
    lost: 'the connection to the node is lost, waiting for it to return',
    back: 'connected again',
  },
} as const;

/** Why a log ends that nobody said the end of. */
const QUIET = `no line for ${SESSION_TIMES.quiet / 1000} s: the log counts as whole, since the agent of this node does not say where it ends`;

/** What was under way when the connection of an agent was lost did not arrive, and nobody knows how much it was. */
const MISSING = 'the connection to the node was lost meanwhile, lines may be missing';

const REASONS = {
  pending: 'the node is not connected: its agent did not connect in time',
  resuming: 'the connection to the node did not return',
  active: 'nothing was sent for too long',
} as const;

export function beginSession(id: string, target: SessionTarget, now: Moment): Transition {
  const session: Session = {
    ...{ id, target, phase: 'pending', since: now.ms, activeAt: now.ms, attempt: 1, waiting: [], waitingBytes: 0 },
    ...{ full: NEITHER, paused: NEITHER, isDropping: false },
  };
  return {
    session,
    effects: [send('user', startFrame(session, 'user', now)), ...notice(session, 'waiting', now), { do: 'list' }],
  };
}

/** When `clock` is due; undefined once it is over. */
export function deadline({ phase, since, activeAt, target }: Session): number | undefined {
  if (phase === 'over') return undefined;
  if (phase === 'pending') return since + SESSION_TIMES.pending[target.kind];
  if (phase === 'resuming') return since + SESSION_TIMES.resume;
  return activeAt + (endsWhenQuiet(target) ? SESSION_TIMES.quiet : SESSION_TIMES.idle[target.kind]);
}

/** An agent of another make keeps a log without `follow` open after its last line. */
const endsWhenQuiet = (target: SessionTarget) => target.kind === 'log' && target.endsWhenQuiet === true;

export function step(session: Session, event: SessionEvent, now: Moment): Transition {
  if (session.phase === 'over') return { session, effects: NONE };
  return withFlow(happened(session, event, now));
}

function happened(session: Session, event: SessionEvent, now: Moment): Transition {
  switch (event.type) {
    case 'frame':
      return received({ ...session, activeAt: now.ms }, event, now);
    case 'joined':
      return joined(session, now);
    case 'left':
      return event.end === 'user'
        ? over(session, CLOSE_CODES.ended, byUser(session, 'left'), now)
        : agentLost(session, now);
    case 'full':
      return { session: { ...session, full: { ...session.full, [event.end]: true } }, effects: NONE };
    case 'drained':
      return { session: { ...session, full: { ...session.full, [event.end]: false } }, effects: NONE };
    case 'clock':
      return now.ms < (deadline(session) ?? 0) ? { session, effects: NONE } : outOfTime(session, now);
    case 'stop':
      return over(session, event.code, event.reason, now);
  }
}

/** What a frame of each type does: it is passed on, ends the session, is sent back if it is a keepalive, or is a line. */
type Rule = 'pass' | 'end' | 'control' | 'line';
const RULES: Readonly<Record<SessionTarget['kind'], Record<End, Partial<Record<FrameType, Rule>>>>> = {
  exec: {
    user: { [T.STDIN]: 'pass', [T.CONTROL]: 'control', [T.CLOSE]: 'end' },
    agent: { [T.STDOUT]: 'pass', [T.STDERR]: 'pass', [T.CONTROL]: 'pass', [T.CLOSE]: 'end' },
  },
  log: {
    user: { [T.CONTROL]: 'control', [T.LOG_STOP]: 'end', [T.CLOSE]: 'end' },
    agent: {
      [T.LOG_LINE]: 'line',
      [T.LOG_ERROR]: 'line',
      [T.LOG_STOP]: 'end',
      [T.CLOSE]: 'end',
    },
  },
};

function received(session: Session, { from, frame }: { from: End; frame: Frame }, now: Moment): Transition {
  const nothing = { session, effects: NONE };
  if (from === 'agent' && (session.phase !== 'active' || !isOfSession(frame, session))) return nothing;
  switch (RULES[session.target.kind][from][frame.type]) {
    case 'pass':
      return from === 'user' ? toAgent(session, frame, now) : { session, effects: [send('user', frame)] };
    case 'line':
      return line(session, frame, now);
    case 'end':
      return endedBy(session, from, frame, now);
    case 'control': {
      const control = readControl(frame.data);
      if (control && 'keepalive' in control) return keptAlive(session, now);
      return session.target.kind === 'exec' ? toAgent(session, frame, now) : nothing;
    }
    default:
      return nothing;
  }
}

/** Not the frame itself, which may be long, and nothing to a user that does not read. */
function keptAlive(session: Session, now: Moment): Transition {
  if (session.full.user) return { session, effects: NONE };
  const data = writeControl({ keepalive: true });
  return { session, effects: [send('user', { type: T.CONTROL, data, ...idsOf(session), timestamp: now.unixMs })] };
}

/** Ids that a frame does not have are those of its socket. */
const isOfSession = ({ sessionId, execId, microserviceUuid }: Frame, { id, target }: Session) =>
  (sessionId ?? id) === id && (execId ?? id) === id && (!microserviceUuid || microserviceUuid === target.microservice);

/** To the agent, or kept until there is one. */
function toAgent(session: Session, frame: Frame, now: Moment): Transition {
  if (frame.data.length > FRAME_LIMITS.bytes - IDS_BYTES)
    return over(session, CLOSE_CODES.tooBig, 'the message is too long to be passed on to the agent', now);
  const { type, data, timestamp = now.unixMs } = frame;
  const filled: Frame = { type, data, ...idsOf(session), timestamp };
  if (session.phase === 'active') return { session, effects: [send('agent', filled)] };
  return {
    session: {
      ...session,
      waiting: [...session.waiting, filled],
      waitingBytes: session.waitingBytes + filled.data.length + FRAME_BYTES,
    },
    effects: NONE,
  };
}

/** Lines may be missing: the log says so, once until the next line where the user takes nothing. */
function problem(session: Session, words: string, now: Moment): Transition {
  if (session.full.user && session.isDropping) return { session, effects: [] };
  const frame: Frame = { type: T.LOG_ERROR, data: text(words), ...idsOf(session), timestamp: now.unixMs };
  return { session: { ...session, isDropping: session.full.user }, effects: [send('user', frame)] };
}

/** A user that reads slowly does not stop a log: lines are left out, and the log says so once. */
function line(session: Session, frame: Frame, now: Moment): Transition {
  if (!session.full.user) return { session: { ...session, isDropping: false }, effects: [send('user', frame)] };
  return problem(session, 'lines are left out, since they are read too slowly', now);
}

function joined(session: Session, now: Moment): Transition {
  const isFirst = session.phase === 'pending';
  const active: Session = {
    ...session,
    ...{ phase: 'active', since: now.ms, activeAt: now.ms, waiting: [], waitingBytes: 0 },
    full: { ...session.full, agent: false },
    paused: { ...session.paused, agent: false },
  };
  const isGap = !isFirst && session.target.kind === 'log';
  const said = isGap ? problem(active, MISSING, now) : { session: active, effects: NONE };
  return {
    session: said.session,
    effects: [
      send('agent', startFrame(session, 'agent', now)),
      ...notice(session, isFirst ? 'ready' : 'back', now),
      ...said.effects,
      ...session.waiting.map((frame) => send('agent', frame)),
    ],
  };
}

function agentLost(session: Session, now: Moment): Transition {
  if (session.phase !== 'active') return { session, effects: NONE };
  const resuming: Session = {
    ...session,
    ...{ phase: 'resuming', since: now.ms, attempt: session.attempt + 1 },
    full: { ...session.full, agent: false },
    paused: { ...session.paused, agent: false },
  };
  return { session: resuming, effects: [...notice(session, 'lost', now), { do: 'list' }] };
}

/** One side has ended it: the other side gets its frame. */
function endedBy(session: Session, from: End, frame: Frame, now: Moment): Transition {
  if (from === 'agent') return finish(session, CLOSE_CODES.ended, 'the agent ended the session', [send('user', frame)]);
  return over(session, CLOSE_CODES.ended, byUser(session, 'ended the session'), now);
}

/** Why it ended, for a user who did not wait for the agent any longer: a client may do so by itself, as ours does without a terminal. */
const BY_USER = {
  pending: 'the agent had not connected, and the user ',
  active: 'the user ',
  resuming: 'the connection to the node was lost, and the user ',
} as const;

const byUser = ({ phase }: Session, did: string) => BY_USER[phase as keyof typeof BY_USER] + did;

function outOfTime(session: Session, now: Moment): Transition {
  if (session.phase !== 'active' || !endsWhenQuiet(session.target))
    return over(session, CLOSE_CODES.refused, REASONS[session.phase as keyof typeof REASONS], now);
  const said: Frame = { type: T.LOG_LINE, data: text(QUIET), ...idsOf(session), timestamp: now.unixMs, notice: true };
  const ended = over(session, CLOSE_CODES.ended, QUIET, now);
  return { ...ended, effects: [...(session.full.user ? NONE : [send('user', said)]), ...ended.effects] };
}

/** Ended by the controller, or by the user: whoever is still there is told why. */
function over(session: Session, code: CloseCode, reason: string, now: Moment): Transition {
  const frame = (type: FrameType): Frame => ({ type, data: text(reason), ...idsOf(session), timestamp: now.unixMs });
  const isExec = session.target.kind === 'exec';
  return finish(session, code, reason, [
    send('user', frame(isExec ? T.CLOSE : code === CLOSE_CODES.ended ? T.LOG_STOP : T.LOG_ERROR)),
    ...(session.phase === 'active' ? [send('agent', frame(isExec ? T.CLOSE : T.LOG_STOP))] : []),
  ]);
}

function finish(session: Session, code: CloseCode, reason: string, last: readonly Effect[]): Transition {
  return {
    session: { ...session, phase: 'over', waiting: [], waitingBytes: 0 },
    effects: [
      ...last,
      { do: 'close', end: 'user', code, reason },
      // What is due from the controller's side is no fault of the agent.
      { do: 'close', end: 'agent', code: code === CLOSE_CODES.goingAway ? code : CLOSE_CODES.ended, reason },
      { do: 'list' },
      { do: 'over', code, reason },
    ],
  };
}

/** Stops reading from the side whose frames the other side does not take, and begins again once it does. */
function withFlow(done: Transition): Transition {
  const { session } = done;
  if (session.phase === 'over') return done;
  const isActive = session.phase === 'active';
  const wanted: Session['paused'] = {
    user: isActive ? session.full.agent : session.waitingBytes >= WAITING_BYTES,
    // Lines of logs are left out instead.
    agent: isActive && session.target.kind === 'exec' && session.full.user,
  };
  const { paused } = session;
  if (wanted.user === paused.user && wanted.agent === paused.agent) return done;
  const turns = (['user', 'agent'] as const)
    .filter((end) => wanted[end] !== paused[end])
    .map((end): Effect => ({ do: wanted[end] ? 'pause' : 'resume', end }));
  return { session: { ...session, paused: wanted }, effects: [...done.effects, ...turns] };
}

const send = (to: End, frame: Frame): Effect => ({ do: 'send', to, frame });

function idsOf({ id, target }: Session): Partial<Frame> {
  if (target.kind === 'exec') return { sessionId: id, execId: id, microserviceUuid: target.microservice };
  const { microservice, node } = target;
  return { sessionId: id, ...(microservice === undefined ? { iofogUuid: node } : { microserviceUuid: microservice }) };
}

/** Nothing to a user that does not read: an agent may be lost and return as often as it likes. */
function notice(session: Session, which: keyof (typeof NOTICES)['exec'], now: Moment): readonly Effect[] {
  if (session.full.user) return NONE;
  const { kind } = session.target;
  const type = kind === 'exec' ? T.STDERR : T.LOG_LINE;
  const data = text(NOTICES[kind][which]);
  return [send('user', { type, data, ...idsOf(session), timestamp: now.unixMs, notice: true })];
}

/** The first frame that a side gets. */
function startFrame(session: Session, to: End, now: Moment): Frame {
  const { id, target } = session;
  const resumed = to === 'agent' && session.phase !== 'pending' && { resumed: true };
  const said: Activation | LogStart =
    target.kind === 'exec'
      ? {
          ...{ sessionId: id, microserviceUuid: target.microservice },
          ...(to === 'agent' && { execId: id, timestamp: now.unixMs }),
          ...resumed,
        }
      : { sessionId: id, tailConfig: target.tail, ...resumed };
  const type = target.kind === 'exec' ? T.ACTIVATION : T.LOG_START;
  return { type, data: text(JSON.stringify(said)), ...idsOf(session), timestamp: now.unixMs };
}
