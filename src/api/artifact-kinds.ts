/** Keys of the two kinds, which are also members of an entry, which bind them, and of the status of a node, which list them. */
export const ARTIFACT_KINDS = ['models', 'knowledge'] as const;
export type ArtifactKind = (typeof ARTIFACT_KINDS)[number];
