import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { HttpError } from '../http/http-error.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { dial, type RawSocket } from '../lib/web-socket/handshake.ts';
import type { MessageSocket } from '../lib/web-socket/socket.ts';
import { SOCKET_BOUNDS } from '../wire/frames.ts';
import { CLOSE_CODES, type CloseCode, SESSION_TIMES } from '../wire/sessions.ts';
import { respond, tryAgainLater } from './respond.ts';
import type { Joining, ReplicaSessions } from './sessions.ts';
import { acceptUpgrade, sessionSocket } from './socket.ts';

/**
 * An agent connects to any replica. One that does not have the session passes its messages on to the replica that has it:
 * over a WebSocket between their internal listeners, a router, or the message bus, as it was chosen at the start.
 */
export interface SessionRelay extends Disposable {
  /** A session has begun here: agents at other replicas can be passed on to it, until the function is called. */
  expect(id: string, kind: Joining['kind']): () => void;
  /** Connects the agent to a session at another replica; what comes of it is a close code. */
  connect(agent: MessageSocket, address: string, asked: Joining): void;
  /** Sends agents away whose sessions are at other replicas: they connect again. */
  drain(): void;
}

/** The relay that needs no set-up. It knows nothing of what is in the messages. */
export interface InternalRelay extends SessionRelay {
  /** The listener of the internal HTTP server for upgrades: agents that other replicas pass on to sessions here. */
  handle(request: IncomingMessage, socket: Duplex, head: Buffer): void;
}

export interface InternalRelayOptions {
  sessions: Pick<ReplicaSessions, 'join'>;
  /** the token of this replica */
  token(signal: AbortSignal): Promise<string>;
  /** Rejects unless the request is of another replica. */
  authenticate(request: IncomingMessage): Promise<void>;
  clock: Clock;
  log: Log;
}

const PATH = '/internal/sessions/relay';
/** until the other replica has accepted the connection */
const CONNECT_MS = 5_000;
/** bytes that may wait at a replica in between, in each direction; then its reading stops */
const FULL_BYTES = 64 * 1024;

export const AWAY = 'the replica with this session cannot be reached; connect again';
const KNOWN_CODES: ReadonlySet<number> = new Set(Object.values(CLOSE_CODES));

export const isCloseCode = (code: number): code is CloseCode => KNOWN_CODES.has(code);

export function createRelay({ sessions, token, authenticate, clock, log }: InternalRelayOptions): InternalRelay {
  /** agents that are passed on to other replicas, and the connections to other replicas in both directions */
  const agents = new Set<MessageSocket>();
  const between = new Set<RawSocket>();
  let isDraining = false;

  function keep(ws: RawSocket) {
    between.add(ws);
    ws.once('close', () => between.delete(ws));
    // The other replica reads an end only once its user has taken what comes before.
    return sessionSocket(ws, { clock, fullBytes: FULL_BYTES, answerMs: SESSION_TIMES.linger });
  }

  async function reach(address: string, asked: Joining): Promise<RawSocket> {
    const authorization = `Bearer ${await token(AbortSignal.timeout(CONNECT_MS))}`;
    const query = new URLSearchParams(Object.entries(asked).filter((entry): entry is [string, string] => !!entry[1]));
    const url = `ws://${address}${PATH}?${query}`;
    return dial(url, { ...SOCKET_BOUNDS, headers: { authorization }, handshakeTimeout: CONNECT_MS });
  }

  return {
    // The listener is always there.
    expect: () => () => {},
    connect(agent, address, asked) {
      let other: MessageSocket | undefined;
      let isOver = false;
      let isFull = false;
      agents.add(agent);
      // Until there is someone to pass its messages on to.
      agent.pause();
      agent.listen({
        message: (data, isBinary) => isBinary && other?.send(data),
        full() {
          isFull = true;
          other?.pause();
        },
        drained() {
          isFull = false;
          other?.resume();
        },
        closed() {
          isOver = true;
          agents.delete(agent);
          other?.close(CLOSE_CODES.ended, 'the agent left');
        },
      });
      const lost = (error: unknown) => {
        log.debug({ err: error, replica: address }, 'A session at another replica cannot be reached');
        agent.close(CLOSE_CODES.tryAgainLater, AWAY);
      };
      reach(address, asked).then((ws) => {
        other = keep(ws);
        ws.once('open', () => {
          // Before that, reading cannot be stopped.
          if (isFull) other?.pause();
          if (!isOver) agent.resume();
        });
        ws.once('error', lost);
        other.listen({
          message: (data) => agent.send(data),
          full: () => agent.pause(),
          drained: () => agent.resume(),
          // One that is gone without a word has no code.
          closed: (code = 0, reason = '') =>
            isCloseCode(code) ? agent.close(code, reason) : agent.close(CLOSE_CODES.tryAgainLater, AWAY),
        });
        if (isOver || isDraining) other.close(CLOSE_CODES.ended, 'the agent left');
      }, lost);
    },
    handle(request, socket, head) {
      socket.on('error', () => socket.destroy());
      const serve = async () => {
        const asked = askedOf(request);
        if (!asked) throw new HttpError(404, 'ROUTE_NOT_FOUND', 'there is no such socket');
        await authenticate(request);
        if (isDraining) throw tryAgainLater('the controller shuts down');
        if (socket.destroyed) return;
        const ws = acceptUpgrade({ incoming: request, socket, head });
        if (!ws) return;
        const agent = keep(ws);
        const refused = sessions.join(asked, agent);
        if (refused) agent.close(CLOSE_CODES.refused, refused.refused);
      };
      serve().catch((error: unknown) =>
        respond(socket, error instanceof HttpError ? error : tryAgainLater('the socket cannot be opened now')),
      );
    },
    drain() {
      isDraining = true;
      for (const agent of [...agents]) agent.close(CLOSE_CODES.goingAway, 'the controller shuts down');
    },
    [Symbol.dispose]() {
      for (const ws of [...between]) ws.terminate();
    },
  };
}

function askedOf({ url = '' }: IncomingMessage): Joining | undefined {
  const [path, query] = url.split('?', 2);
  const given = new URLSearchParams(query);
  const kind = given.get('kind');
  if (path !== PATH || (kind !== 'exec' && kind !== 'log')) return undefined;
  const {
    node = '',
    id = '',
    microservice,
    previous,
    version,
  } = Object.fromEntries(given) as Record<string, string | undefined>;
  return { node, id, kind, microservice, ...(previous === 'true' && { previous }), ...(version && { version }) };
}
