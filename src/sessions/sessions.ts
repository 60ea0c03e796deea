import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { MessageSocket } from '../lib/web-socket/socket.ts';
import { noFormerRuns } from '../subjects/workloads/rules/session-target.ts';
import { decodeFrame, encodeFrame, FRAME_TYPES, type Frame } from '../wire/frames.ts';
import { CLOSE_CODES, type CloseCode } from '../wire/sessions.ts';
import type { SessionMetrics } from './metrics.ts';
import type { Places } from './places.ts';
import {
  beginSession,
  deadline,
  type Effect,
  type End,
  type Session,
  type SessionEvent,
  type SessionTarget,
  step,
  type Transition,
} from './rules/session.ts';

/** The sessions of one replica, in memory: what happens at their sockets goes through the state machine of the domain. */
export interface ReplicaSessions {
  readonly count: number;
  /** Begins a session of a user, which has this place; it is given back when the session is over. */
  open(id: string, target: SessionTarget, user: MessageSocket, onOver: (outcome: SessionOutcome) => void): void;
  /** An agent connects to a session of its node, or is told why not. */
  join(asked: Joining, agent: MessageSocket): { refused: string } | undefined;
  /** Ends one session, with 1008 when what it is about is gone. */
  end(id: string, reason: string, code?: CloseCode): void;
  /** Whether the agent is connected to the session. */
  hasAgent(id: string): boolean;
  /** Ends all sessions with 1001, since the replica shuts down. */
  drain(): void;
}

export interface SessionOutcome {
  code: number;
  reason: string;
  ms: number;
}

/** What the path of an agent's socket names. */
export interface Joining {
  node: string;
  id: string;
  kind: SessionTarget['kind'];
  microservice: string | undefined;
  /** of an agent that knows logs of former runs */
  previous?: 'true';
  /** of the agent */
  version?: string;
}

interface Entry {
  session: Session;
  user: MessageSocket;
  agent?: MessageSocket;
  startedAt: number;
  cancel: () => void;
  onOver: (outcome: SessionOutcome) => void;
}

export interface SessionsOptions {
  places: Pick<Places, 'put' | 'leave'>;
  metrics?: SessionMetrics;
  clock: Clock;
  log: Log;
}

const NEWLINE = Buffer.from('\n');

export function createSessions({ places, metrics = {}, clock, log }: SessionsOptions): ReplicaSessions {
  const entries = new Map<string, Entry>();
  const moment = () => ({ ms: clock.now(), unixMs: Math.floor(clock.wall()) });

  function happened(entry: Entry, event: SessionEvent, message?: Uint8Array) {
    const before = entry.session.phase;
    const done = step(entry.session, event, moment());
    // A frame that is passed on as it is need not be encoded again.
    carryOut(entry, done, event.type === 'frame' && message ? { frame: event.frame, message } : undefined);
    if (entry.session.phase === before) return;
    watch(entry);
    // The lists say whether the agent is connected.
    if (entry.session.phase !== 'over') places.put(entry.session);
  }

  /** The session is stored before anything is done, since what is done may be the next event. */
  function carryOut(entry: Entry, { session, effects }: Transition, given?: { frame: Frame; message: Uint8Array }) {
    entry.session = session;
    for (const effect of effects) perform(entry, effect, given);
  }

  function perform(entry: Entry, effect: Effect, given?: { frame: Frame; message: Uint8Array }) {
    switch (effect.do) {
      case 'send':
        return entry[effect.to]?.send(effect.frame === given?.frame ? given.message : encodeFrame(effect.frame));
      case 'close':
        return entry[effect.end]?.close(effect.code, effect.reason);
      case 'pause':
        return entry[effect.end]?.pause();
      case 'resume':
        return entry[effect.end]?.resume();
      case 'list':
        return entry.session.phase === 'over' ? places.leave(entry.session.id) : places.put(entry.session);
      case 'over':
        entries.delete(entry.session.id);
        metrics.sessionEnded?.(entry.session.target.kind, effect.code);
        return entry.onOver({ code: effect.code, reason: effect.reason, ms: clock.now() - entry.startedAt });
    }
  }

  /** Frames only move the deadline away, so the alarm looks again when it rings. */
  function watch(entry: Entry) {
    entry.cancel();
    const due = deadline(entry.session);
    if (due === undefined) return;
    entry.cancel = clock.after(due - clock.now(), () => {
      happened(entry, { type: 'clock' });
      if (entry.session.phase !== 'over') watch(entry);
    });
  }

  function received(entry: Entry, from: End, data: Buffer, isBinary: boolean) {
    metrics.sessionMessage?.(entry.session.target.kind, from, data.length);
    if (!isBinary) {
      if (from === 'agent') return;
      const frame: Frame = { type: FRAME_TYPES.STDIN, data: Buffer.concat([data, NEWLINE]) };
      return happened(entry, { type: 'frame', from, frame });
    }
    let frame: Frame | undefined;
    try {
      frame = decodeFrame(data);
    } catch (error) {
      const reason = `the ${from} sent a message that is no frame: ${(error as Error).message}`;
      return happened(entry, {
        type: 'stop',
        code: from === 'user' ? CLOSE_CODES.protocol : CLOSE_CODES.refused,
        reason,
      });
    }
    if (!frame) return;
    happened(entry, { type: 'frame', from, frame }, data);
    if (frame.type === FRAME_TYPES.LOG_LINE && entry.session.isDropping) metrics.lineLeftOut?.();
  }

  function attend(entry: Entry, end: End, socket: MessageSocket) {
    const isCurrent = () => entry[end] === socket;
    const report = (event: SessionEvent) => isCurrent() && happened(entry, event);
    socket.listen({
      message: (data, isBinary) => isCurrent() && received(entry, end, data, isBinary),
      full: () => report({ type: 'full', end }),
      drained: () => report({ type: 'drained', end }),
      closed() {
        if (!isCurrent()) return;
        if (end === 'agent') delete entry.agent;
        happened(entry, { type: 'left', end });
      },
    });
  }

  return {
    get count() {
      return entries.size;
    },
    open(id, target, user, onOver) {
      const now = moment();
      const begun = beginSession(id, target, now);
      const entry: Entry = { session: begun.session, user, startedAt: now.ms, cancel: () => {}, onOver };
      entries.set(id, entry);
      metrics.sessionBegan?.(target.kind);
      attend(entry, 'user', user);
      carryOut(entry, begun);
      watch(entry);
    },
    join({ node, id, kind, microservice, previous, version }, agent) {
      const entry = entries.get(id);
      const target = entry?.session.target;
      if (!entry || target?.node !== node || target.kind !== kind || target.microservice !== microservice)
        return { refused: 'this node has no such session' };
      if (target.kind === 'log' && target.tail.previous && !previous) {
        const reason = noFormerRuns('of the node', version);
        happened(entry, { type: 'stop', code: CLOSE_CODES.refused, reason });
        return { refused: reason };
      }
      const former = entry.agent;
      entry.agent = agent;
      // The agent has connected again before its former connection was noticed to be dead.
      former?.close(CLOSE_CODES.ended, 'the agent connected again');
      attend(entry, 'agent', agent);
      happened(entry, { type: 'joined' });
      return undefined;
    },
    end(id, reason, code = CLOSE_CODES.refused) {
      const entry = entries.get(id);
      if (entry) happened(entry, { type: 'stop', code, reason });
    },
    hasAgent: (id) => entries.get(id)?.agent !== undefined,
    drain() {
      log.debug({ sessions: entries.size }, 'Sessions end, since this replica shuts down');
      const stop = { type: 'stop', code: CLOSE_CODES.goingAway, reason: 'the controller shuts down' } as const;
      for (const entry of [...entries.values()]) happened(entry, stop);
    },
  };
}
