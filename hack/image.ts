import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { gzipSync } from 'node:zlib';
import { makeTar, type TarEntry } from './tar.ts';

/** A file of an image; its parent folders are created. */
interface ImageFile {
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

/** Builds an image of one layer without an engine. Equal specs have equal digests. */
export function buildImage(spec: ImageSpec): Image {
  const tar = makeTar(layerEntries(spec.files));
  // The lowest level halves the size already; higher levels only cost time.
  const layer = gzipSync(tar, { level: 1 });
  const architecture = spec.architecture ?? hostArchitecture();
  const created = '1970-01-01T00:00:00Z';
  const config = json({
    created,
    architecture,
    os: 'linux',
    config: {
      User: spec.user ?? '',
      ExposedPorts: Object.fromEntries((spec.ports ?? []).map((port) => [`${port}/tcp`, {}])),
      Env: Object.entries(spec.env ?? {}).map(([key, value]) => `${key}=${value}`),
      Entrypoint: spec.entrypoint ?? null,
      Cmd: spec.cmd ?? null,
      Volumes: spec.volumes ? Object.fromEntries(spec.volumes.map((path) => [path, {}])) : null,
      WorkingDir: spec.workingDir ?? '/',
      Labels: spec.labels ?? {},
      ...(spec.healthcheck && { Healthcheck: spec.healthcheck }),
    },
    rootfs: { type: 'layers', diff_ids: [digestOf(tar)] },
    history: [{ created, created_by: 'skerry hack/image.ts' }],
  });
  const configDescriptor = describe(MEDIA.config, config);
  const layerDescriptor = describe(MEDIA.layer, layer);
  const manifest = json({
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: configDescriptor,
    layers: [layerDescriptor],
  });
  const top = { ...describe(MEDIA.manifest, manifest), platform: { os: 'linux', architecture } };
  return {
    top,
    manifests: new Map([[top.digest, { mediaType: MEDIA.manifest, bytes: manifest }]]),
    blobs: new Map([
      [configDescriptor.digest, config],
      [layerDescriptor.digest, layer],
    ]),
  };
}

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

/** An archive for `docker load`, `podman load` and `ctr images import`, which need no registry. */
export function saveImage(image: Image, reference: string): Buffer {
  const own = [...image.manifests.values()]
    .filter(({ mediaType }) => mediaType === MEDIA.manifest)
    .map(({ bytes }) => JSON.parse(bytes.toString()) as { config: Descriptor; layers: Descriptor[] })[0];
  const pathOf = ({ digest }: { digest: string }) => `blobs/${digest.replace(':', '/')}`;
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
              'io.containerd.image.name': reference,
              'org.opencontainers.image.ref.name': reference.slice(reference.lastIndexOf(':') + 1),
            },
          },
        ],
      }),
    ],
    // docker's format from before OCI; it refers to the same blobs.
    [
      'manifest.json',
      json([{ Config: own && pathOf(own.config), RepoTags: [reference], Layers: own?.layers.map(pathOf) }]),
    ],
    ...[...image.blobs].map(([digest, bytes]) => [pathOf({ digest }), bytes] as [string, Buffer]),
    ...[...image.manifests].map(([digest, { bytes }]) => [pathOf({ digest }), bytes] as [string, Buffer]),
  ];
  return makeTar(files.map(([path, content]) => ({ path, type: 'file', content })));
}

/** The name of this machine's architecture in image platforms. */
export function hostArchitecture(): 'amd64' | 'arm64' {
  return process.arch === 'arm64' ? 'arm64' : 'amd64';
}

function layerEntries(files: readonly ImageFile[]): TarEntry[] {
  const entries = new Map<string, TarEntry>();
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
