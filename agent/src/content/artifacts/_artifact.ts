import { createHash } from 'node:crypto';
import type { Image } from '../../../../hack/image.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';

export interface ArtifactLayer {
  content: string | Buffer;
  title?: string;
  mediaType?: string;
}

/** An OCI artifact with one layer for each file, in the form that `pushImage` takes. */
export function makeOciArtifact(layers: readonly ArtifactLayer[]): Image {
  const config = describe('application/vnd.oci.empty.v1+json', Buffer.from('{}'));
  const blobs = new Map([[config.digest, Buffer.from('{}')]]);
  const described = layers.map(({ content, title, mediaType = 'application/octet-stream' }) => {
    const bytes = Buffer.from(content);
    const layer = describe(mediaType, bytes);
    blobs.set(layer.digest, bytes);
    return { ...layer, ...(title !== undefined && { annotations: { 'org.opencontainers.image.title': title } }) };
  });
  const artifactType = 'application/vnd.example.model';
  const manifest = { schemaVersion: 2, mediaType: MANIFEST, artifactType, config, layers: described };
  const bytes = Buffer.from(JSON.stringify(manifest));
  const top = describe(MANIFEST, bytes);
  return { top, manifests: new Map([[top.digest, { mediaType: MANIFEST, bytes }]]), blobs };
}

function describe(mediaType: string, bytes: Buffer) {
  return { mediaType, digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}`, size: bytes.length };
}
