import { createHash, randomUUID } from 'node:crypto';
import type { Containerd } from './client.ts';
import { alreadyExists } from './errors.ts';
import { CONTAINERD, WRITE_ACTIONS } from './wire/containerd.ts';

/** Reads and writes what containerd stores by its digest. */

/** Bytes of a document of an image: its index, its manifest, its configuration. */
const DOCUMENT_LIMIT = 4 * 1024 * 1024;
const PIECE = 1024 * 1024;

export interface WrittenContent {
  digest: string;
  size: number;
  /** the first bytes */
  head: Buffer;
}

export async function readContentDocument(
  containerd: Containerd,
  digest: string,
  signal?: AbortSignal,
): Promise<unknown> {
  const pieces: Buffer[] = [];
  const request = { digest, offset: 0, size: DOCUMENT_LIMIT };
  for await (const { data } of containerd.exchange(CONTAINERD.readContent, [request], { signal, deadline: 30_000 }))
    pieces.push(data);
  return JSON.parse(Buffer.concat(pieces).toString());
}

/** Stores bytes; they stay as long as something names them, or their lease lasts. */
export async function writeContent(
  containerd: Containerd,
  bytes: AsyncIterable<Buffer> | Iterable<Buffer>,
  { lease, labels = {}, signal }: { lease: string; labels?: Record<string, string>; signal?: AbortSignal | undefined },
): Promise<WrittenContent> {
  const ref = `skerry-${randomUUID()}`;
  const hash = createHash('sha256');
  let size = 0;
  let head: Buffer = Buffer.alloc(0);
  let digest = '';
  async function* requests() {
    for await (const all of bytes)
      for (let at = 0; at < all.length; at += PIECE) {
        const data = all.subarray(at, at + PIECE);
        hash.update(data);
        if (size === 0) head = Buffer.from(data.subarray(0, 16));
        yield { action: WRITE_ACTIONS.write, ref, offset: size, data };
        size += data.length;
      }
    digest = `sha256:${hash.digest('hex')}`;
    yield { action: WRITE_ACTIONS.commit, ref, offset: size, total: size, expected: digest, labels };
  }
  try {
    for await (const _each of containerd.exchange(CONTAINERD.writeContent, requests(), { lease, signal }));
  } catch (error) {
    if (!alreadyExists(error)) throw error;
    // It is there already, perhaps without the labels.
    const mask = { paths: Object.keys(labels).map((name) => `labels.${name}`) };
    if (mask.paths.length > 0)
      await containerd.call(CONTAINERD.labelContent, { info: { digest, labels }, mask }, { lease, signal });
  }
  return { digest, size, head };
}

const HOUR = 3_600_000;

/** Keeps content that is written meanwhile from being removed as unused. */
export async function withLease<T>(containerd: Containerd, act: (lease: string) => Promise<T>): Promise<T> {
  const id = `skerry-${randomUUID()}`;
  const expiry = new Date(Date.now() + HOUR).toISOString();
  await containerd.call(CONTAINERD.createLease, { id, labels: { 'containerd.io/gc.expire': expiry } });
  try {
    return await act(id);
  } finally {
    await containerd.call(CONTAINERD.deleteLease, { id, sync: true }).catch(() => {});
  }
}
