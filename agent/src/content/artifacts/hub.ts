import { z } from 'zod';
import type { ArtifactView } from '../../../../src/wire/artifacts.ts';
import type { ArtifactKind } from '../../domain/artifact.ts';
import { type Checksum, rangeHeaders } from '../../machine/download.ts';
import type { RegistryClient } from '../registries/client.ts';
import { ArtifactError } from './error.ts';
import { isSelected } from './glob.ts';
import { expectContent, parseDocument, type Resolved, readJsonDocument, type SourceFile } from './source.ts';

const LIST_LIMIT = 32 * 1024 * 1024;
const COMMIT = /^[0-9a-f]{40}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/** The paths of the hub for the repositories of a kind: models, and datasets for knowledge. */
const PATHS: Readonly<Record<ArtifactKind, { api: string; files: string }>> = {
  models: { api: '/api/models', files: '' },
  knowledge: { api: '/api/datasets', files: '/datasets' },
};

const listSchema = z.object({
  sha: z.string().regex(COMMIT, 'is no commit'),
  siblings: z
    .array(
      z.object({
        rfilename: z.string(),
        size: z.number().int().min(0).nullish(),
        blobId: z.string().nullish(),
        lfs: z.object({ sha256: z.string().nullish(), size: z.number().int().min(0).nullish() }).nullish(),
      }),
    )
    .max(500_000)
    .default([]),
});
type Sibling = z.infer<typeof listSchema>['siblings'][number];

/** The selected files of a repository of a hub, at the commit that the revision means now. */
export async function resolveHub(
  kind: ArtifactKind,
  { repo, revision, files }: Pick<ArtifactView, 'repo' | 'revision' | 'files'>,
  client: RegistryClient,
  signal: AbortSignal,
): Promise<Resolved> {
  const paths = PATHS[kind];
  const asked = revision || 'main';
  const name = `${repo} at ${asked}`;
  const path = `${paths.api}/${encodePath(repo)}/revision/${encodeURIComponent(asked)}?blobs=true`;
  const headers = { accept: 'application/json', 'accept-encoding': 'identity' };
  const response = await client.open({ method: 'GET', path, repository: repo, headers, signal });
  const { value } = await readJsonDocument(response, `the repository ${name}`, LIST_LIMIT);
  const { sha, siblings } = parseDocument(listSchema, value, `the list of ${name}`);
  if (COMMIT.test(asked) && sha !== asked)
    throw new ArtifactError('Invalid', `the hub answers the commit ${sha} for ${name}`);
  const selected = siblings.filter(({ rfilename }) => isSelected(files, rfilename));
  if (selected.length === 0)
    throw new ArtifactError(
      'NotFound',
      siblings.length === 0 ? `${name} has no files` : `no file of ${name} matches ${files.join(', ')}`,
    );
  return { revision: sha, floating: !COMMIT.test(asked), files: selected.map((file) => fileOf(file, sha)) };

  function fileOf(file: Sibling, commit: string): SourceFile {
    const source: SourceFile = {
      path: file.rfilename,
      size: file.lfs?.size ?? file.size ?? undefined,
      checksum: checksumOf(file),
      identity: `${kind}/${repo}@${commit}/${file.rfilename}`,
      async open(range, fileSignal) {
        const found = await client.open({
          method: 'GET',
          path: `${paths.files}/${encodePath(repo)}/resolve/${commit}/${encodePath(file.rfilename)}`,
          repository: repo,
          headers: rangeHeaders(range),
          signal: fileSignal,
          // A large file lies elsewhere; only the hub's own response has its checksum. Without one the hub could pass off
          // what another host answers to this machine as a file of the repository: also under the hub's own name, which can
          // mean another address by then.
          onRedirect: (linked, away) => {
            source.checksum ??= checksumOfTag(linked['x-linked-etag']);
            if (away && !source.checksum)
              throw new ArtifactError(
                'Invalid',
                `the hub leads elsewhere for the file ${file.rfilename} of ${repo} and names no checksum of it`,
              );
          },
        });
        await expectContent(found, `the file ${file.rfilename} of ${repo}`);
        if (!source.checksum) source.checksum = checksumOfTag(found.headers['x-linked-etag'] ?? found.headers.etag);
        return found;
      },
    };
    return source;
  }
}

/** What the list says of a file: a large one by the SHA-256 of its content, another one by its git blob. */
function checksumOf({ lfs, blobId, size }: Sibling): Checksum | undefined {
  if (lfs) return lfs.sha256 && SHA256.test(lfs.sha256) ? { algorithm: 'sha256', value: lfs.sha256 } : undefined;
  return blobId && COMMIT.test(blobId) && size != null ? { algorithm: 'git', value: blobId } : undefined;
}

/** The entity tag of a large file is its SHA-256. */
function checksumOfTag(tag: string | string[] | undefined): Checksum | undefined {
  const value = String(tag ?? '').replaceAll('"', '');
  return SHA256.test(value) ? { algorithm: 'sha256', value } : undefined;
}

function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}
