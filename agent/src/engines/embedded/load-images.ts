import { posix } from 'node:path';
import { readTar, TarError } from '../../../../src/lib/tar/read.ts';
import { formatReference, isReference, parseReference } from '../../domain/reference.ts';
import { EngineError } from '../../engine-port/error.ts';
import type { Containerd } from './client.ts';
import { readContentDocument, type WrittenContent, withLease, writeContent } from './content.ts';
import type { ImageStore } from './image-store.ts';
import { packingOf, unpackedDigest } from './unpacked-digest.ts';

/** The file of an archive that names its images. */
const LIST = 'manifest.json';
/** Bytes of it that are read. */
const DOCUMENT_LIMIT = 4 * 1024 * 1024;
/** Files and links of an archive. */
const ENTRIES = 10_000;
const LABEL = 'containerd.io/gc.ref.content';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const CONFIG = 'application/vnd.oci.image.config.v1+json';
const LAYER = 'application/vnd.oci.image.layer.v1.tar';

interface Stored extends WrittenContent {
  /** the digest of what its bytes are packed from; undefined where they cannot be unpacked */
  unpacked: string | undefined;
  /** of the list of images */
  text?: string;
}

/** Gives containerd the images of an archive in docker's form. Their names come last: an archive that breaks off leaves nothing. */
export async function importArchive(
  containerd: Containerd,
  images: ImageStore,
  archive: AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<void> {
  await withLease(containerd, async (lease) => {
    const files = await storeFiles(containerd, archive, lease, signal);
    for (const { config, layers, names } of imagesIn(files)) {
      requireLayers(await readContentDocument(containerd, config.digest, signal), layers);
      const document = manifestOf(config, layers);
      const labels = Object.fromEntries([config, ...layers].map(({ digest }, at) => [`${LABEL}.${at}`, digest]));
      const bytes = Buffer.from(JSON.stringify(document));
      const { digest, size } = await writeContent(containerd, [bytes], { lease, labels, signal });
      for (const name of names.length > 0 ? names : [config.digest])
        await images.name(name, { mediaType: MANIFEST, digest, size }, signal);
    }
  });
}

/** Stores each file of an archive by its digest, and returns them by their paths. */
export async function storeFiles(
  containerd: Containerd,
  archive: AsyncIterable<Uint8Array>,
  lease: string,
  signal?: AbortSignal,
): Promise<Map<string, Stored>> {
  const files = new Map<string, Stored>();
  const links = new Map<string, string>();
  try {
    for await (const { path, type, size, target, content } of readTar(archive as AsyncIterable<Buffer>, {
      toEnd: true,
    })) {
      signal?.throwIfAborted();
      if (files.size + links.size >= ENTRIES) throw new TarError(`it has more than ${ENTRIES} files`);
      const name = posix.normalize(path);
      if (type === 'symlink') links.set(name, posix.join(posix.dirname(name), target));
      if (type === 'hardlink') links.set(name, posix.normalize(target));
      if (type !== 'file') continue;
      const kept: Buffer[] = [];
      const isList = name === LIST && size <= DOCUMENT_LIMIT;
      const unpacking = unpackedDigest(isList ? keeping(content, kept) : content);
      const written = await writeContent(containerd, unpacking.pieces(), { lease, signal });
      const text = isList ? { text: Buffer.concat(kept).toString() } : {};
      files.set(name, { ...written, unpacked: unpacking.digest(), ...text });
    }
  } catch (error) {
    if (error instanceof TarError)
      throw new EngineError('Invalid', `the archive cannot be read: ${error.message}`, { cause: error });
    throw error;
  }
  for (const [name, target] of links) {
    const found = files.get(target);
    if (found && !files.has(name)) files.set(name, found);
  }
  return files;
}

async function* keeping(content: AsyncIterable<Buffer>, kept: Buffer[]): AsyncGenerator<Buffer> {
  for await (const piece of content) {
    kept.push(Buffer.from(piece));
    yield piece;
  }
}

interface ArchivedImage {
  config: Stored;
  layers: readonly Stored[];
  names: readonly string[];
}

/** The images that the list of an archive names. */
function imagesIn(files: ReadonlyMap<string, Stored>): ArchivedImage[] {
  const list = files.get(LIST)?.text;
  if (list === undefined) throw new EngineError('Invalid', 'the archive has no manifest.json');
  const file = (path: unknown) => {
    const found = files.get(posix.normalize(String(path)));
    if (!found) throw new EngineError('Invalid', `the archive lacks ${JSON.stringify(String(path).slice(0, 200))}`);
    return found;
  };
  return listIn(list).map(({ Config, Layers, RepoTags }) => {
    const names = (Array.isArray(RepoTags) ? RepoTags : []).map(String);
    const bad = names.find((name) => !isReference(name));
    if (bad !== undefined)
      throw new EngineError('Invalid', `${JSON.stringify(bad.slice(0, 200))} in the archive is no name of an image`);
    return {
      config: file(Config),
      layers: (Array.isArray(Layers) ? Layers : []).map(file),
      names: names.map((name) => formatReference(parseReference(name))),
    };
  });
}

function listIn(text: string): Record<string, unknown>[] {
  try {
    const value = JSON.parse(text) as unknown;
    if (Array.isArray(value)) return value;
  } catch {
    // see below
  }
  throw new EngineError('Invalid', 'manifest.json of the archive is no list');
}

const manifestOf = (config: WrittenContent, layers: readonly WrittenContent[]) => ({
  schemaVersion: 2,
  mediaType: MANIFEST,
  config: { mediaType: CONFIG, digest: config.digest, size: config.size },
  layers: layers.map(({ digest, size, head }) => ({ mediaType: `${LAYER}${packingOf(head)}`, digest, size })),
});

/** Throws EngineError Invalid unless the layers are those that the configuration names. */
function requireLayers(config: unknown, layers: readonly Stored[]): void {
  const { rootfs } = (config ?? {}) as { rootfs?: { diff_ids?: unknown } };
  const named = Array.isArray(rootfs?.diff_ids) ? rootfs.diff_ids : [];
  const wrong = layers.findIndex(({ unpacked }, at) => unpacked === undefined || unpacked !== named[at]);
  if (wrong >= 0)
    throw new EngineError(
      'Invalid',
      `layer ${wrong + 1} in the archive is not what the configuration of its image names`,
    );
  if (layers.length !== named.length)
    throw new EngineError(
      'Invalid',
      `an image in the archive has ${layers.length} layers; its configuration names ${named.length}`,
    );
}
