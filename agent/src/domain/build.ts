/** What `hack/build.ts` puts into the bundle of a release; undefined in all other programs. */
declare const SKERRY_BUILD: { buildTime: string; gitCommit: string } | undefined;

/**
 * The commit that this agent was built from, and its time (RFC 3339; a release built twice is the same bytes, so it has no time of
 * its own). Both are `unknown` where the agent runs from its sources, or from a bundle that is no release.
 */
export const BUILD: Readonly<{ buildTime: string; gitCommit: string }> =
  typeof SKERRY_BUILD === 'undefined' ? { buildTime: 'unknown', gitCommit: 'unknown' } : SKERRY_BUILD;
