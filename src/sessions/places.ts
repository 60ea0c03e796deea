import { randomUUID } from 'node:crypto';
import { createDirectory } from './directory.ts';
import type { ListedSession, SessionLists } from './rules/list.ts';
import type { SessionTarget } from './rules/session.ts';

/**
 * Where a session is: at this replica, at the one with this internal listener, or nowhere; a replica that does not lead may
 * not have heard of it yet.
 */
type Found = 'here' | { address: string } | 'nowhere' | 'unknown';

/** Which sessions there are, at whichever replica, and whether there is a place for one more. */
export interface Places {
  /** Takes a place, which `leave` gives back. Rejects with HttpError 503 when it cannot be known whether there is one. */
  take(target: SessionTarget): Promise<{ id: string } | { refused: string }>;
  /** What has become of a session of this replica. */
  put(session: ListedSession): void;
  /** Does nothing for a place that was given back before. */
  leave(id: string): void;
  find(id: string): Found;
  /** false while sessions of other replicas may be missing */
  readonly isComplete: boolean;
  /** What the agent of a node gets. */
  lists(node: string): SessionLists;
  /** The listener is called with the node whose agent is to get its lists. */
  subscribe(listener: (node: string) => void): Disposable;
}

/** The places of one replica alone. */
export function createPlaces(mostOfUser?: number): Places {
  const directory = createDirectory(mostOfUser);
  const here = { owner: '', address: '' };
  return {
    async take(target) {
      const refused = directory.refusal(target);
      if (refused !== undefined) return { refused };
      const id = randomUUID();
      directory.put({ ...here, id, target, phase: 'taken', attempt: 0 });
      return { id };
    },
    put: ({ id, target, phase, attempt }) => directory.put({ ...here, id, target, phase, attempt }),
    leave: directory.remove,
    find: (id) => (directory.get(id) ? 'here' : 'nowhere'),
    isComplete: true,
    lists: directory.lists,
    subscribe: (listener) => directory.subscribe((node, isDue) => isDue && listener(node)),
  };
}
