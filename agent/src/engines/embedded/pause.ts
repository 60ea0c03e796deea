import type { Containerd } from './client.ts';
import { withLease, writeContent } from './content.ts';
import type { ImageStore } from './image-store.ts';
import { pauseImage } from './machine/pause-image.ts';
import type { PauseArchitecture } from './machine/pause-program.ts';

const LABEL = 'containerd.io/gc.ref.content';
const ARCHITECTURES: Readonly<Record<string, PauseArchitecture>> = {
  x64: 'amd64',
  arm64: 'arm64',
  arm: 'arm',
  riscv64: 'riscv64',
};

/** Gives containerd the image whose program keeps the namespaces of containers, unless it has it. */
export async function ensurePause(
  containerd: Containerd,
  images: ImageStore,
  reference: string,
  signal?: AbortSignal,
): Promise<void> {
  if (await images.find(reference, signal)) return;
  const architecture = ARCHITECTURES[process.arch];
  if (!architecture) throw new Error(`no pause program for ${process.arch}`);
  const { blobs, manifest } = pauseImage(architecture);
  await withLease(containerd, async (lease) => {
    const inner = blobs.filter((blob) => blob !== manifest);
    for (const { content } of inner) await writeContent(containerd, [content], { lease, signal });
    const labels = Object.fromEntries(inner.map(({ digest }, at) => [`${LABEL}.${at}`, digest]));
    const { digest, size } = await writeContent(containerd, [manifest.content], { lease, labels, signal });
    await images.name(reference, { mediaType: manifest.mediaType, digest, size }, signal);
  });
}
