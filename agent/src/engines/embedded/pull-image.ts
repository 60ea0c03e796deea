import { setTimeout as sleep } from 'node:timers/promises';
import { formatReference, PUBLIC_HUB, parseReference } from '../../domain/reference.ts';
import { EngineError } from '../../engine-port/error.ts';
import type { PullRequest } from '../../engine-port/images.ts';
import type { Containerd } from './client.ts';
import { containerdPullError } from './errors.ts';
import type { ImageStore } from './image-store.ts';
import { CONTAINERD } from './wire/containerd.ts';
import { CRI } from './wire/cri.ts';

const LOOK_EVERY = 500;
const MINUTE = 60_000;

/** ms without a further byte after which a pull is given up, by how many layers are fetched; without any, layers are unpacked. */
export const quietLimit = (fetched: number): number => (fetched > 0 ? 5 : 30) * MINUTE;

/** Has containerd pull, and returns the id of the image. */
export async function containerdPull(
  containerd: Containerd,
  images: ImageStore,
  request: PullRequest,
  signal?: AbortSignal,
): Promise<string> {
  const parsed = parseReference(request.reference);
  const reference = formatReference(parsed);
  const quiet = new AbortController();
  const stop = signal ? AbortSignal.any([signal, quiet.signal]) : quiet.signal;
  const done = new AbortController();
  const watching = watch(containerd, { quiet, done: done.signal, onProgress: request.onProgress });
  const pull = (name: string) => callPull(containerd, name, request.credentials, stop);
  try {
    await pull(reference);
    if (request.platform) await usePlatform(images, { ...request, reference }, pull, stop);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw containerdPullError(reference, error);
  } finally {
    done.abort();
    await watching;
  }
  const found = await images.find(reference, signal);
  if (!found)
    throw new EngineError('ImagePullFailed', `pull ${reference}: containerd says it is done, but has no such image`);
  request.onProgress?.(100);
  return found.content.id;
}

async function callPull(
  containerd: Containerd,
  image: string,
  credentials: PullRequest['credentials'],
  signal: AbortSignal,
): Promise<void> {
  // Only the host of the URL counts, which is the answering host: no other host gets the credentials.
  const host = credentials?.host === PUBLIC_HUB.host ? PUBLIC_HUB.answersAt : credentials?.host;
  const auth = credentials && { ...credentials, serverAddress: `https://${host}` };
  await containerd.call(CRI.pullImage, { image: { image }, auth }, { signal, deadline: 0 });
}

/** CRI pulls for the machine's own platform; any other one is pulled by the digest that the index has for it. */
async function usePlatform(
  images: ImageStore,
  { reference, platform }: Pick<PullRequest, 'reference' | 'platform'>,
  pull: (name: string) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const [os, architecture, variant = ''] = platform.split('/');
  const found = await images.find(reference, signal);
  const manifests = found && (await images.manifests(found.target.digest, signal));
  if (!found || !manifests) return;
  const chosen = manifests.find(
    (each) => each.os === os && each.architecture === architecture && (!variant || each.variant === variant),
  );
  if (!chosen) throw new EngineError('ImageNotFound', `a manifest for ${platform} was not found`);
  const { host, repository } = parseReference(reference);
  const pinned = `${host}/${repository}@${chosen.digest}`;
  await pull(pinned);
  const own = await images.find(pinned, signal);
  if (own) await images.name(reference, own.target, signal);
}

interface Watch {
  quiet: AbortController;
  done: AbortSignal;
  onProgress: PullRequest['onProgress'];
}

/** CRI says nothing of a pull before it is done; what containerd writes meanwhile says how far it is. */
async function watch(containerd: Containerd, { quiet, done, onProgress }: Watch): Promise<void> {
  let shown = 0;
  let last = '';
  let since = performance.now();
  let limit = quietLimit(0);
  while (!done.aborted) {
    await sleep(LOOK_EVERY, undefined, { signal: done, ref: false }).catch(() => {});
    if (done.aborted) return;
    try {
      const { statuses } = await containerd.call(CONTAINERD.contentStatuses, {});
      const total = statuses.reduce((sum, each) => sum + each.total, 0);
      const present = statuses.reduce((sum, each) => sum + each.offset, 0);
      const percentage = total > 0 ? Math.min(99, Math.floor((100 * present) / total)) : 0;
      if (percentage > shown) {
        shown = percentage;
        onProgress?.(shown);
      }
      const state = statuses.map(({ ref, offset }) => `${ref} ${offset}`).join();
      if (state !== last) since = performance.now();
      last = state;
      limit = quietLimit(statuses.length);
    } catch {
      // The pull itself says that containerd is away.
    }
    if (performance.now() - since > limit)
      quiet.abort(new EngineError('ImagePullFailed', `nothing came for ${limit / MINUTE} minutes`));
  }
}
