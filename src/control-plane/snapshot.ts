import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createWriteStream, existsSync, openSync, readSync, renameSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ETCD_URL, etcdFolder, type Layout, LOOPBACK_PORTS, restoreFile } from './layout.ts';
import { QUOTA_BYTES } from './programs.ts';

/** Writes a snapshot of etcd, as etcd itself makes it, while it serves. Rejects when it is not complete. */
export async function writeSnapshot(output: Writable): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<import('node:http').IncomingMessage>();
  request(`${ETCD_URL}/v3/maintenance/snapshot`, { method: 'POST' }, resolve).on('error', reject).end('{}');
  const response = await promise;
  if (response.statusCode !== 200) throw new Error(`etcd answered ${response.statusCode} instead of a snapshot`);
  const tail = new SnapshotTail();
  for await (const line of createInterface({ input: response })) {
    const { result, error } = JSON.parse(line) as { result?: { blob?: string }; error?: { message?: string } };
    if (error) throw new Error(`etcd made no snapshot: ${error.message}`);
    const piece = Buffer.from(result?.blob ?? '', 'base64');
    tail.take(piece);
    if (!output.write(piece)) await new Promise((done) => output.once('drain', done));
  }
  tail.verify();
}

/** A snapshot ends with the SHA-256 of everything before. */
class SnapshotTail {
  readonly #hash = createHash('sha256');
  #last = Buffer.alloc(0);

  take(piece: Buffer): void {
    const all = Buffer.concat([this.#last, piece]);
    const kept = Math.min(all.length, SHA256_BYTES);
    this.#hash.update(all.subarray(0, all.length - kept));
    this.#last = all.subarray(all.length - kept);
  }

  verify(): void {
    if (!this.#hash.digest().equals(this.#last)) throw new Error('the snapshot is not complete, or damaged');
  }
}

const SHA256_BYTES = 32;
const PIECE = 1024 * 1024;
/** No data of a control plane is larger: etcd looks at its quota before a write, and may end a little above. */
const MAX_BYTES = QUOTA_BYTES * 1.25;

/**
 * Makes the data of a snapshot for the next start, once the snapshot is here as a whole and verified. The present data serves on, and a
 * snapshot that cannot be restored leaves nothing.
 */
export async function takeSnapshot(layout: Layout, input: Readable, maxBytes = MAX_BYTES): Promise<void> {
  const snapshot = restoreFile(layout);
  const { fresh, next } = foldersOf(layout);
  const file = openAlone(snapshot);
  try {
    await pipeline(input, upTo(maxBytes), createWriteStream(snapshot, { fd: file, flush: true }));
    verifyFile(snapshot);
    makeData(layout, snapshot, fresh);
    rmSync(next, { recursive: true, force: true });
    renameSync(fresh, next);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
    rmSync(snapshot, { force: true });
  }
}

/** A file that no other process writes: the next start removes what an ended one left. */
function openAlone(path: string): number {
  try {
    return openSync(path, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new Error('another restore is under way; when it was cut off, restart the control plane and try again');
  }
}

const upTo = (maxBytes: number) =>
  async function* (pieces: AsyncIterable<Buffer>) {
    let left = maxBytes;
    for await (const piece of pieces) {
      left -= piece.length;
      if (left < 0) throw new Error(`this is no snapshot of a control plane: it has more than ${maxBytes} bytes`);
      yield piece;
    }
  };

/** The folders of a restore beside the data: data in the making, data for the next start, and former data. */
function foldersOf(layout: Layout) {
  const folder = etcdFolder(layout);
  return { folder, fresh: `${folder}.fresh`, next: `${folder}.next`, former: `${folder}.former` };
}

function makeData(layout: Layout, snapshot: string, fresh: string): void {
  rmSync(fresh, { recursive: true, force: true });
  const peer = `http://127.0.0.1:${LOOPBACK_PORTS.etcdPeer}`;
  const args = [
    ...['snapshot', 'restore', snapshot, '--data-dir', fresh, '--name', 'default'],
    ...['--initial-cluster', `default=${peer}`, '--initial-advertise-peer-urls', peer],
  ];
  const { status, stderr, error } = spawnSync(join(layout.programs, 'etcdutl'), args, { encoding: 'utf8' });
  // Above its last line is its log.
  const reason = error?.message ?? stderr.trim().split('\n').at(-1);
  if (status !== 0) throw new Error(`the snapshot cannot be restored, and nothing was changed: ${reason}`);
}

function verifyFile(path: string): void {
  if (statSync(path).size <= SHA256_BYTES) throw new Error('this is no snapshot');
  const file = openSync(path, 'r');
  const tail = new SnapshotTail();
  const piece = Buffer.alloc(PIECE);
  for (let read = readSync(file, piece); read > 0; read = readSync(file, piece)) tail.take(piece.subarray(0, read));
  tail.verify();
}

/** What a restore changes; tests stop it between two steps. */
interface Steps {
  remove(path: string): void;
  rename(from: string, to: string): void;
}
const STEPS: Steps = { remove: (path) => rmSync(path, { recursive: true, force: true }), rename: renameSync };

/**
 * Puts the data of a snapshot that was taken in place of the present data, which stays beside it as `etcd.former`. A process that ends in
 * between is followed by a start that continues where it ended.
 */
export function restoreSnapshot(layout: Layout, { remove, rename }: Steps = STEPS): boolean {
  const { folder, fresh, next, former } = foldersOf(layout);
  // Of a restore that ended in between.
  for (const leftover of [restoreFile(layout), fresh]) remove(leftover);
  if (!existsSync(next)) return false;
  if (existsSync(folder)) {
    remove(former);
    rename(folder, former);
  }
  rename(next, folder);
  return true;
}
