import { SESSIONS_PER_TARGET, SESSIONS_PER_USER } from '../wire/sessions.ts';
import { type ListedSession, type SessionLists, sessionLists } from './rules/list.ts';
import type { SessionTarget } from './rules/session.ts';

/** A session, or the place of one that has not begun, and the replica that has it: the one with the socket of its user. */
export interface PlacedSession extends Omit<ListedSession, 'phase'> {
  phase: ListedSession['phase'] | 'taken';
  /** of a process: one that starts again is another */
  owner: string;
  /** `host:port` of the internal listener of this replica */
  address: string;
}

/** The sessions that one replica knows of, its own and those of others. */
export interface Directory {
  get(id: string): PlacedSession | undefined;
  values(): IterableIterator<PlacedSession>;
  ofNode(node: string): readonly PlacedSession[];
  lists(node: string): SessionLists;
  /** Why there is no place for a session about this target. */
  refusal(target: SessionTarget): string | undefined;
  put(placed: PlacedSession): void;
  remove(id: string): void;
  /** The listener is called with the node of each change; `isDue` when its agent is to know. */
  subscribe(listener: (node: string, isDue: boolean) => void): Disposable;
}

const NO_SESSIONS: SessionLists = { exec: [], logs: [], digests: {} };

/** `mostOfUser`: sessions of one user on one node. */
export function createDirectory(mostOfUser = SESSIONS_PER_USER): Directory {
  const all = new Map<string, PlacedSession>();
  const byNode = new Map<string, Map<string, PlacedSession>>();
  /** sessions by target, and by user and node */
  const counts = new Map<string, number>();
  const listeners = new Set<(node: string, isDue: boolean) => void>();

  function count(target: SessionTarget, by: 1 | -1) {
    for (const key of [quotaKey(target), userKey(target)]) {
      if (key === undefined) continue;
      const left = (counts.get(key) ?? 0) + by;
      if (left > 0) counts.set(key, left);
      else counts.delete(key);
    }
  }

  function tell(node: string, isDue: boolean) {
    for (const listener of listeners) listener(node, isDue);
  }

  const ofNode = (node: string) => Array.from(byNode.get(node)?.values() ?? []);

  /** Whether one other user has all sessions of this target: then there is a further place, so that nobody keeps all others out. */
  function isHeldByOneOther({ user, ...target }: SessionTarget): boolean {
    const key = quotaKey(target);
    const holders = new Set(
      ofNode(target.node).flatMap((one) => (quotaKey(one.target) === key ? [one.target.user] : [])),
    );
    return user !== undefined && holders.size === 1 && !holders.has(user) && !holders.has(undefined);
  }

  return {
    get: (id) => all.get(id),
    values: () => all.values(),
    ofNode,
    lists(node) {
      if (!byNode.has(node)) return NO_SESSIONS;
      return sessionLists(
        ofNode(node).flatMap(({ phase, ...rest }) => (phase === 'taken' ? [] : [{ ...rest, phase }])),
      );
    },
    refusal(target) {
      const own = counts.get(userKey(target) ?? '') ?? 0;
      if (own >= mostOfUser) return `you have ${own} sessions on this node, which is the limit: end one of them first`;
      const open = counts.get(quotaKey(target)) ?? 0;
      if (open < SESSIONS_PER_TARGET || isHeldByOneOther(target)) return undefined;
      const what = target.microservice === undefined ? 'node' : 'microservice';
      return `this ${what} has ${open} ${target.kind} sessions, which is the limit`;
    },
    put(placed) {
      const { id, target } = placed;
      const known = all.get(id);
      if (known && isSame(known, placed)) return;
      all.set(id, placed);
      const ofItsNode = byNode.get(target.node) ?? new Map<string, PlacedSession>();
      byNode.set(target.node, ofItsNode.set(id, placed));
      if (!known) count(target, 1);
      tell(target.node, listedAttempt(known) !== listedAttempt(placed));
    },
    remove(id) {
      const known = all.get(id);
      if (!known) return;
      const { node } = known.target;
      all.delete(id);
      const ofItsNode = byNode.get(node);
      ofItsNode?.delete(id);
      if (ofItsNode?.size === 0) byNode.delete(node);
      count(known.target, -1);
      tell(node, listedAttempt(known) > 0);
    },
    subscribe(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
  };
}

/** Zero while the list of the node does not have it. */
const listedAttempt = (placed: PlacedSession | undefined) =>
  placed === undefined || placed.phase === 'taken' || placed.phase === 'over' ? 0 : placed.attempt;

const isSame = (a: PlacedSession, b: PlacedSession) =>
  a.owner === b.owner && a.address === b.address && a.phase === b.phase && a.attempt === b.attempt;

const userKey = ({ user, node }: SessionTarget) => (user === undefined ? undefined : `user ${user} ${node}`);
const quotaKey = ({ kind, microservice, node }: SessionTarget) => `${kind} ${microservice ?? `node ${node}`}`;
