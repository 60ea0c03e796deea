import { createHash } from 'node:crypto';
import { formatReference, parseReference, standIn } from '../../domain/reference.ts';
import { EngineError } from '../../engine-port/error.ts';
import type { LocalImage } from '../../engine-port/images.ts';
import type { Containerd } from './client.ts';
import { readContentDocument } from './content.ts';
import { alreadyExists, isCode } from './errors.ts';
import { CONTAINERD } from './wire/containerd.ts';

/** The images of a containerd: names that lead to an index or a manifest. An image's id is the digest of its configuration. */

const SNAPSHOTTER = 'overlayfs';

interface Descriptor {
  digest: string;
  size: number;
  architecture: string;
  os: string;
  variant: string;
}

interface Layer {
  digest: string;
  /** bytes as a registry has it */
  size: number;
  /** the name of its snapshot, on top of the layers below */
  chain: string;
}

/** What the documents of an image say. */
export interface ImageContent {
  id: string;
  createdAt?: number;
  architecture: string;
  layers: readonly Layer[];
}

export interface ImageTarget {
  mediaType: string;
  digest: string;
  size: number;
}

export class ImageStore {
  readonly #containerd: Containerd;
  /** by the digest that a name leads to; what a digest names never changes */
  readonly #known = new Map<string, ImageContent>();
  /** bytes of unpacked layers, by the names of their snapshots; a snapshot with such a name never changes */
  readonly #unpacked = new Map<string, number>();
  readonly #architecture: string;

  constructor(containerd: Containerd, architecture: string) {
    this.#containerd = containerd;
    this.#architecture = architecture;
  }

  /** Under its id, its reference, or the stand-in of a reference by digest. */
  async find(
    reference: string,
    signal?: AbortSignal,
  ): Promise<{ name: string; target: ImageTarget; content: ImageContent } | undefined> {
    const isId = /^sha256:[0-9a-f]{64}$/.test(reference);
    const names = isId ? [reference] : [formatReference(parseReference(reference)), standIn(reference)];
    for (const name of names) {
      if (name === undefined) continue;
      try {
        const { image } = await this.#containerd.call(CONTAINERD.getImage, { name }, { signal });
        const content = image?.target && (await this.content(image.target.digest, signal));
        if (image?.target && content) return { name, target: image.target, content };
      } catch (error) {
        if (!isCode(error, 'NotFound')) throw error;
      }
    }
    return undefined;
  }

  /** All images, each with all of its names. */
  async list(signal?: AbortSignal): Promise<{ content: ImageContent; names: string[] }[]> {
    const { images } = await this.#containerd.call(CONTAINERD.listImages, {}, { signal });
    const found = new Map<string, { content: ImageContent; names: string[] }>();
    for (const { name, target } of images) {
      const content = target && (await this.content(target.digest, signal));
      if (!content) continue;
      const entry = found.get(content.id) ?? { content, names: [] };
      entry.names.push(name);
      found.set(content.id, entry);
    }
    this.#forgetOthers(found);
    return [...found.values()];
  }

  /** The memory of removed images would grow with every pull. */
  #forgetOthers(listed: ReadonlyMap<string, { content: ImageContent }>): void {
    for (const [digest, { id }] of this.#known) if (!listed.has(id)) this.#known.delete(digest);
    const chains = new Set([...listed.values()].flatMap(({ content }) => content.layers.map(({ chain }) => chain)));
    for (const chain of this.#unpacked.keys()) if (!chains.has(chain)) this.#unpacked.delete(chain);
  }

  /** Undefined where a document is not there, or is none: one strange image does not hide the others. */
  async content(digest: string, signal?: AbortSignal): Promise<ImageContent | undefined> {
    const known = this.#known.get(digest);
    if (known) return known;
    try {
      const read = await this.#read(digest, signal);
      if (read) this.#known.set(digest, read);
      return read;
    } catch (error) {
      if (isCode(error, 'NotFound', 'Invalid') || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  /**
   * The names that go with an id or a name, and the id of the image whose last names they are. An image that cannot be read
   * loses its name alone.
   */
  async removalOf(selector: string, signal?: AbortSignal): Promise<{ names: string[]; lastOf?: string }> {
    const isId = selector.startsWith('sha256:');
    const found = await this.find(selector, signal);
    if (!found) return { names: isId ? [] : [formatReference(parseReference(selector))] };
    const all = (await this.list(signal)).find(({ content }) => content.id === found.content.id)?.names ?? [];
    const names = namesToRemove(isId ? selector : found.name, all);
    return { names, ...(names.length === all.length && { lastOf: found.content.id }) };
  }

  /** The manifests of an index; undefined for a manifest. */
  async manifests(digest: string, signal?: AbortSignal): Promise<Descriptor[] | undefined> {
    return documentOf(await readContentDocument(this.#containerd, digest, signal)).manifests;
  }

  async #read(digest: string, signal?: AbortSignal): Promise<ImageContent | undefined> {
    const { manifests, config, layers } = documentOf(await readContentDocument(this.#containerd, digest, signal));
    if (manifests) {
      const own = manifests.filter(({ architecture }) => architecture === this.#architecture);
      for (const { digest: inner } of [...own, ...manifests]) {
        const found = await this.content(inner, signal);
        if (found) return found;
      }
      return undefined;
    }
    if (!config) return undefined;
    const value = membersOf(await readContentDocument(this.#containerd, config.digest, signal));
    const chains = chainsOf(listOf(membersOf(value.rootfs).diff_ids).map(String));
    const created = Date.parse(String(value.created));
    return {
      id: config.digest,
      ...(created > 0 && { createdAt: created }),
      architecture: String(value.architecture ?? ''),
      layers: layers.map((layer, at) => ({ digest: layer.digest, size: layer.size, chain: chains[at] ?? '' })),
    };
  }

  /** Bytes of layers, as they are stored and, where they are, unpacked. */
  async bytesOf(layers: readonly Layer[], signal?: AbortSignal): Promise<number> {
    let sum = 0;
    for (const { size, chain } of layers) sum += size + (await this.#unpackedBytes(chain, signal));
    return sum;
  }

  async #unpackedBytes(key: string, signal?: AbortSignal): Promise<number> {
    const known = this.#unpacked.get(key);
    if (known !== undefined) return known;
    const request = { snapshotter: SNAPSHOTTER, key };
    try {
      const { size } = await this.#containerd.call(CONTAINERD.snapshotUsage, request, { signal });
      this.#unpacked.set(key, size);
      return size;
    } catch (error) {
      if (isCode(error, 'NotFound', 'Invalid')) return 0;
      throw error;
    }
  }

  /** Gives an image a name, also where another image has it. */
  async name(name: string, target: ImageTarget, signal?: AbortSignal): Promise<void> {
    const image = { name, target };
    try {
      await this.#containerd.call(CONTAINERD.createImage, { image }, { signal });
    } catch (error) {
      if (!alreadyExists(error)) throw error;
      await this.#containerd.call(CONTAINERD.updateImage, { image, mask: { paths: ['target'] } }, { signal });
    }
  }

  /** An absent name is no error. */
  async unname(name: string, signal?: AbortSignal): Promise<void> {
    try {
      await this.#containerd.call(CONTAINERD.deleteImage, { name, sync: true }, { signal });
    } catch (error) {
      if (!isCode(error, 'NotFound')) throw error;
    }
  }
}

const membersOf = (value: unknown) =>
  (value !== null && typeof value === 'object' ? value : {}) as Record<string, unknown>;
const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** An index or a manifest; an image is not trusted to have the form. */
function documentOf(value: unknown) {
  const { manifests, config, layers } = membersOf(value);
  return {
    manifests: Array.isArray(manifests) ? manifests.map(descriptorOf) : undefined,
    config: config === undefined ? undefined : descriptorOf(config),
    layers: listOf(layers).map(descriptorOf),
  };
}

function descriptorOf(value: unknown): Descriptor {
  const { digest, size, platform } = membersOf(value);
  const { os = '', architecture = '', variant = '' } = membersOf(platform);
  return {
    digest: String(digest),
    size: Number(size) || 0,
    ...{ os: String(os), architecture: String(architecture), variant: String(variant) },
  };
}

/** The names of the snapshots of layers: each is the digest of the one below and its own. */
function chainsOf(digests: readonly string[]): string[] {
  const chains: string[] = [];
  for (const digest of digests) {
    const below = chains.at(-1);
    chains.push(
      below === undefined ? digest : `sha256:${createHash('sha256').update(`${below} ${digest}`).digest('hex')}`,
    );
  }
  return chains;
}

/** Names by what they are: ids are not shown. */
export function sortedNames(names: readonly string[]): Pick<LocalImage, 'tags' | 'digests'> {
  const shown = names.filter((name) => !name.startsWith('sha256:'));
  return {
    tags: shown.filter((name) => !name.includes('@')),
    digests: shown.filter((name) => name.includes('@')),
  };
}

/**
 * The names that go when one is taken away, from all names of the image: with the last tag of a repository the names by digest of
 * that repository, and the id with the last name. Pure.
 */
export function namesToRemove(selector: string, names: readonly string[]): string[] {
  if (selector.startsWith('sha256:')) return [...names];
  const repositoryOf = (name: string) => parseReference(name).host + parseReference(name).repository;
  const left = sortedNames(names.filter((name) => name !== selector));
  const isLastTag = left.tags.every((name) => repositoryOf(name) !== repositoryOf(selector));
  const digests = isLastTag ? left.digests.filter((name) => repositoryOf(name) === repositoryOf(selector)) : [];
  const gone = new Set([selector, ...digests]);
  const rest = names.filter((name) => !gone.has(name));
  return rest.every((name) => name.startsWith('sha256:')) ? [...names] : [...gone];
}

export const inUse = (selector: string, containers: readonly string[]): EngineError =>
  new EngineError('Conflict', `image ${selector} is used by ${containers.join(', ')}`);
