import { byAge } from '../../../rules/precedence.ts';

/** The program of routers knows so many interior routers in one network; it takes no more, and edge routers do not count. */
export const MOST_INTERIOR_ROUTERS = 128;

/** An interior router that a node is to have. */
export interface InteriorRouter {
  uuid: string;
  of: Parameters<typeof byAge>[0];
  /** the router of a node of the system */
  isSystem: boolean;
  /** whether it was made already */
  isThere: boolean;
}

/** The nodes for whose interior router the network has no room: routers of the system come first, then those that are there, then the oldest nodes. */
export function withoutRoom(routers: readonly InteriorRouter[], room: number): ReadonlySet<string> {
  if (routers.length <= room) return new Set();
  const ranked = routers.toSorted(
    (a, b) => Number(b.isSystem) - Number(a.isSystem) || Number(b.isThere) - Number(a.isThere) || byAge(a.of, b.of),
  );
  return new Set(ranked.slice(Math.max(0, room)).map(({ uuid }) => uuid));
}

/** Why a node has no router. */
export const NO_ROOM = {
  reason: 'TooManyInteriorRouters',
  message: `the network has ${MOST_INTERIOR_ROUTERS} interior routers, and no room for the router of this node: set routerMode to edge here, or on a node that no other one names in upstreamRouters`,
} as const;
