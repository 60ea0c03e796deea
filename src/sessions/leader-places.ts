import { randomUUID } from 'node:crypto';
import { HttpError, retryAfter } from '../http/http-error.ts';
import type { Clock } from '../lib/clock.ts';
import type { Directory, PlacedSession } from './directory.ts';
import type { SessionTarget } from './rules/session.ts';

/**
 * What the leader does for the sessions of all replicas: it grants places, one after the other, so that no two users get the
 * last one, and every replica learns from it which sessions there are. Nothing is stored: a new leader first listens, until
 * every replica has had the time to say what it has.
 */
export interface LeaderPlaces {
  /** This replica begins to lead. */
  begin(): void;
  /** No other replicas than these can have sessions; without this call, it waits its whole time for those that it does not know. */
  expect(replicas: readonly string[]): void;
  /** It leads no more: who waits gets what there is. */
  end(): void;
  /** whether every replica has had the time to say what it has */
  readonly isSettled: boolean;
  /** Whether no other replica has been heard. */
  readonly isAlone: boolean;
  take(by: Process, id: string, target: SessionTarget): Taken;
  publish(by: Process, given: Published): { registration: string };
  /** Waits a while when nothing has changed since `known`. */
  watch(by: Process, known: { epoch?: string | undefined; cursor: number }): Promise<Watched>;
  /** Forgets what replicas had that are gone. */
  sweep(): void;
}

/** A replica, from its start to its end. */
export interface Process {
  /** `replica/process` */
  owner: string;
  address: string;
}

export interface Taken {
  registration: string;
  refused?: string;
}

export interface Published {
  /** the sender has no other sessions than these */
  isAll: boolean;
  sessions: readonly Omit<PlacedSession, 'owner' | 'address'>[];
  gone: readonly string[];
}

export interface Watched {
  /** Another one than before: the leader did not know this replica, which then sends everything. */
  registration: string;
  /** absent while the leader may not know all sessions itself */
  changes?: {
    epoch: string;
    cursor: number;
    /** sessions of nodes that are not named are over */
    isAll: boolean;
    /** all sessions of each of these nodes */
    nodes: Readonly<Record<string, readonly PlacedSession[]>>;
  };
}

export const PLACE_TIMES: Readonly<Record<'settle' | 'unconfirmed' | 'silent' | 'hold', number>> = {
  /** until a new leader knows what there is; a replica looks for the leader every 2.5 s */
  settle: 5_000,
  /** until a place that was granted is named by its replica */
  unconfirmed: 10_000,
  /** without a word from a replica, which is gone then */
  silent: 15_000,
  /** that a request waits for a change */
  hold: 5_000,
};

/** Nodes whose last change is remembered; after that, every replica gets everything once. */
const MOST_CHANGES = 10_000;

export interface LeaderPlacesOptions {
  directory: Directory;
  /** this replica */
  owner: string;
  clock: Clock;
  times: typeof PLACE_TIMES;
}

export function createLeaderPlaces({ directory, owner: self, clock, times }: LeaderPlacesOptions): LeaderPlaces {
  const replicas = new Map<string, { address: string; registration: string; seenAt: number }>();
  /** when a place was granted that its replica has not named yet */
  const unconfirmed = new Map<string, number>();
  const changedAt = new Map<string, number>();
  const waiting = new Set<() => void>();
  let settledAt = Number.POSITIVE_INFINITY;
  /** replicas that may have sessions, once that is known, and those that have said everything */
  let expected: readonly string[] | undefined;
  const complete = new Set<string>();
  let sweptAt = clock.now();
  let epoch = randomUUID();
  let cursor = 0;

  function wake() {
    for (const resolve of [...waiting]) resolve();
  }

  directory.subscribe((node) => {
    if (changedAt.size >= MOST_CHANGES) restart();
    changedAt.set(node, ++cursor);
    wake();
  });

  /** Every replica gets everything with its next request. */
  function restart() {
    epoch = randomUUID();
    changedAt.clear();
  }

  function forget(owner: string) {
    replicas.delete(owner);
    for (const placed of [...directory.values()]) if (placed.owner === owner) remove(placed.id);
  }

  function remove(id: string) {
    unconfirmed.delete(id);
    directory.remove(id);
  }

  /** Returns the registration of a replica from which something was heard. */
  function hear({ owner, address }: Process): string {
    const seenAt = clock.now();
    const known = replicas.get(owner);
    if (known) {
      known.seenAt = seenAt;
      return known.registration;
    }
    // Another process has taken its address, so it is gone.
    for (const [other, one] of [...replicas]) if (one.address === address) forget(other);
    const registration = randomUUID();
    replicas.set(owner, { address, registration, seenAt });
    return registration;
  }

  function changed(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        cancel();
        waiting.delete(done);
        resolve();
      };
      const cancel = clock.after(ms, done);
      waiting.add(done);
    });
  }

  /** A session has one replica from its beginning to its end: no other one may say anything of it. */
  const isOfOther = (id: string, { owner }: Process) => (directory.get(id)?.owner ?? owner) !== owner;

  const isSettled = () => clock.now() >= settledAt;

  /** All that may have sessions have said which: there is nothing to wait for. */
  function settle() {
    if (settledAt < Number.POSITIVE_INFINITY && expected?.every((replica) => complete.has(replica)))
      settledAt = Math.min(settledAt, clock.now());
  }

  function changesSince(known: { epoch?: string | undefined; cursor: number }): Watched['changes'] {
    const isAll = known.epoch !== epoch;
    const nodes: Record<string, readonly PlacedSession[]> = {};
    if (isAll) for (const { target } of directory.values()) nodes[target.node] ??= directory.ofNode(target.node);
    else for (const [node, at] of changedAt) if (at > known.cursor) nodes[node] = directory.ofNode(node);
    return { epoch, cursor, isAll, nodes };
  }

  return {
    begin() {
      replicas.clear();
      unconfirmed.clear();
      restart();
      settledAt = clock.now() + times.settle;
      sweptAt = clock.now();
      expected = undefined;
      complete.clear();
      for (const placed of [...directory.values()]) if (placed.owner !== self) hear(placed);
    },
    expect(given) {
      expected = given;
      settle();
    },
    end() {
      settledAt = Number.POSITIVE_INFINITY;
      wake();
    },
    get isSettled() {
      return isSettled();
    },
    get isAlone() {
      return isSettled() && replicas.size === 0;
    },
    take(by, id, target) {
      const isSelf = by.owner === self;
      const registration = isSelf ? '' : hear(by);
      if (!isSettled()) throw placesUnknown((settledAt - clock.now()) / 1000);
      const refused = isOfOther(id, by) ? 'another replica has this session' : directory.refusal(target);
      if (refused !== undefined) return { registration, refused };
      directory.put({ ...by, id, target, phase: 'taken', attempt: 0 });
      if (!isSelf) unconfirmed.set(id, clock.now());
      return { registration };
    },
    publish(by, { isAll, sessions, gone }) {
      const registration = hear(by);
      for (const session of sessions) {
        if (isOfOther(session.id, by)) continue;
        unconfirmed.delete(session.id);
        directory.put({ ...session, ...by });
      }
      const named = new Set(sessions.map(({ id }) => id));
      const isOf = (placed: PlacedSession | undefined) => placed?.owner === by.owner;
      for (const id of gone) if (isOf(directory.get(id))) remove(id);
      if (!isAll) return { registration };
      // A place that was granted a moment ago may not be known to its replica yet.
      for (const placed of [...directory.values()])
        if (isOf(placed) && !named.has(placed.id) && !unconfirmed.has(placed.id)) remove(placed.id);
      complete.add(replicaOf(by.owner));
      settle();
      return { registration };
    },
    async watch(by, known) {
      const registration = hear(by);
      if (!isSettled()) return { registration };
      if (known.epoch === epoch && known.cursor === cursor) await changed(times.hold);
      if (!isSettled()) return { registration };
      const changes = changesSince(known);
      return { registration: hear(by), ...(changes && { changes }) };
    },
    sweep() {
      const now = clock.now();
      // A process that stood still has heard nothing meanwhile, and is no judge of the silence of others.
      const isLate = now - sweptAt > times.silent / 3;
      sweptAt = now;
      if (isLate) {
        for (const one of replicas.values()) one.seenAt = now;
        for (const id of unconfirmed.keys()) unconfirmed.set(id, now);
      }
      for (const [id, at] of [...unconfirmed]) if (at + times.unconfirmed <= now) remove(id);
      for (const [owner, { seenAt }] of [...replicas]) if (seenAt + times.silent <= now) forget(owner);
    },
  };
}

const replicaOf = (owner: string) => owner.slice(0, owner.lastIndexOf('/'));

/** A user is to come again: whether there is a place cannot be known at present. */
export const placesUnknown = (seconds: number) =>
  new HttpError(503, 'CONTROLLER_NOT_READY', 'the replicas of the controller agree on who leads; try again', {
    headers: retryAfter(Number.isFinite(seconds) ? seconds : 1),
  });
