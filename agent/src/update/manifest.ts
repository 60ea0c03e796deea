import { createHash, type KeyObject } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import type { Architecture } from '../../../src/api/names.ts';
import { compareVersions, parseVersion } from '../../../src/api/version.ts';
import { isSigned } from '../../../src/wire/release-signature.ts';

/** Product that a manifest is about, so that a signature of the same key over another text is worth nothing here. */
const PRODUCT = 'skerry-agent';
/** bytes of one file of a release */
const MAX_FILE = 512 * 1024 * 1024;
const MAX_LIBRARIES = 64;
const FILE_NAME = /^[A-Za-z0-9][\w.+-]{0,127}$/;
/** The folder of a release with what its node needs. */
export const LIBRARIES = 'lib';

const version = z
  .string()
  .max(128)
  .refine((text) => parseVersion(text) === text, 'must be a version such as 1.2.3');
const file = z.object({
  size: z.number().int().min(1).max(MAX_FILE),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hex digits'),
});
export type ReleaseFile = z.infer<typeof file>;

const manifestSchema = z.object({
  product: z.literal(PRODUCT),
  version,
  /** the lowest version of an agent that can be updated to this one */
  minimumVersion: version,
  nodeFlags: z
    .array(z.string().regex(/^--[a-z0-9=_-]{1,64}$/))
    .max(16)
    .default([]),
  architectures: z.partialRecord(
    z.enum(['amd64', 'arm64', 'riscv64', 'arm']),
    z.object({
      agent: file,
      node: file,
      /** what this node needs, by name in the folder beside it */
      libraries: z
        .record(z.string(), file)
        .refine((libraries) => Object.keys(libraries).every((name) => FILE_NAME.test(name)), 'must have names of files')
        .refine((libraries) => Object.keys(libraries).length <= MAX_LIBRARIES, `has more than ${MAX_LIBRARIES} files`)
        .optional(),
    }),
  ),
});
export type ReleaseManifest = z.infer<typeof manifestSchema>;

/** What is wrong with a release itself, so that asking again is of no use. */
export class ReleaseError extends Error {
  override name = 'ReleaseError';
}

/** The manifest whose exact bytes one of the keys has signed, with the digest of these bytes. */
export function verifiedManifest(
  bytes: Buffer,
  signature: string,
  keys: readonly KeyObject[],
): { manifest: ReleaseManifest; digest: string } {
  if (!isSigned(bytes, signature, keys))
    throw new ReleaseError('the signature of its manifest is not by a release key of this machine');
  let content: unknown;
  try {
    content = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw new ReleaseError('its manifest is not JSON', { cause: error });
  }
  const parsed = manifestSchema.safeParse(content);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new ReleaseError(`its manifest is wrong: ${issue?.path.join('.')}: ${issue?.message}`);
  }
  return { manifest: parsed.data, digest: createHash('sha256').update(bytes).digest('hex') };
}

export interface Wish {
  /** absent: the latest release, which has to be newer than `installed` */
  version?: string;
  installed: string;
  architecture: Architecture;
}

/** The files of a release for this machine, by their paths in its directory; throws ReleaseError when it is not for this machine or not what was wished. */
export function fitting(manifest: ReleaseManifest, wish: Wish): Map<string, ReleaseFile> {
  const { installed, architecture } = wish;
  if (wish.version !== undefined && manifest.version !== wish.version)
    throw new ReleaseError(`its manifest is that of ${manifest.version}`);
  if (compareVersions(manifest.version, installed) <= 0)
    throw new ReleaseError(`it is not newer than ${installed}, which is installed; the command rollback goes back`);
  if (compareVersions(installed, manifest.minimumVersion) < 0)
    throw new ReleaseError(`it can follow on ${manifest.minimumVersion} or newer, and ${installed} is installed`);
  const files = architecture === 'auto' ? undefined : manifest.architectures[architecture];
  if (!files) throw new ReleaseError(`it has no files for the architecture ${architecture}`);
  const { libraries = {}, ...programs } = files;
  const beside = Object.entries(libraries).map(([name, file]): [string, ReleaseFile] => [join(LIBRARIES, name), file]);
  return new Map([...Object.entries(programs), ...beside]);
}
