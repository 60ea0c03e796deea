import { createHash } from 'node:crypto';
import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';

/**
 * Files that the system itself needs on a node: certificates, configuration, credentials (docs/spec/agent-channel.md#system-files).
 * A set is a directory that changes as a whole. The list has the digest of each file; the agent fetches the content of those
 * that it lacks, so that one changed file is one file on the link. No VolumeMount can have the name of a set, and only the
 * controller makes mappings of it.
 */

export const SHA256 = /^[0-9a-f]{64}$/;
const SET_NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const sha256 = z.string().regex(SHA256);

/** A file of a set. */
const systemFileSchema = z.object({
  /** below the directory of the set */
  path: z.string().min(1).max(BOUNDS.path),
  /** SHA-256 of its content */
  digest: sha256,
  /** bytes */
  size: z.number().int().min(0).max(BOUNDS.systemFileBytes),
});

/** A set as a node is to have it. */
export const systemFileSetSchema = z.object({
  name: z.string().regex(SET_NAME),
  files: z.array(systemFileSchema).max(BOUNDS.systemFilesOfSet),
});
export type SystemFileSetView = z.infer<typeof systemFileSetSchema>;

/** Greatest number of files that one request asks for. */
export const SYSTEM_FILES_ASKED = 64;

/** Response of `GET /agent/systemFiles/content?digests=<digest>,<digest>`: base64 by digest. What the node is not to have is absent. */
export const systemFileContentSchema = z.object({ contents: z.record(sha256, z.string()) });
export type SystemFileContent = z.infer<typeof systemFileContentSchema>;

/** The digest of the content of a set, which controller and agent compare, in whichever order its files are listed. */
export const systemSetDigest = ({ files }: Pick<SystemFileSetView, 'files'>): string =>
  // The JSON of lists of texts is canonical.
  createHash('sha256')
    .update(
      JSON.stringify(files.toSorted((a, b) => (a.path < b.path ? -1 : 1)).map(({ path, digest }) => [path, digest])),
    )
    .digest('hex')
    .slice(0, 16);

/** What a report says of the files: the digest of the list whose files are all on the machine, and what keeps it from others. */
export const systemFilesReportSchema = z.object({
  /** empty where no list is whole on the machine */
  digest: z.string().regex(/^[0-9a-f]{0,64}$/),
  problem: z.string().max(BOUNDS.message).optional(),
  /** Digests of the sets of the platform that are whole on the machine, by name; absent of agents that do not say it. */
  sets: z
    .record(z.string().regex(SET_NAME), z.string().regex(/^[0-9a-f]{16}$/))
    .refine((sets) => Object.keys(sets).length <= BOUNDS.reportedFileSets)
    .optional(),
});
export type SystemFilesReport = z.infer<typeof systemFilesReportSchema>;

/** How the set with the credentials of a microservice for the message bus is named; only its own container binds it. */
export const busCredsSet = (microserviceUuid: string): string => `bus-${microserviceUuid}`;
/** Whether a set is a part of the platform of the node: reports name no others, of which there may be hundreds. */
export const isPlatformSet = (name: string): boolean => !/^bus-[0-9a-f]{8}-[0-9a-f-]{27}$/.test(name);

/** How `hostDestination` of a mapping of type volumeMount names a set: no VolumeMount can have such a name. */
export const SYSTEM_FILES_PREFIX = 'system:';
