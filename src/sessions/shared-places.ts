import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { createDirectory, type PlacedSession } from './directory.ts';
import {
  createLeaderPlaces,
  PLACE_TIMES,
  type Process,
  type Published,
  placesUnknown,
  type Taken,
  type Watched,
} from './leader-places.ts';
import type { Places } from './places.ts';
import type { SessionTarget } from './rules/session.ts';

/**
 * The places of all replicas. The leader grants them; every other replica reports changes of its own sessions to it,
 * and long-polls it for changes of other replicas' sessions. The report of a replica about its own sessions always counts.
 */
export interface SharedPlaces extends Places {
  /** Whether this replica is the only one, as far as it knows. */
  readonly isAlone: boolean;
  /** What the leader answers to other replicas, by path. */
  readonly handlers: Readonly<Record<string, (body: unknown) => unknown>>;
  /** Exchanges sessions with the other replicas until the signal aborts. */
  run(channel: LeaderChannel, signal: AbortSignal): Promise<void>;
}

/** How this replica and the leader reach each other. */
interface LeaderChannel {
  /** Rejects when the leader does not answer, and when no replica leads. */
  call<T>(path: string, body: unknown, signal: AbortSignal): Promise<T>;
  /** `host:port` of the internal listener of this replica */
  address: string;
}

export interface SharedPlacesOptions {
  leadership: { readonly isLeading: boolean; readonly leaderAddress: string | undefined };
  /** The replicas that run, this one included, so that a leader waits for no other; without it, it waits its whole time. */
  replicas?: { self: string; active(signal: AbortSignal): Promise<readonly string[]> };
  /** sessions of one user on one node; SESSIONS_PER_USER when absent */
  mostOfUser?: number;
  clock: Clock;
  log: Log;
  random?: () => number;
  times?: typeof PLACE_TIMES;
}

const PATHS = {
  take: '/internal/sessions/take',
  publish: '/internal/sessions/publish',
  watch: '/internal/sessions/watch',
} as const;

/** Sessions that one replica can have by WS_REPLICA_MAX_CONCURRENT_WS. */
const MOST_SESSIONS = 50_000;
/** Sessions that the leader is to hear of one by one, while it cannot be reached; beyond that, it hears of all. */
const MOST_UNSENT = 1_000;

/** Both ends are the same program: only what is used as a key is checked. */
const text = z.string().max(512);
const sender = { owner: text, address: text };
const target = z.looseObject({ kind: z.enum(['exec', 'log']), node: text, microservice: text.optional() });
const MESSAGES = {
  take: z.object({ ...sender, id: text, target }),
  publish: z.object({
    ...sender,
    isAll: z.boolean(),
    sessions: z.array(z.looseObject({ id: text, target, phase: text, attempt: z.number() })).max(MOST_SESSIONS),
    gone: z.array(text).max(10_000),
  }),
  watch: z.object({ ...sender, epoch: text.optional(), cursor: z.number() }),
};

const CALL_MS = 3_000;
/** until replicas look again who leads */
const LOOK_MS = 200;
const IDLE_MS = 1_000;
const RETRY: Backoff = { baseMs: 200, factor: 2, maxMs: 1_000, jitter: 0.5 };

export function createSharedPlaces(options: SharedPlacesOptions): SharedPlaces {
  const { leadership, clock, log, random = Math.random, times = PLACE_TIMES } = options;
  const owner = `${options.replicas?.self ?? ''}/${randomUUID()}`;
  const directory = createDirectory(options.mostOfUser);
  const leader = createLeaderPlaces({ directory, owner, clock, times });
  let channel: LeaderChannel | undefined;
  let wasLeading = false;
  let isComplete = false;
  /** what the leader calls this replica, and how far its changes are known here */
  let registration: string | undefined;
  let known: { epoch?: string; cursor: number } = { cursor: 0 };
  /** ids of sessions of which the leader is to hear, and whether it is to hear of all */
  const unsent = new Set<string>();
  let isAllUnsent = false;
  let wake = () => {};

  const self = (): Process => ({ owner, address: channel?.address ?? '' });
  const isOwn = (placed: PlacedSession | undefined) => placed?.owner === owner;

  let term = 0;
  function begin() {
    leader.begin();
    const { replicas } = options;
    if (!replicas) return;
    const its = ++term;
    replicas.active(AbortSignal.timeout(CALL_MS)).then(
      (active) => its === term && leader.expect(active.filter((one) => one !== replicas.self)),
      (error: unknown) => log.debug({ err: error }, 'The replicas that run are not known'),
    );
  }

  function leads(): boolean {
    if (leadership.isLeading !== wasLeading) {
      wasLeading = leadership.isLeading;
      if (wasLeading) begin();
      else leader.end();
      registration = undefined;
      known = { cursor: 0 };
      unsent.clear();
    }
    return wasLeading;
  }

  /** The leader hears of this session; it is this replica itself when it leads. */
  function say(id: string) {
    if (leads()) return;
    // Each refused user adds an id of a place that may have been granted.
    if (unsent.size >= MOST_UNSENT) {
      unsent.clear();
      isAllUnsent = true;
    }
    unsent.add(id);
    wake();
  }

  function registered(given: string) {
    if (given === registration) return;
    registration = given;
    isAllUnsent = true;
    wake();
  }

  async function call<T>(path: string, body: object, ms: number, signal?: AbortSignal): Promise<T> {
    if (!channel) throw new Error('this replica is starting');
    const deadline = AbortSignal.timeout(ms);
    return channel.call<T>(path, { ...self(), ...body }, signal ? AbortSignal.any([signal, deadline]) : deadline);
  }

  function learn({ epoch, cursor, isAll, nodes }: NonNullable<Watched['changes']>) {
    known = { epoch, cursor };
    const given = new Set(Object.values(nodes).flatMap((placed) => placed.map(({ id }) => id)));
    const before = isAll ? [...directory.values()] : Object.keys(nodes).flatMap((node) => directory.ofNode(node));
    for (const placed of before) if (!isOwn(placed) && !given.has(placed.id)) directory.remove(placed.id);
    for (const placed of Object.values(nodes).flat())
      if (!isOwn(placed) && !isOwn(directory.get(placed.id))) directory.put(placed);
    isComplete = true;
  }

  async function follow(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      if (leads()) {
        leader.sweep();
        isComplete ||= leader.isSettled;
      }
      if (wasLeading || leadership.leaderAddress === undefined) {
        await sleep(LOOK_MS, signal, clock);
        continue;
      }
      try {
        const heard = await call<Watched>(PATHS.watch, known, times.hold + CALL_MS, signal);
        failures = 0;
        // What a former leader says no longer counts.
        if (leads()) continue;
        registered(heard.registration);
        if (heard.changes) learn(heard.changes);
        else await sleep(LOOK_MS, signal, clock);
      } catch (error) {
        failures++;
        if (failures === 3 && !signal.aborted) log.warn({ err: error }, 'Sessions of other replicas are not known');
        await sleep(backoffDelay(RETRY, failures, random), signal, clock);
      }
    }
  }

  async function publish(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      if (leads() || leadership.leaderAddress === undefined || (unsent.size === 0 && !isAllUnsent)) {
        await woken();
        continue;
      }
      const ids = [...unsent];
      const isAll = isAllUnsent;
      unsent.clear();
      isAllUnsent = false;
      const own = isAll ? [...directory.values()] : ids.flatMap((id) => directory.get(id) ?? []);
      const message: Published = {
        isAll,
        sessions: own.filter(isOwn).map(({ id, target, phase, attempt }) => ({ id, target, phase, attempt })),
        gone: ids.filter((id) => !directory.get(id)),
      };
      try {
        const heard = await call<{ registration: string }>(PATHS.publish, message, CALL_MS, signal);
        failures = 0;
        if (!leads()) registered(heard.registration);
      } catch {
        // The other loop says it when the leader does not answer.
        failures++;
        for (const id of ids) unsent.add(id);
        isAllUnsent ||= isAll;
        await sleep(backoffDelay(RETRY, failures, random), signal, clock);
      }
    }
  }

  /** Resolves when there is something to send, and after a while. */
  function woken(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(IDLE_MS, resolve);
      wake = () => {
        cancel();
        resolve();
      };
    });
  }

  return {
    handlers: {
      [PATHS.take](body) {
        const { owner, address, id, target } = MESSAGES.take.parse(body);
        leads();
        return leader.take({ owner, address }, id, target as unknown as SessionTarget);
      },
      [PATHS.publish](body) {
        const { owner, address, ...given } = MESSAGES.publish.parse(body);
        leads();
        return leader.publish({ owner, address }, given as unknown as Published);
      },
      [PATHS.watch](body) {
        const { owner, address, ...known } = MESSAGES.watch.parse(body);
        leads();
        return leader.watch({ owner, address }, known);
      },
    },
    async take(target) {
      const id = randomUUID();
      if (leads()) {
        const { refused } = leader.take(self(), id, target);
        return refused === undefined ? { id } : { refused };
      }
      const taken = await call<Taken>(PATHS.take, { id, target }, CALL_MS).catch((error: unknown) => {
        log.debug({ err: error }, 'The leader did not say whether there is a place for a session');
        // It may have been granted.
        say(id);
        throw placesUnknown(1);
      });
      registered(taken.registration);
      if (taken.refused !== undefined) return { refused: taken.refused };
      directory.put({ ...self(), id, target, phase: 'taken', attempt: 0 });
      return { id };
    },
    put({ id, target, phase, attempt }) {
      directory.put({ ...self(), id, target, phase, attempt });
      say(id);
    },
    leave(id) {
      if (!isOwn(directory.get(id))) return;
      directory.remove(id);
      say(id);
    },
    find(id) {
      const placed = directory.get(id);
      if (placed) return isOwn(placed) ? 'here' : { address: placed.address };
      return leads() && leader.isSettled ? 'nowhere' : 'unknown';
    },
    get isAlone() {
      return leads() && leader.isAlone;
    },
    get isComplete() {
      return isComplete;
    },
    lists: directory.lists,
    subscribe: (listener) => directory.subscribe((node, isDue) => isDue && listener(node)),
    async run(given, signal) {
      channel = given;
      await Promise.all([follow(signal), publish(signal)]);
    },
  };
}
