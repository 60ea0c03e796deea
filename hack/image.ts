import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { gzipSync } from 'node:zlib';
import { makeTar, type NewEntry } from '../src/lib/tar/write.ts';

/** A file of an image; its parent folders are created. */
export interface ImageFile {
  /** Absolute path in the container. */
  path: string;
  /** Absent for an empty folder or a link. */
  content?: Uint8Array | string;
  /** Makes it a symbolic link. */
  link?: string;
  mode?: number;
  uid?: number;
  gid?: number;
}

export interface ImageSpec {
  files: readonly ImageFile[];
  /** the layer as it is, instead of one with the files */
  tar?: Buffer;
  /** An image of one architecture whose layers come first. */
  base?: Image;
  /** ISO time of creation; 1970 when absent. */
  created?: string;
  /** gzip level of the layer, 1 when absent: it halves the size already, and higher ones cost time. */
  compression?: number;
  entrypoint?: readonly string[];
  cmd?: readonly string[];
  env?: Record<string, string>;
  labels?: Record<string, string>;
  user?: string;
  workingDir?: string;
  /** TCP ports that the image exposes. */
  ports?: readonly number[];
  volumes?: readonly string[];
  /** In docker's form: `Test: ['CMD', ...]`, times in nanoseconds. */
  healthcheck?: { Test: string[]; Interval?: number; Timeout?: number; Retries?: number; StartPeriod?: number };
  architecture?: 'amd64' | 'arm64';
}

interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
  platform?: { os: string; architecture: string };
}

/** An image, or an index of images, with all blobs that it refers to. */
export interface Image {
  /** Its own manifest or index. */
  readonly top: Descriptor;
  /** Manifests and indexes by digest, those that are referred to first. */
  readonly manifests: ReadonlyMap<string, { mediaType: string; bytes: Buffer }>;
  /** Configurations and layers by digest. */
  readonly blobs: ReadonlyMap<string, Buffer>;
}

const MEDIA = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
};

/** Builds an image of one layer, or of one more than its base, without an engine. Equal specs have equal digests. */
export function buildImage(spec: ImageSpec): Image {
  const tar = spec.tar ?? makeTar(layerEntries(spec.files));
  const layer = gzipSync(tar, { level: spec.compression ?? 1 });
  const { base, architecture = hostArchitecture(), created = '1970-01-01T00:00:00Z' } = spec;
  const below = base && readConfiguration(base);
  if (below && below.config.architecture !== architecture)
    throw new Error(`the base is an image for ${below.config.architecture}, not for ${architecture}`);
  const env = { ...below?.env, ...spec.env };
  const config = json({
    created,
    architecture,
    os: 'linux',
    config: {
      User: spec.user ?? '',
      ExposedPorts: Object.fromEntries((spec.ports ?? []).map((port) => [`${port}/tcp`, {}])),
      Env: Object.entries(env).map(([key, value]) => `${key}=${value}`),
      Entrypoint: spec.entrypoint ?? null,
      Cmd: spec.cmd ?? null,
      Volumes: spec.volumes ? Object.fromEntries(spec.volumes.map((path) => [path, {}])) : null,
      WorkingDir: spec.workingDir ?? '/',
      Labels: spec.labels ?? {},
      ...(spec.healthcheck && { Healthcheck: spec.healthcheck }),
    },
    rootfs: { type: 'layers', diff_ids: [...(below?.config.rootfs.diff_ids ?? []), digestOf(tar)] },
    history: [...(below?.config.history ?? []), { created, created_by: 'skerry hack/image.ts' }],
  });
  const configDescriptor = describe(MEDIA.config, config);
  const layerDescriptor = describe(MEDIA.layer, layer);
  const manifest = json({
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: configDescriptor,
    layers: [...(below?.layers ?? []), layerDescriptor],
  });
  const top = { ...describe(MEDIA.manifest, manifest), platform: { os: 'linux', architecture } };
  return {
    top,
    manifests: new Map([[top.digest, { mediaType: MEDIA.manifest, bytes: manifest }]]),
    blobs: new Map([
      ...(below?.layers ?? []).map(({ digest }) => [digest, base?.blobs.get(digest) as Buffer] as const),
      [configDescriptor.digest, config],
      [layerDescriptor.digest, layer],
    ]),
  };
}

interface Configuration {
  architecture: string;
  rootfs: { diff_ids: string[] };
  history?: object[];
  config?: { Env?: string[] | null };
}

/** What an image of one architecture passes on to those that are built on it. */
function readConfiguration(image: Image) {
  const manifest = parseManifest(image);
  const config = JSON.parse(image.blobs.get(manifest.config.digest)?.toString() ?? '') as Configuration;
  const pairs = (config.config?.Env ?? []).map((pair) => pair.split(/=(.*)/s, 2) as [string, string]);
  return { config, layers: manifest.layers, env: Object.fromEntries(pairs) };
}

const parseManifest = (image: Image) =>
  JSON.parse(image.manifests.get(image.top.digest)?.bytes.toString() ?? '') as {
    config: Descriptor;
    layers: Descriptor[];
  };

/** Joins images of several architectures into one. */
export function buildIndex(images: readonly Image[]): Image {
  const index = json({ schemaVersion: 2, mediaType: MEDIA.index, manifests: images.map((image) => image.top) });
  const top = describe(MEDIA.index, index);
  return {
    top,
    manifests: new Map([
      ...images.flatMap((image) => [...image.manifests]),
      [top.digest, { mediaType: MEDIA.index, bytes: index }],
    ]),
    blobs: new Map(images.flatMap((image) => [...image.blobs])),
  };
}

/**
 * Pushes an image to a registry over the OCI distribution API; blobs that the registry has are not sent again.
 * Returns the reference to pull it by, and its digest.
 */
export async function pushImage(
  registryUrl: string,
  repository: string,
  tag: string,
  image: Image,
): Promise<{ reference: string; digest: string }> {
  const base = `${registryUrl.replace(/\/$/, '')}/v2/${repository}`;
  for (const [digest, bytes] of image.blobs) {
    if ((await fetch(`${base}/blobs/${digest}`, { method: 'HEAD' })).ok) continue;
    const upload = await send('POST', `${base}/blobs/uploads/`);
    const location = new URL(upload.headers.get('location') ?? '', base);
    location.searchParams.set('digest', digest);
    await send('PUT', location.href, bytes, 'application/octet-stream');
  }
  for (const [digest, { mediaType, bytes }] of image.manifests) {
    const name = digest === image.top.digest ? tag : digest;
    await send('PUT', `${base}/manifests/${name}`, bytes, mediaType);
  }
  const host = new URL(registryUrl).host;
  return { reference: `${host}/${repository}:${tag}`, digest: image.top.digest };
}

/**
 * An archive for `docker load`, `podman load` and `ctr images import`, which need no registry. Of an image for several
 * architectures, docker gets one tag for each: `<reference>-<architecture>`.
 */
export function saveImage(image: Image, reference: string): Buffer {
  const own = [...image.manifests.values()]
    .filter(({ mediaType }) => mediaType === MEDIA.manifest)
    .map(({ bytes }) => JSON.parse(bytes.toString()) as { config: Descriptor; layers: Descriptor[] });
  const pathOf = ({ digest }: { digest: string }) => `blobs/${digest.replace(':', '/')}`;
  const architectureOf = ({ config }: { config: Descriptor }) =>
    (JSON.parse(image.blobs.get(config.digest)?.toString() ?? '') as Configuration).architecture;
  const files: [string, Buffer][] = [
    ['oci-layout', json({ imageLayoutVersion: '1.0.0' })],
    [
      'index.json',
      json({
        schemaVersion: 2,
        mediaType: MEDIA.index,
        manifests: [
          {
            ...image.top,
            annotations: {
              'io.containerd.image.name': fullReference(reference),
              'org.opencontainers.image.ref.name': reference.slice(reference.lastIndexOf(':') + 1),
            },
          },
        ],
      }),
    ],
    // docker's format from before OCI; it refers to the same blobs.
    [
      'manifest.json',
      json(
        own.map((each) => ({
          Config: pathOf(each.config),
          RepoTags: [own.length > 1 ? `${reference}-${architectureOf(each)}` : reference],
          Layers: each.layers.map(pathOf),
        })),
      ),
    ],
    ...[...image.blobs].map(([digest, bytes]) => [pathOf({ digest }), bytes] as [string, Buffer]),
    ...[...image.manifests].map(([digest, { bytes }]) => [pathOf({ digest }), bytes] as [string, Buffer]),
  ];
  return makeTar(files.map(([path, content]) => ({ path, type: 'file', content })));
}

/** containerd stores an image under the name that it is given, and looks it up by the full one. */
function fullReference(reference: string): string {
  const [first = '', ...rest] = reference.split('/');
  if (rest.length === 0) return `docker.io/library/${reference}`;
  return /[.:]|^localhost$/.test(first) ? reference : `docker.io/${reference}`;
}

/** The image for an architecture from a folder with an OCI layout, such as an unpacked archive. */
export function readImage(folder: string, architecture: 'amd64' | 'arm64'): Image {
  const blob = ({ digest }: { digest: string }) => {
    const bytes = readFileSync(join(folder, 'blobs', digest.replace(':', '/')));
    if (digestOf(bytes) !== digest) throw new Error(`${folder}: the blob ${digest} has other content`);
    return bytes;
  };
  const found = (index: Buffer): { descriptor: Descriptor; bytes: Buffer; config: Buffer } | undefined => {
    for (const descriptor of (JSON.parse(index.toString()) as { manifests: Descriptor[] }).manifests) {
      const bytes = blob(descriptor);
      const content = JSON.parse(bytes.toString()) as { manifests?: unknown; config?: Descriptor };
      if (content.manifests !== undefined) {
        const inner = found(bytes);
        if (inner) return inner;
      } else if (content.config) {
        const config = blob(content.config);
        if ((JSON.parse(config.toString()) as Configuration).architecture === architecture)
          return { descriptor, bytes, config };
      }
    }
    return undefined;
  };
  const image = found(readFileSync(join(folder, 'index.json')));
  if (!image) throw new Error(`${folder} has no image for ${architecture}`);
  const { config, layers } = JSON.parse(image.bytes.toString()) as { config: Descriptor; layers: Descriptor[] };
  return {
    top: { ...image.descriptor, platform: { os: 'linux', architecture } },
    manifests: new Map([[image.descriptor.digest, { mediaType: image.descriptor.mediaType, bytes: image.bytes }]]),
    blobs: new Map([[config.digest, image.config], ...layers.map((layer) => [layer.digest, blob(layer)] as const)]),
  };
}

/** The name of this machine's architecture in image platforms. */
export function hostArchitecture(): 'amd64' | 'arm64' {
  return process.arch === 'arm64' ? 'arm64' : 'amd64';
}

function layerEntries(files: readonly ImageFile[]): NewEntry[] {
  const entries = new Map<string, NewEntry>();
  const addFolders = (path: string) => {
    if (path === '' || path === '.' || entries.has(path)) return;
    addFolders(posix.dirname(path));
    entries.set(path, { path, type: 'directory', mode: path === 'tmp' ? 0o1777 : 0o755 });
  };
  for (const { path: absolute, content, link, mode, uid, gid } of files) {
    const path = posix.normalize(absolute).replace(/^\/+|\/+$/g, '');
    addFolders(posix.dirname(path));
    const owner = { mode, uid, gid };
    if (link !== undefined) entries.set(path, { path, type: 'symlink', target: link, ...owner });
    else if (content !== undefined) entries.set(path, { path, type: 'file', content: Buffer.from(content), ...owner });
    else {
      addFolders(path);
      if (mode !== undefined || uid !== undefined) entries.set(path, { path, type: 'directory', ...owner });
    }
  }
  return [...entries.values()];
}

async function send(method: string, url: string, body?: Buffer, type?: string): Promise<Response> {
  const headers = type ? { 'content-type': type } : undefined;
  const response = await fetch(url, { method, headers, body: body && new Uint8Array(body) });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`);
  await response.arrayBuffer();
  return response;
}

function describe(mediaType: string, bytes: Buffer): Descriptor {
  return { mediaType, digest: digestOf(bytes), size: bytes.length };
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
