import { randomUUID } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { MessageSocket } from '../lib/web-socket/socket.ts';
import { encodeFrame, FRAME_TYPES } from '../wire/frames.ts';
import { CLOSE_CODES } from '../wire/sessions.ts';
import { type Address, type Broker, type Envelope, readEnvelope, writeEnvelope } from './broker.ts';
import { type BrokerLink, createLink, typeOf } from './link.ts';
import { AWAY, isCloseCode, type SessionRelay } from './relay.ts';
import type { Joining, ReplicaSessions } from './sessions.ts';

/** Passes agents on to sessions at other replicas over a router or the message bus (docs/spec/sessions.md#relay). */
export interface BrokerRelayOptions {
  broker: Broker;
  sessions: Pick<ReplicaSessions, 'join' | 'end' | 'hasAgent'>;
  /** the way that is taken when the broker is away; absent where there is to be none */
  otherwise?: Pick<SessionRelay, 'connect' | 'drain'> | undefined;
  /** whether a terminal ends when the broker is away, instead of waiting for an agent that connects here */
  failsFast: boolean;
  /** whether there is no other replica at which the agent could connect */
  isAlone(): boolean;
  clock: Clock;
  log: Log;
}

const TIMES = {
  /** until the other replica has answered, and until the broker is reached */
  reach: 5_000,
  /** between two messages that say that an agent has connected */
  join: 1_000,
} as const;

/**
 * Connections of agents to one session at once, most of them on their way out, and links that are not known and get an answer
 * between two connections. Whatever others write to the broker, a session takes no more.
 */
const MOST_LINKS = 16;

/** Of a log that the other replica takes too slowly, nothing else is sent. */
const ENDS: ReadonlySet<number> = new Set([FRAME_TYPES.LOG_STOP, FRAME_TYPES.CLOSE]);
const LEFT_OUT = 'lines are left out, since the replicas of the controller exchange them too slowly';

export function createBrokerRelay(options: BrokerRelayOptions): SessionRelay {
  const { broker, sessions, otherwise, failsFast, isAlone, clock, log } = options;
  const agents = new Set<MessageSocket>();
  let isDraining = false;

  const linkTo = (link: string, send: (said: Envelope) => void): BrokerLink =>
    createLink({ link, send, maxBytes: broker.maxBytes, clock });

  /** The end of the user: listens for agents while the session lasts, and until their links are over. */
  function expect(id: string, kind: Joining['kind']): () => void {
    const links = new Map<string, BrokerLink>();
    /** links that are not known and were answered */
    let strangers = 0;
    let wasUp = false;
    let isStopped = false;

    function send(said: Envelope) {
      channel.send({ kind, id, end: 'agent', link: said.link }, writeEnvelope(said));
    }

    function end(link: string) {
      links.delete(link);
      channel.forget({ kind, id, end: 'agent', link });
      if (isStopped && links.size === 0) channel.close();
    }

    function join(link: string, asked: Joining | undefined) {
      if (links.has(link) || isStopped || links.size >= MOST_LINKS) return;
      strangers = 0;
      const made = linkTo(link, send);
      links.set(link, made);
      const refused =
        asked?.id === id
          ? sessions.join(
              asked,
              endingSocket(made.socket, () => end(link)),
            )
          : WRONG;
      if (!refused) return;
      made.socket.listen({ ...IGNORED, closed: () => end(link) });
      made.socket.close(CLOSE_CODES.refused, refused.refused);
    }

    const channel = broker.open(
      { kind, id, end: 'user' },
      {
        up() {
          wasUp = true;
        },
        message(message) {
          const said = readEnvelope(message);
          if (!said) return;
          if (said.op === 'join') join(said.link, askedOf(said.asked));
          const link = links.get(said.link);
          if (link) return link.receive(said);
          if (said.op === 'close' || strangers >= MOST_LINKS) return;
          strangers++;
          // It was lost here: its other side is to connect again.
          const code = CLOSE_CODES.tryAgainLater;
          send({ link: said.link, op: 'close', seq: 0, closeAck: true, code, reason: AWAY });
          end(said.link);
        },
        down(reason) {
          log.debug({ session: id, reason }, 'The relay of a session is away');
          for (const link of [...links.values()]) link.lost();
        },
      },
    );
    const cancel = clock.after(TIMES.reach, () => {
      if (wasUp || isStopped || !failsFast || kind !== 'exec' || isAlone() || sessions.hasAgent(id)) return;
      sessions.end(id, 'the router or bus between the replicas cannot be reached', CLOSE_CODES.tryAgainLater);
    });
    return () => {
      isStopped = true;
      cancel();
      if (links.size === 0) channel.close();
    };
  }

  /** The end of the agent: one link after the other, until the session or the agent leaves. */
  function connect(agent: MessageSocket, address: string, asked: Joining) {
    const { id, kind } = asked;
    let link: BrokerLink | undefined;
    let isOver = false;
    let isFull = false;
    let isAgentFull = false;
    let isDropping = false;
    /** links in a row that nothing was heard of */
    let failures = 0;
    agents.add(agent);
    agent.pause();
    agent.listen({
      message(data, isBinary) {
        if (!isBinary || !link) return;
        // Reading goes on: lines are left out, as they are for a user who reads slowly.
        if (kind === 'log' && isFull && !ENDS.has(typeOf(data))) {
          if (!isDropping) link.socket.send(encodeFrame({ type: FRAME_TYPES.LOG_ERROR, data: Buffer.from(LEFT_OUT) }));
          isDropping = true;
          return;
        }
        link.socket.send(data);
      },
      full() {
        isAgentFull = true;
        link?.socket.pause();
      },
      drained() {
        isAgentFull = false;
        link?.socket.resume();
      },
      closed() {
        over();
        link?.socket.close(CLOSE_CODES.ended, 'the agent left');
      },
    });

    function over() {
      isOver = true;
      agents.delete(agent);
      cancelReach();
    }

    function unreachable() {
      over();
      link?.lost();
      if (!otherwise || isDraining) return agent.close(CLOSE_CODES.tryAgainLater, AWAY);
      log.debug({ session: id }, 'The router or bus is away; the session goes over the internal channel');
      otherwise.connect(agent, address, asked);
    }

    let cancelReach = clock.after(TIMES.reach, unreachable);

    function begin() {
      const name = randomUUID();
      const at: Address = { kind, id, end: 'agent', link: name };
      let cancelJoin = () => {};
      const send = (said: Envelope) => channel.send({ kind, id, end: 'user' }, writeEnvelope(said));
      const current = linkTo(name, send);
      link = current;
      if (isAgentFull) current.socket.pause();

      function join() {
        if (current.isHeard) return;
        send({ link: name, op: 'join', kind, asked: JSON.stringify(asked) });
        cancelJoin = clock.after(TIMES.join, join);
      }

      const channel = broker.open(at, {
        up: join,
        message(message) {
          const said = readEnvelope(message);
          if (!said) return;
          const wasHeard = current.isHeard;
          current.receive(said);
          if (!wasHeard && current.isHeard && !isOver && link === current) {
            cancelReach();
            agent.resume();
          }
        },
        down(reason) {
          cancelJoin();
          log.debug({ session: id, reason }, 'The relay of a session is away');
          current.lost();
        },
      });
      current.socket.listen({
        message: (data) => agent.send(data),
        full() {
          isFull = true;
          if (kind === 'exec') agent.pause();
        },
        drained() {
          isFull = isDropping = false;
          if (kind === 'exec') agent.resume();
        },
        closed(code = 0, reason = '') {
          cancelJoin();
          channel.close();
          if (link === current) link = undefined;
          if (isOver) return;
          if (isCloseCode(code) && code !== CLOSE_CODES.tryAgainLater) {
            over();
            return agent.close(code, reason);
          }
          // The broker may be back in a moment. The agent sends nothing meanwhile.
          agent.pause();
          isFull = isDropping = false;
          failures = current.isHeard ? 0 : failures + 1;
          if (current.isHeard) {
            cancelReach();
            cancelReach = clock.after(TIMES.reach, unreachable);
          }
          clock.after(Math.min(TIMES.join, (TIMES.join / 10) * 2 ** failures), () => !isOver && begin());
        },
      });
    }
    begin();
  }

  return {
    expect,
    connect,
    drain() {
      isDraining = true;
      otherwise?.drain();
      for (const agent of [...agents]) agent.close(CLOSE_CODES.goingAway, 'the controller shuts down');
    },
    [Symbol.dispose]: () => broker[Symbol.dispose](),
  };
}

const WRONG = { refused: 'this node has no such session' };
const IGNORED = { message() {}, full() {}, drained() {} };

/** A socket that also tells the relay when it is over. */
function endingSocket(socket: MessageSocket, onEnd: () => void): MessageSocket {
  return {
    ...socket,
    listen: (listener) =>
      socket.listen({
        ...listener,
        closed(code, reason) {
          onEnd();
          listener.closed(code, reason);
        },
      }),
  };
}

function askedOf(text: string): Joining | undefined {
  try {
    const { node, id, kind, microservice, previous, version } = JSON.parse(text) as Partial<Joining>;
    if (typeof node !== 'string' || typeof id !== 'string' || (kind !== 'exec' && kind !== 'log')) return undefined;
    return {
      ...{ node, id, kind, microservice: typeof microservice === 'string' ? microservice : undefined },
      ...(previous === 'true' && { previous }),
      ...(typeof version === 'string' && { version }),
    };
  } catch {
    return undefined;
  }
}
