import { createHash } from 'node:crypto';
import { makeTar } from '../../../../../src/lib/tar/write.ts';
import { type PauseArchitecture, pauseProgram } from './pause-program.ts';

/** The name of the image whose program keeps the namespaces of a container. */
export const PAUSE_IMAGE = 'skerry.local/pause:1';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';

/** A blob of an image with what a descriptor says of it. */
export interface PauseBlob {
  mediaType: string;
  digest: string;
  content: Buffer;
}

/** An image of one layer: its blobs, the manifest last. */
export interface PauseImage {
  reference: string;
  blobs: readonly PauseBlob[];
  manifest: PauseBlob;
}

/** The image of the pause program, made here: a machine without a network can pull none. Equal architectures have equal digests. */
export function pauseImage(architecture: PauseArchitecture): PauseImage {
  const content = pauseProgram(architecture);
  const tar = makeTar([{ path: 'pause', type: 'file', mode: 0o755, content }]);
  const layer = blob('application/vnd.oci.image.layer.v1.tar', tar);
  const config = jsonBlob('application/vnd.oci.image.config.v1+json', {
    ...{ created: '1970-01-01T00:00:00Z', architecture, os: 'linux' },
    ...(architecture === 'arm' && { variant: 'v7' }),
    config: { User: '65535:65535', Entrypoint: ['/pause'], WorkingDir: '/' },
    rootfs: { type: 'layers', diff_ids: [layer.digest] },
  });
  const manifest = jsonBlob(MANIFEST, {
    ...{ schemaVersion: 2, mediaType: MANIFEST },
    config: descriptor(config),
    layers: [descriptor(layer)],
  });
  return { reference: PAUSE_IMAGE, blobs: [layer, config, manifest], manifest };
}

/** The image as an archive in the layout of OCI, which containerd imports. */
export function pauseArchive(architecture: PauseArchitecture): Buffer {
  const { blobs, manifest, reference } = pauseImage(architecture);
  const file = (path: string, content: Uint8Array) => ({ path, type: 'file' as const, content });
  const annotations = { 'io.containerd.image.name': reference, 'org.opencontainers.image.ref.name': '1' };
  const index = { schemaVersion: 2, manifests: [{ ...descriptor(manifest), annotations }] };
  return makeTar([
    file('oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}')),
    file('index.json', Buffer.from(JSON.stringify(index))),
    ...blobs.map(({ digest, content }) => file(`blobs/${digest.replace(':', '/')}`, content)),
  ]);
}

const descriptor = ({ mediaType, digest, content }: PauseBlob) => ({ mediaType, digest, size: content.length });

const jsonBlob = (mediaType: string, value: object) => blob(mediaType, Buffer.from(JSON.stringify(value)));

function blob(mediaType: string, content: Buffer): PauseBlob {
  return { mediaType, digest: `sha256:${createHash('sha256').update(content).digest('hex')}`, content };
}
