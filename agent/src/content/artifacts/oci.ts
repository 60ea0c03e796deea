import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ArtifactView } from '../../../../src/wire/artifacts.ts';
import { rangeHeaders } from '../../machine/download.ts';
import type { RegistryClient } from '../registries/client.ts';
import { ArtifactError } from './error.ts';
import { LIMITS } from './file-name.ts';
import { expectContent, parseDocument, type Resolved, readJsonDocument, type SourceFile } from './source.ts';
import type { ArchiveForm } from './unpack.ts';

const MANIFEST_LIMIT = 4 * 1024 * 1024;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const MEDIA = {
  manifests: ['application/vnd.oci.image.manifest.v1+json', 'application/vnd.docker.distribution.manifest.v2+json'],
  indexes: ['application/vnd.oci.image.index.v1+json', 'application/vnd.docker.distribution.manifest.list.v2+json'],
  empty: 'application/vnd.oci.empty.v1+json',
} as const;
/** Annotations that name a layer's file, the most specific first. */
const TITLES = ['org.cncf.model.filepath', 'org.opencontainers.image.title'] as const;
/** An index may name an index, once. */
const DEPTH = 2;

const descriptorSchema = z.object({
  mediaType: z.string().max(255).default(''),
  digest: z.string().regex(DIGEST, 'is no sha256 digest'),
  size: z.number().int().min(0),
  annotations: z.record(z.string(), z.string()).nullish(),
  platform: z.object({ os: z.string().optional(), architecture: z.string().optional() }).nullish(),
});
const manifestSchema = z.object({ layers: z.array(descriptorSchema).max(LIMITS.files) });
const indexSchema = z.object({ manifests: z.array(descriptorSchema).max(1000) });
type Descriptor = z.infer<typeof descriptorSchema>;

/** The files of an artifact in an OCI registry: one for each layer (OCI distribution and image specifications). */
export async function resolveOci(
  { repo, revision }: Pick<ArtifactView, 'repo' | 'revision'>,
  client: RegistryClient,
  platform: { os: string; architecture: string },
  signal: AbortSignal,
): Promise<Resolved> {
  const reference = revision || 'latest';
  const pinned = DIGEST.test(reference);
  if (!pinned && !/^\w[\w.-]{0,127}$/.test(reference))
    throw new ArtifactError('Invalid', `the revision ${JSON.stringify(reference)} is neither a tag nor a digest`);
  const top = await fetchManifest(reference);
  let current = top;
  for (let depth = 0; 'manifests' in (current.value as object); depth++) {
    if (depth >= DEPTH) throw new ArtifactError('Invalid', `${repo}: its index leads to no manifest`);
    current = await fetchManifest(choose(parseDocument(indexSchema, current.value, 'the index').manifests).digest);
  }
  const { layers } = parseDocument(manifestSchema, current.value, 'the manifest');
  const contents = layers.filter(({ mediaType, annotations }) => mediaType !== MEDIA.empty || titleOf(annotations));
  if (contents.length === 0) throw new ArtifactError('Invalid', `${repo}: its manifest has no layers`);
  return { revision: top.digest, floating: !pinned, files: contents.map((layer, index) => fileOf(layer, index)) };

  async function fetchManifest(asked: string): Promise<{ digest: string; value: unknown }> {
    const what = `the manifest ${repo}${asked.includes(':') ? '@' : ':'}${asked}`;
    const accept = [...MEDIA.manifests, ...MEDIA.indexes].join(', ');
    const response = await client.open({
      ...{ method: 'GET', path: `/v2/${repo}/manifests/${asked}`, repository: repo, headers: { accept }, signal },
    });
    const { bytes, value } = await readJsonDocument(response, what, MANIFEST_LIMIT);
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    if (asked.startsWith('sha256:') && digest !== asked)
      throw new ArtifactError('ChecksumMismatch', `${what} has another digest`);
    if (value === null || typeof value !== 'object') throw new ArtifactError('Invalid', `${what} is no manifest`);
    return { digest, value };
  }

  /** The manifest of an index for this machine; one that names no platform is for all. */
  function choose(manifests: readonly Descriptor[]): Descriptor {
    const own = manifests.find(
      (each) => each.platform?.os === platform.os && each.platform.architecture === platform.architecture,
    );
    const found = own ?? manifests.find((each) => !each.platform?.os && !each.platform?.architecture);
    if (!found)
      throw new ArtifactError('NotFound', `${repo}: its index has none for ${platform.os}/${platform.architecture}`);
    return found;
  }

  /** The name of a layer without a title. */
  function nameOf(mediaType: string, index: number): string {
    const untitled = contents.filter((each) => titleOf(each.annotations) === undefined);
    if (isGguf(mediaType) && untitled.filter((each) => isGguf(each.mediaType)).length === 1) return 'model.gguf';
    return contents.length === 1 ? 'model.bin' : `layer-${index + 1}`;
  }

  function fileOf({ mediaType, digest, size, annotations }: Descriptor, index: number): SourceFile {
    const path = titleOf(annotations) ?? nameOf(mediaType, index);
    const archive = archiveOf(mediaType);
    if (archive === 'other')
      throw new ArtifactError(
        'Invalid',
        `${repo}: its layer ${JSON.stringify(path.slice(0, 100))} is an archive in a form that cannot be unpacked (${mediaType}); tar and tar+gzip can`,
      );
    return {
      path,
      archive,
      size,
      checksum: { algorithm: 'sha256', value: digest.slice('sha256:'.length) },
      identity: digest,
      async open(range, fileSignal) {
        const response = await client.open({
          method: 'GET',
          path: `/v2/${repo}/blobs/${digest}`,
          repository: repo,
          headers: rangeHeaders(range),
          signal: fileSignal,
        });
        await expectContent(response, `the file ${path} of ${repo}`);
        return response;
      },
    };
  }
}

function titleOf(annotations: Descriptor['annotations']): string | undefined {
  return TITLES.map((name) => annotations?.[name]).find((title) => title !== undefined && title !== '');
}

/** Whether a layer is weights in the format GGUF, as some model registries have them, without a title. */
const isGguf = (mediaType: string) => /[./+-]gguf([./+-]|$)/.test(mediaType);

/** The form of a layer that is an archive of files rather than a file. */
function archiveOf(mediaType: string): ArchiveForm | 'other' | undefined {
  const [, form] = /[/.+-]tar((?:[.+-].*)?)$/s.exec(mediaType) ?? [];
  if (form === undefined) return undefined;
  if (form === '') return 'tar';
  return /^[.+-]gz(ip)?$/.test(form) ? 'tar+gzip' : 'other';
}
