import { z } from 'zod';
import { ARTIFACT_KINDS, type ArtifactKind } from '../../domain/artifact.ts';

/** What the store has of one artifact: all of its files, as they were pulled. */
export const recordSchema = z.object({
  kind: z.enum(ARTIFACT_KINDS),
  uuid: z.string(),
  name: z.string(),
  /** fingerprint of what it was pulled for */
  asked: z.string(),
  resolvedRevision: z.string(),
  floating: z.boolean(),
  /** of the content: paths and checksums of all files */
  digest: z.string(),
  totalBytes: z.number(),
  files: z.array(z.object({ path: z.string(), size: z.number(), sha256: z.string().regex(/^[0-9a-f]{64}$/) })),
  /** Unix ms */
  pulledAt: z.number(),
});
export type ArtifactRecord = z.infer<typeof recordSchema>;
export type RecordFile = ArtifactRecord['files'][number];

/** Names one artifact of this machine. */
export type ArtifactKey = `${ArtifactKind}/${string}`;
export const artifactKey = ({ kind, uuid }: { kind: ArtifactKind; uuid: string }): ArtifactKey => `${kind}/${uuid}`;
