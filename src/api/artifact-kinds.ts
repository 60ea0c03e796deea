/** Keys of the two kinds, which are also the members of an entry that bind them and those of a node's status that list them. */
export const ARTIFACT_KINDS = ['models', 'knowledge'] as const;
export type ArtifactKind = (typeof ARTIFACT_KINDS)[number];
