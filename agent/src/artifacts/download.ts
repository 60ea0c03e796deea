import { createHash, type Hash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { type Clock, jitter, pause, type Random } from '../domain/clock.ts';
import { TransportError } from '../system/http.ts';
import { openForWriting, readPieces } from '../system/tree.ts';
import { ArtifactError, toArtifactError } from './error.ts';
import type { Pace } from './pace.ts';
import { QUIET, type SourceFile } from './source.ts';
import type { ArtifactStore, Partial } from './store.ts';

const SECOND = 1000;
/** Attempts in a row that bring no byte, until the pull fails. */
const ATTEMPTS = 4;
/** The disk is looked at after so many bytes. */
const LOOK_EVERY = 16 * 1024 * 1024;

export interface DownloadDependencies {
  store: ArtifactStore;
  clock: Clock;
  random: Random;
  pace: Pick<Pace, 'take'>;
  /** the artifact that the file is for */
  owner: string;
  /** A content is part of what is pulled: it stays in the store until the pull has ended. */
  claim(sha256: string): void;
  /** Throws when no more bytes may be written. */
  checkRoom(): Promise<void>;
  /** The download has so many bytes now. */
  onBytes(bytes: number): void;
  /** ms without a byte after which a response is given up */
  quiet?: number;
}

/**
 * Brings one file into the store and returns its SHA-256 and size. Memory does not depend on its size. A download that was
 * cut goes on where it ended, also in another process; its bytes are checked before they count.
 */
export async function download(
  file: SourceFile,
  deps: DownloadDependencies,
  signal: AbortSignal,
): Promise<{ sha256: string; size: number }> {
  const present = await presentIn(deps, file);
  if (present) {
    deps.onBytes(present.size);
    return present;
  }
  const partial = deps.store.partial(file.identity);
  // Without a checksum nothing would show that the beginning is that of other content, or was not written.
  if (!file.checksum) partial.discard();
  const resumed = partial.size > 0;
  try {
    return await attempts(file, partial, deps, signal);
  } catch (error) {
    if (!(error instanceof ArtifactError) || error.code !== 'ChecksumMismatch') throw error;
    partial.discard();
    if (!resumed) throw error;
    // The beginning may be what a crash left.
    return attempts(file, partial, deps, signal);
  }
}

async function presentIn({ store, claim }: DownloadDependencies, { checksum }: SourceFile) {
  if (checksum?.algorithm !== 'sha256') return undefined;
  claim(checksum.value);
  const size = await store.sizeOf(checksum.value);
  return size === undefined ? undefined : { sha256: checksum.value, size };
}

async function attempts(file: SourceFile, partial: Partial, deps: DownloadDependencies, signal: AbortSignal) {
  const { clock, random } = deps;
  for (let futile = 0; ; ) {
    const before = partial.size;
    try {
      return await attempt(file, partial, deps, signal);
    } catch (error) {
      signal.throwIfAborted();
      const problem = toArtifactError(error);
      futile = partial.size > before ? 1 : futile + 1;
      if (!problem.isTransient || futile >= ATTEMPTS) throw problem;
      await pause(clock, Math.max(problem.retryAfter ?? 0, jitter(SECOND * 2 ** (futile - 1), random)), signal);
      signal.throwIfAborted();
    }
  }
}

async function attempt(file: SourceFile, partial: Partial, deps: DownloadDependencies, signal: AbortSignal) {
  const kept = file.size !== undefined && partial.size > file.size ? 0 : partial.size;
  const writer = await Writer.open(partial.path, kept, file, deps);
  try {
    if (file.size === undefined || writer.size < file.size) {
      const range = { from: writer.size, validator: partial.note?.validator };
      const response = await file.open(range, signal);
      const from = await begin(response, writer, file);
      if (from === 0) partial.begin({ validator: response.headers.etag, owner: deps.owner });
      await receive(response, writer, file, deps, signal);
    }
    const result = await writer.end();
    check(file, result);
    deps.claim(result.sha256);
    await partial.finish({ owner: deps.owner, sha256: result.sha256 });
    return { sha256: result.sha256, size: result.size };
  } finally {
    await writer.close();
  }
}

/** Returns where the response begins: at the end of what is there, or at the first byte. */
async function begin(response: IncomingMessage, writer: Writer, file: SourceFile): Promise<number> {
  const { statusCode, headers } = response;
  if (statusCode === 206) {
    const [, from, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers['content-range'] ?? '') ?? [];
    const isRest = Number(from) === writer.size;
    if (isRest && (file.size === undefined || total === '*' || Number(total) === file.size)) return writer.size;
  }
  await writer.restart();
  if (statusCode === 200) {
    const length = Number(headers['content-length'] ?? file.size);
    if (file.size === undefined || !Number.isFinite(length) || length === file.size) return 0;
    response.destroy();
    throw new ArtifactError('Invalid', `${file.path} has ${length} bytes, and ${file.size} were announced`);
  }
  response.destroy();
  throw new ArtifactError('Unavailable', `${file.path}: the range that was asked for is not what was answered`);
}

async function receive(
  response: IncomingMessage,
  writer: Writer,
  file: SourceFile,
  { pace, checkRoom, onBytes, quiet = QUIET }: DownloadDependencies,
  signal: AbortSignal,
): Promise<void> {
  const source = response[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let looked = writer.size;
  const silent = () =>
    response.destroy(new TransportError('TIMEOUT', `${file.path}: nothing arrived for ${quiet / SECOND} s`));
  try {
    for (;;) {
      // Time that the pace or the disk takes does not count as silence of the sender.
      const timer = setTimeout(silent, quiet);
      const { value, done } = await source.next().finally(() => clearTimeout(timer));
      if (done) break;
      if (file.size !== undefined && writer.size + value.length > file.size)
        throw new ArtifactError('Invalid', `${file.path} has more than the ${file.size} bytes that were announced`);
      await writer.write(value);
      onBytes(writer.size);
      if (writer.size - looked >= LOOK_EVERY) {
        looked = writer.size;
        await checkRoom();
      }
      await pace.take(value.length, signal);
      signal.throwIfAborted();
    }
  } finally {
    response.destroy();
  }
  if (!response.complete || (file.size !== undefined && writer.size < file.size))
    throw new ArtifactError('Unavailable', `${file.path}: the connection broke after ${writer.size} bytes`);
}

function check({ path, checksum, size }: SourceFile, found: { sha256: string; git: string; size: number }): void {
  if (size !== undefined && found.size !== size)
    throw new ArtifactError('ChecksumMismatch', `${path} has ${found.size} bytes, and ${size} were announced`);
  if (!checksum || found[checksum.algorithm] === checksum.value) return;
  throw new ArtifactError(
    'ChecksumMismatch',
    `${path} has the checksum ${found[checksum.algorithm]}, and ${checksum.value} was announced`,
  );
}

/** A file that is written from its end on, with the checksums of all of it. */
class Writer {
  readonly #file: FileHandle;
  readonly #gitSize: number | undefined;
  #size = 0;
  #sha256: Hash = createHash('sha256');
  #git: Hash | undefined;

  private constructor(file: FileHandle, gitSize: number | undefined) {
    this.#file = file;
    this.#gitSize = gitSize;
    this.#reset();
  }

  /** Opens a file, keeps its first bytes, and reads them for the checksums. */
  static async open(path: string, keep: number, file: SourceFile, deps: DownloadDependencies): Promise<Writer> {
    const gitSize = file.checksum?.algorithm === 'git' ? file.size : undefined;
    const writer = new Writer(await openForWriting(path, keep), gitSize);
    try {
      for await (const piece of readPieces(path, keep)) writer.#add(piece);
    } catch (error) {
      await writer.close();
      throw error;
    }
    deps.onBytes(writer.size);
    return writer;
  }

  get size(): number {
    return this.#size;
  }

  async write(piece: Buffer): Promise<void> {
    let written = 0;
    while (written < piece.length)
      written += (await this.#file.write(piece, written, piece.length - written, this.#size + written)).bytesWritten;
    this.#add(piece);
  }

  async restart(): Promise<void> {
    await this.#file.truncate(0);
    this.#reset();
  }

  /** Waits until everything is on the disk. */
  async end(): Promise<{ sha256: string; git: string; size: number }> {
    await this.#file.sync();
    return { sha256: this.#sha256.digest('hex'), git: this.#git?.digest('hex') ?? '', size: this.#size };
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  #add(piece: Buffer): void {
    this.#sha256.update(piece);
    this.#git?.update(piece);
    this.#size += piece.length;
  }

  #reset(): void {
    this.#size = 0;
    this.#sha256 = createHash('sha256');
    this.#git = this.#gitSize === undefined ? undefined : createHash('sha1').update(`blob ${this.#gitSize}\0`);
  }
}
