import { posix } from 'node:path';
import { jsonOr } from '../../domain/json.ts';
import { formatReference, isReference, isStandIn, parseReference } from '../../domain/reference.ts';
import { ArchiveError } from './archive-error.ts';

/** A file of an archive. */
export interface ArchivedFile {
  /** bytes */
  size: number;
  /** `sha256:...` of its content; undefined for a large one */
  digest?: string;
  /** its content where it may be JSON */
  json?: Buffer;
}

/** The files of an archive by their paths, and the links among them. */
export interface ArchiveContent {
  files: ReadonlyMap<string, ArchivedFile>;
  links: ReadonlyMap<string, string>;
}

/** An image of an archive. */
export interface ArchivedImage {
  /** in full */
  names: readonly string[];
  /** of its configuration, by which engines name it */
  id: string;
  /** path of its configuration */
  config: string;
  /** paths of its layers, the lowest first */
  layers: readonly string[];
}

const NAMES = 1000;
const INDEX_DEPTH = 3;
/** Entries of all indexes together: each costs a look at its document, however often it is named. */
const DESCRIPTORS = 1000;

/**
 * The images of an archive in docker's form (manifest.json), else in the form of OCI (index.json): of several architectures the
 * image for this machine. Throws ArchiveError. Pure.
 */
export function archivedImages(content: ArchiveContent, architecture: string): ArchivedImage[] {
  const images = content.files.has('manifest.json') ? dockerImages(content) : ociImages(content, architecture);
  if (images.length === 0) throw new ArchiveError('it has no image');
  if (images.flatMap(({ names }) => names).length > NAMES) throw new ArchiveError(`it has more than ${NAMES} names`);
  return images;
}

function dockerImages(content: ArchiveContent): ArchivedImage[] {
  return listOf(document(content, 'manifest.json'), 'manifest.json').map((value) => {
    const { Config, RepoTags, Layers } = objectOf(value, 'manifest.json');
    const config = fileAt(content, textOf(Config, 'manifest.json'));
    const { digest } = content.files.get(config) as ArchivedFile;
    if (!digest) throw new ArchiveError(`its configuration ${config} is too large`);
    const layers = listOf(Layers ?? [], 'manifest.json').map((path) => fileAt(content, textOf(path, 'manifest.json')));
    const names = listOf(RepoTags ?? [], 'manifest.json').map((name) => nameOf(textOf(name, 'manifest.json')));
    return { names: [...new Set(names)], id: digest, config, layers };
  });
}

function ociImages(content: ArchiveContent, architecture: string): ArchivedImage[] {
  if (!content.files.has('index.json'))
    throw new ArchiveError('it is no archive of images: it has neither manifest.json nor index.json');
  const walk: Walk = { content, documents: new Map(), left: DESCRIPTORS };
  return descriptorsOf(document(content, 'index.json'), 'index.json').flatMap((top) => {
    const found = manifestsBelow(walk, top, INDEX_DEPTH);
    const fitting = found.length > 1 ? found.filter((each) => each.architecture === architecture) : found;
    const [image] = fitting;
    if (found.length === 0) return [];
    if (!image) {
      const there = found.map((each) => each.architecture).join(', ');
      throw new ArchiveError(`it has an image for ${there}, and none for ${architecture}`);
    }
    const { architecture: _, ...plain } = image;
    return [{ ...plain, names: annotatedName(top) }];
  });
}

/** What a walk through the indexes of an archive has read, and how many entries it may still follow. */
interface Walk {
  content: ArchiveContent;
  documents: Map<string, Record<string, unknown>>;
  left: number;
}

interface OciDescriptor {
  digest: string;
  annotations: Record<string, unknown>;
}

interface OciImage extends Omit<ArchivedImage, 'names'> {
  architecture: string;
}

/** The images that a descriptor leads to; an attestation, and whatever else is no image, is left out. */
function manifestsBelow(walk: Walk, { digest }: OciDescriptor, depth: number): OciImage[] {
  if (walk.left-- === 0) throw new ArchiveError(`its indexes have more than ${DESCRIPTORS} entries`);
  const { content } = walk;
  const path = blobPath(content, digest);
  const value = documentOnce(walk, path);
  if (value.manifests !== undefined) {
    if (depth === 0) throw new ArchiveError('its index is nested too deeply');
    return descriptorsOf(value, path).flatMap((each) => manifestsBelow(walk, each, depth - 1));
  }
  const config = blobPath(content, descriptorOf(value.config, path).digest);
  const { os, architecture, rootfs } = documentOnce(walk, config);
  if (os !== 'linux' || typeof architecture !== 'string' || rootfs === undefined) return [];
  const layers = listOf(value.layers, path).map((each) => blobPath(content, descriptorOf(each, path).digest));
  return [{ id: content.files.get(config)?.digest ?? '', config, layers, architecture }];
}

function documentOnce({ content, documents }: Walk, path: string): Record<string, unknown> {
  const known = documents.get(path) ?? objectOf(document(content, path), path);
  documents.set(path, known);
  return known;
}

const descriptorsOf = (value: unknown, where: string) =>
  listOf(objectOf(value, where).manifests, where).map((each) => descriptorOf(each, where));

function descriptorOf(value: unknown, where: string): OciDescriptor {
  const { digest, annotations } = objectOf(value, where);
  return { digest: textOf(digest, where), annotations: objectOf(annotations ?? {}, where) };
}

/** The name that a writer gave an image; a name of a tag alone is none. */
function annotatedName({ annotations }: OciDescriptor): string[] {
  const full = annotations['io.containerd.image.name'];
  const name = full ?? annotations['org.opencontainers.image.ref.name'];
  if (typeof name !== 'string' || (full === undefined && !/[/:]/.test(name))) return [];
  return [nameOf(name)];
}

/** The path of a blob that is what its name says; the content of a large one is for the engine to check. */
function blobPath(content: ArchiveContent, digest: string): string {
  if (!/^sha256:[0-9a-f]{64}$/.test(digest))
    throw new ArchiveError(`it refers to ${shown(digest)}, which is no digest`);
  const path = fileAt(content, `blobs/${digest.replace(':', '/')}`);
  const actual = content.files.get(path)?.digest;
  if (actual && actual !== digest) throw new ArchiveError(`the content of its ${path} has another digest`);
  return path;
}

/** The path of a file, through links of the archive. */
function fileAt({ files, links }: ArchiveContent, named: string): string {
  let path = posix.normalize(named);
  for (let steps = 0; steps < 8 && links.has(path); steps++) path = links.get(path) as string;
  if (!files.has(path)) throw new ArchiveError(`it has no file ${shown(named)}, to which it refers`);
  return path;
}

/** A name in full. A name without a tag has the tag `latest`. */
function nameOf(text: string): string {
  const parsed = parseReference(text);
  if (!isReference(text) || parsed.digest) throw new ArchiveError(`its name ${shown(text)} is no name of an image`);
  if (isStandIn(parsed.tag))
    throw new ArchiveError(`its name ${shown(text)} stands for a digest, by which images are pulled and never loaded`);
  return formatReference(parsed);
}

function document({ files }: ArchiveContent, path: string): unknown {
  const { json } = files.get(path) ?? {};
  const value: unknown = json && jsonOr(json.toString('utf8'), undefined);
  if (value === undefined) throw new ArchiveError(`its ${path} is no JSON`);
  return value;
}

function listOf(value: unknown, where: string): unknown[] {
  if (!Array.isArray(value)) throw new ArchiveError(`its ${where} has something other than a list`);
  return value;
}

function objectOf(value: unknown, where: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null) throw new ArchiveError(`its ${where} lacks an object`);
  return value as Record<string, unknown>;
}

function textOf(value: unknown, where: string): string {
  if (typeof value !== 'string') throw new ArchiveError(`its ${where} lacks a text`);
  return value;
}

const shown = (text: string) => JSON.stringify(text.slice(0, 100));
