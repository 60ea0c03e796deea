import type { PathFacts } from './policy.ts';

/** Paths that are just texts. */
export const PLAIN_PLACES: PathFacts = {
  follow: (path) => path,
  identity: () => undefined,
  mountsBelow: () => [],
  locate: (paths) => paths.map((path) => (path === '/' ? '' : path)),
  mountedPlaces: () => [],
};
