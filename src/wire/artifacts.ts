import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';
import { digestOf } from './digest.ts';

/**
 * Models and knowledge: artifacts that a node pulls and projects into containers
 * (docs/spec/agent-channel.md#models-and-knowledge). Both kinds have the same messages.
 */

const text = (max: number) => z.string().max(max);

/** An artifact as a node is to have it. */
export const artifactViewSchema = z.object({
  uuid: text(64),
  name: text(BOUNDS.name),
  /** the repository in its registry: `team/tiny` */
  repo: text(BOUNDS.url),
  /** tag or digest in an OCI registry; branch, tag or commit on a hub; empty means the default one */
  revision: text(BOUNDS.name).default(''),
  registryId: z.number().int(),
  /** globs of the files to pull; hub only, all files when empty */
  files: z.array(text(BOUNDS.path)).max(BOUNDS.artifactFiles).default([]),
  format: text(32).optional(),
});
export type ArtifactView = z.infer<typeof artifactViewSchema>;

/** Names what the content of an artifact is pulled from: with another fingerprint, other content may be asked for. */
export const artifactFingerprint = ({
  repo,
  revision,
  registryId,
  files,
}: Omit<ArtifactView, 'uuid' | 'name' | 'format'>): string => digestOf([repo, revision, registryId, files]);

const ARTIFACT_STATES = ['Pending', 'Pulling', 'Ready', 'Failed'] as const;

/** What a node reports of one artifact. */
export const artifactStatusSchema = z.object({
  /** absent for what the machine has without the controller */
  uuid: text(64).optional(),
  name: text(BOUNDS.name),
  source: z.enum(['local', 'managed']).catch('managed'),
  state: z.enum(ARTIFACT_STATES).catch('Pending'),
  /** of the content that is ready: `sha256:...` */
  digest: text(128).optional(),
  /** what the revision meant when it was pulled: a manifest digest, or a commit of the hub */
  resolvedRevision: text(128).optional(),
  /** whether the revision is a name that may mean other content later */
  revisionFloating: z.boolean().optional(),
  totalBytes: z.coerce.number().catch(0).optional(),
  lastError: text(BOUNDS.message).optional(),
  /** ours: fingerprint of the view that the content which is ready was pulled for */
  pulledFor: text(64).optional(),
  /** ours: pull progress 0..100 */
  percentage: z.coerce.number().catch(0).optional(),
});
export type ArtifactStatus = z.infer<typeof artifactStatusSchema>;
