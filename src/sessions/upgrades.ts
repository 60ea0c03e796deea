import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { HEADERS } from '../api/names.ts';
import type { EdgeNode } from '../api/v3/index.ts';
import { HttpError } from '../http/http-error.ts';
import { createRateLimit } from '../http/rate-limit.ts';
import type { Clock } from '../lib/clock.ts';
import type { RawSocket } from '../lib/web-socket/handshake.ts';
import { DomainError } from '../rules/errors.ts';
import { findTarget, formerRunRefusal, groundLost, placeSession } from '../subjects/workloads/rules/session-target.ts';
import { encodeFrame, FRAME_TYPES } from '../wire/frames.ts';
import { CLOSE_CODES, type CloseCode, SESSION_TIMES } from '../wire/sessions.ts';
import type { SessionMetrics } from './metrics.ts';
import { type SocketPath, socketPath, type UserSocket } from './paths.ts';
import type { Places } from './places.ts';
import { createRecords, type RecordsOptions, type SocketUser, type UserPath } from './records.ts';
import type { SessionRelay } from './relay.ts';
import { respond, tooManyRequests, tryAgainLater } from './respond.ts';
import { readExec, readTailConfig } from './rules/request.ts';
import type { SessionTarget } from './rules/session.ts';
import type { Joining, ReplicaSessions } from './sessions.ts';
import { acceptUpgrade, refuse, sessionSocket } from './socket.ts';

/** Bounds of sockets at one replica (docs/spec/sessions.md#bounds-of-sockets). */
const SOCKET_LIMITS = {
  /** open sockets of all users, of one user, and of the agent of one node */
  all: 500,
  user: 32,
  node: 200,
  /** upgrades of one user in a minute, for each socket that the user may have open */
  upgradesPerSocket: 2,
  /** until the caller is known */
  admitMs: 10_000,
  /** bytes that may wait for a client: for a log, whose lines are left out then, and for a terminal, whose program waits */
  fullBytes: { log: 256 * 1024, exec: 64 * 1024 },
} as const;

/** Whether the user of a socket may still have it; rejects when that cannot be said. */
type StillMay = (signal: AbortSignal) => Promise<boolean>;

export interface UpgradesOptions extends RecordsOptions {
  /** sockets that are open at once: of all users, and of one */
  mostSockets?: number;
  mostOfUser?: number;
  sessions: ReplicaSessions;
  places: Pick<Places, 'take' | 'leave' | 'find'>;
  /** to sessions at other replicas; absent where there are none */
  relay?: Pick<SessionRelay, 'expect' | 'connect' | 'drain'>;
  /** The caller of a socket of a user, or rejects with HttpError. */
  admitUser(call: {
    request: IncomingMessage;
    authorization: string | undefined;
    socket: UserSocket;
    uuid: string;
    signal: AbortSignal;
    /** called as soon as the caller is known, also when it is refused then */
    identified(caller: { name: string }): void;
  }): Promise<{ stillMay: StillMay }>;
  /** The node whose agent this is, or rejects with HttpError. `onRevoked` tells of the end of its key. */
  admitAgent(request: IncomingMessage): Promise<{ uuid: string; onRevoked(end: () => void): () => void }>;
  addressOf(request: IncomingMessage): string;
  /** A node as a read of this moment shows it; the stored status is a little older. */
  present(node: EdgeNode, signal: AbortSignal): Promise<EdgeNode>;
  /** between two looks at what a session is about */
  groundMs?: number;
  metrics?: SessionMetrics;
  clock: Clock;
}

/** The listener of an HTTP server for requests of an upgrade to a WebSocket. */
export interface Upgrades extends Disposable {
  handle(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Refuses further upgrades, and ends all sessions. */
  drain(): void;
  /** Cuts what is still open: an HTTP server waits for upgraded connections without an end, and does not know them. */
  [Symbol.dispose](): void;
}

const GROUND_MS = 10_000;
/** how long a session continues while nobody says whether its user still has the permission */
const UNASKED_MS = 50_000;
/** after which a user or node that has too many sockets may try again */
const RETRY_SECONDS = 10;
/** for close frames and their answers, once the replica is to end */
const DRAIN_MS = 2 * SESSION_TIMES.close;

type AgentPath = SocketPath & { by: 'agent' };

/** What a session is to be about, with the words for people, or why there is none. */
type About = { refused: string } | { target: SessionTarget; called: string };

/** The place of a session, or why there is none. */
type Place = { refused: string } | { id: string; target: SessionTarget; called: string };

/**
 * Who connects is known before the upgrade, and a refusal is an HTTP response. Everything later is a close code.
 */
export function createUpgrades(options: UpgradesOptions): Upgrades {
  const { sessions, places, relay, lookups, clock, log } = options;
  const { groundMs = GROUND_MS, metrics = {} } = options;
  const { mostSockets = SOCKET_LIMITS.all, mostOfUser = SOCKET_LIMITS.user } = options;
  const records = createRecords(options);
  const upgradesOfUser = createRateLimit({
    clock,
    perSecond: (mostOfUser * SOCKET_LIMITS.upgradesPerSocket) / 60,
    burst: mostOfUser * SOCKET_LIMITS.upgradesPerSocket,
    refuse: (seconds) => tooManyRequests('you open too many sockets: wait before the next one', seconds),
  });
  /** open sockets, by `user <name>` and `node <uuid>` */
  const open = new Map<string, number>();
  const connections = new Set<Duplex>();
  let ofUsers = 0;
  let isDraining = false;
  let cancelCut = () => {};

  /** Counts a socket until it is closed; `most` sockets of one owner are open at once. */
  function count(owner: string, socket: Duplex, most: number, refusal: string): void {
    const own = open.get(owner) ?? 0;
    if (own >= most) throw tooManyRequests(refusal, RETRY_SECONDS);
    open.set(owner, own + 1);
    socket.once('close', () => {
      const left = (open.get(owner) ?? 1) - 1;
      if (left > 0) open.set(owner, left);
      else open.delete(owner);
    });
  }

  /** A user who is known has a socket: what an address may open is not bounded, since many users can share it. */
  function countUser(name: string, socket: Duplex): void {
    upgradesOfUser.take(name);
    if (ofUsers >= mostSockets) throw tryAgainLater('too many sockets are open at this replica');
    const refusal = `you have ${mostOfUser} open sockets at this replica, which is the limit: close one first`;
    count(`user ${name}`, socket, mostOfUser, refusal);
    ofUsers++;
    socket.once('close', () => ofUsers--);
  }

  /** Ends the handshake; a client that is gone, or whose handshake is wrong, gets no socket. */
  function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, opened: (ws: RawSocket) => void) {
    if (isDraining) throw tryAgainLater('the controller shuts down');
    if (socket.destroyed) return;
    const ws = acceptUpgrade({ incoming: request, socket, head });
    if (!ws) return;
    try {
      opened(ws);
    } catch (err) {
      log.error({ err }, 'A socket could not be served');
      ws.terminate();
    }
  }

  async function ofUser(path: UserPath, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const requester: SocketUser = { name: '', address: options.addressOf(request) };
    const query = queryOf(request);
    const token = query.get('token');
    try {
      const { stillMay } = await options.admitUser({
        request,
        authorization: request.headers.authorization ?? (token ? `Bearer ${token}` : undefined),
        socket: path.socket,
        uuid: path.uuid,
        signal: AbortSignal.timeout(SOCKET_LIMITS.admitMs),
        identified: ({ name }) => Object.assign(requester, { name }),
      });
      // A socket that is closed by now would never give its count back.
      if (socket.destroyed) return;
      countUser(requester.name, socket);
      const target = await targetOf(path, requester.name, query);
      const place = 'refused' in target ? target : { ...target, ...(await places.take(target.target)) };
      // A client that is gone before it has its socket has no session that gives the place back.
      if ('id' in place) {
        const leave = () => places.leave(place.id);
        if (socket.destroyed) leave();
        else socket.once('close', leave);
      }
      upgrade(request, socket, head, (ws) => begin(path, place, ws, { ...requester, stillMay }));
    } catch (error) {
      // Not one by one what callers without an identity ask for.
      if (requester.name && error instanceof HttpError) records.refused(path, requester, error);
      throw error;
    }
  }

  function begin(path: UserPath, place: Place, ws: RawSocket, requester: SocketUser & { stillMay: StillMay }) {
    const user = sessionSocket(ws, { clock, fullBytes: SOCKET_LIMITS.fullBytes[path.kind] });
    if ('id' in place) {
      const { id, target, called } = place;
      records.connected(path, requester, { id });
      const cancel = watchGround(id, path, { node: target.node, called, stillMay: requester.stillMay });
      const leaveRelay = relay?.expect(id, target.kind);
      return sessions.open(id, target, user, (outcome) => {
        cancel();
        leaveRelay?.();
        records.ended(path, requester, id, outcome);
      });
    }
    const refused = { code: CLOSE_CODES.refused, reason: place.refused, ms: 0 };
    records.connected(path, requester, { refused });
    metrics.socketRefused?.('user', refused.code);
    const type = path.kind === 'exec' ? FRAME_TYPES.CLOSE : FRAME_TYPES.LOG_ERROR;
    refuse(user, encodeFrame({ type, data: Buffer.from(refused.reason) }), refused.reason);
  }

  /** A session must not outlive what it is about, nor the permission of its user. */
  function watchGround(
    id: string,
    { named }: UserPath,
    began: { node: string; called: string; stillMay: StillMay },
  ): () => void {
    let isOver = false;
    let permittedAt = clock.now();
    let cancel = clock.after(groundMs, look);
    /** An API server that does not answer for a moment ends no session. */
    async function isPermitted(): Promise<boolean> {
      const may = await began.stillMay(AbortSignal.timeout(groundMs)).catch(() => undefined);
      if (may) permittedAt = clock.now();
      return may ?? clock.now() - permittedAt < UNASKED_MS;
    }
    async function look() {
      const found = findTarget(named, lookups);
      const present = 'refused' in found ? undefined : await options.present(found.node, AbortSignal.timeout(groundMs));
      if (isOver) return;
      const reason = groundLost(began, found, present);
      if (reason !== undefined) return sessions.end(id, reason);
      const isStillPermitted = await isPermitted();
      if (isOver) return;
      if (!isStillPermitted) return sessions.end(id, 'the permission for this session has ended');
      cancel = clock.after(groundMs, look);
    }
    return () => {
      isOver = true;
      cancel();
    };
  }

  /** What a session is to be about, or the words for a user whose request cannot be fulfilled. */
  async function targetOf({ kind, named }: UserPath, userName: string, query: URLSearchParams): Promise<About> {
    try {
      const found = findTarget(named, lookups);
      if ('refused' in found) return found;
      const present = await options.present(found.node, AbortSignal.timeout(SOCKET_LIMITS.admitMs));
      const placed = placeSession(found, present, kind);
      if ('refused' in placed) return placed;
      const refused = kind === 'log' && readTailConfig(query).previous ? formerRunRefusal(found, present) : undefined;
      if (refused !== undefined) return { refused };
      const common = { node: placed.node, user: digestOf(userName) };
      const of = 'microservice' in named ? { microservice: named.microservice } : {};
      const { called } = found;
      if (kind === 'exec') return { target: { kind, ...common, microservice: '', ...of, ...readExec(query) }, called };
      const tail = readTailConfig(query);
      const endsWhenQuiet = placed.keepsLogsOpen === true && !tail.follow;
      return { target: { kind, ...common, tail, ...of, ...(endsWhenQuiet && { endsWhenQuiet }) }, called };
    } catch (error) {
      if (error instanceof DomainError) return { refused: error.message };
      throw error;
    }
  }

  async function ofAgent(path: AgentPath, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { uuid: node, onRevoked } = await options.admitAgent(request);
    if (socket.destroyed) return;
    const refusal = `this node has ${SOCKET_LIMITS.node} open sockets, which is the limit: close those that are over`;
    count(`node ${node}`, socket, SOCKET_LIMITS.node, refusal);
    const { id, kind, microservice } = path;
    upgrade(request, socket, head, (ws) => {
      const agent = sessionSocket(ws, {
        ...{ clock, fullBytes: SOCKET_LIMITS.fullBytes.exec },
        // Ours waits until the session is closed, and takes a controller without pings for gone.
        isQuietWhilePaused: request.headers[HEADERS.agent] === undefined,
      });
      const isOther = path.node !== undefined && path.node !== node;
      const refuseAgent = (code: CloseCode, reason: string) => {
        metrics.socketRefused?.('agent', code);
        agent.close(code, reason, 0);
      };
      if (isOther) return refuseAgent(CLOSE_CODES.refused, 'the path names another node than the token');
      ws.once(
        'close',
        onRevoked(() => refuseAgent(CLOSE_CODES.refused, 'the key of the node was deleted or replaced')),
      );
      const asked = { node, id, kind, microservice, ...knownOf(request) };
      const found = places.find(id);
      if (found === 'unknown')
        return refuseAgent(CLOSE_CODES.tryAgainLater, 'this replica does not know the session yet; connect again');
      if (relay && typeof found === 'object') return relay.connect(agent, found.address, asked);
      const refused = sessions.join(asked, agent);
      if (refused) refuseAgent(CLOSE_CODES.refused, refused.refused);
    });
  }

  function cut() {
    for (const socket of [...connections]) socket.destroy();
  }

  return {
    handle(request, socket, head) {
      // A client that is gone while it is being admitted.
      socket.on('error', () => socket.destroy());
      connections.add(socket);
      socket.once('close', () => connections.delete(socket));
      const path = socketPath((request.url ?? '').split('?', 1)[0] ?? '');
      const serve = async () => {
        if (isDraining) throw tryAgainLater('the controller shuts down');
        if (!path) throw new HttpError(404, 'ROUTE_NOT_FOUND', 'there is no such socket');
        await (path.by === 'user' ? ofUser(path, request, socket, head) : ofAgent(path, request, socket, head));
      };
      serve().catch((error: unknown) => {
        if (!(error instanceof HttpError)) log.error({ err: error }, 'Upgrade failed');
        const refusal = error instanceof HttpError ? error : tryAgainLater('the socket cannot be opened now');
        if (path) metrics.socketRefused?.(path.by, refusal.status);
        respond(socket, refusal);
      });
    },
    drain() {
      isDraining = true;
      sessions.drain();
      relay?.drain();
      // A server waits for its connections, and one whose user reads nothing would outlast the grace of the process.
      cancelCut = clock.after(DRAIN_MS, cut);
    },
    [Symbol.dispose]() {
      isDraining = true;
      // A timer that is left keeps the process.
      cancelCut();
      cut();
    },
  };
}

/** A name has no bound, and other replicas need it for counting only. */
const digestOf = (name: string) => createHash('sha256').update(name).digest('base64url').slice(0, 22);

/** What an agent says of itself when it connects to a session. */
function knownOf(request: IncomingMessage): Pick<Joining, 'previous' | 'version'> {
  const { [HEADERS.agent]: version } = request.headers;
  return {
    ...(queryOf(request).get('previous') === 'true' && { previous: 'true' as const }),
    ...(typeof version === 'string' && { version: version.slice(0, 64) }),
  };
}

function queryOf({ url = '' }: IncomingMessage): URLSearchParams {
  const mark = url.indexOf('?');
  return new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1));
}
