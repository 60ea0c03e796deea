import { createHash, type Hash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { SLOWEST, TransportError } from './http.ts';
import { openForWriting, readPieces, removeLink, statOf } from './tree.ts';

const SECOND = 1000;
/** ms without a byte after which a response is given up */
export const QUIET = 60 * SECOND;
/** The room on the disk is looked at after so many bytes. */
const LOOK_EVERY = 16 * 1024 * 1024;

/** What a file is checked against: its SHA-256, or the id of a git blob (SHA-1 with the size). */
export interface Checksum {
  algorithm: 'sha256' | 'git';
  value: string;
}

/** What a request asks for: a file from a byte on, as long as it is the one that the validator names. */
export interface FileRange {
  from: number;
  validator?: string;
}

/** A file at its source. */
export interface RemoteFile {
  /** its name, for messages */
  path: string;
  /** bytes, where the source tells */
  size?: number;
  /** known at the latest when `open` has answered */
  checksum?: Checksum;
  /** Begins to read it: the response has the status 200, 206 or 416. It may begin at the first byte whatever was asked for. */
  open(range: FileRange, signal: AbortSignal): Promise<IncomingMessage>;
}

export interface DownloadOptions {
  /** what the source called the content that the present bytes are from */
  validator?: string;
  /** The file begins at its first byte, under this entity tag. */
  onBegin?(tag: string | undefined): void;
  /** The file has so many bytes now. */
  onBytes?(bytes: number): void;
  /** Throws when no more bytes may be written. */
  checkRoom?(): Promise<void>;
  /** Waits until so many bytes more may arrive. */
  pace?(bytes: number, signal: AbortSignal): Promise<void>;
  /** ms without a byte after which a response is given up */
  quiet?: number;
}

/** The source gives another content than it announced: the same request would give it again. */
export class ContentError extends Error {
  override name = 'ContentError';
  readonly code: 'ChecksumMismatch' | 'Invalid';

  constructor(code: ContentError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

/** Headers that ask for the rest of a file. */
export function rangeHeaders({ from, validator }: FileRange): Record<string, string> {
  const identity = { 'accept-encoding': 'identity' };
  if (from === 0) return identity;
  // A weak validator does not say that the bytes are the same.
  const isStrong = validator !== undefined && !validator.startsWith('W/');
  return { ...identity, range: `bytes=${from}-`, ...(isStrong && { 'if-range': validator }) };
}

/**
 * Makes the file at `path` complete, on the disk and checked: goes on where an earlier attempt ended, also in another
 * process. Memory does not depend on its size. Throws ContentError where another attempt is of no use, TransportError where
 * the connection ended; what has arrived stays for the next attempt.
 */
export async function downloadTo(
  path: string,
  file: RemoteFile,
  options: DownloadOptions,
  signal: AbortSignal,
): Promise<{ sha256: string; size: number }> {
  const present = (await statOf(path))?.size ?? 0;
  const kept = file.size !== undefined && present > file.size ? 0 : present;
  try {
    return await attempt(path, kept, file, options, signal);
  } catch (error) {
    if (!(error instanceof ContentError) || error.code !== 'ChecksumMismatch') throw error;
    await removeLink(path);
    if (kept === 0) throw error;
    // The beginning may be what a crash left, or that of another content.
    return attempt(path, 0, file, options, signal);
  }
}

async function attempt(path: string, kept: number, file: RemoteFile, options: DownloadOptions, signal: AbortSignal) {
  const writer = await Writer.open(path, kept, file);
  try {
    options.onBytes?.(writer.size);
    if (file.size === undefined || writer.size < file.size) {
      const response = await file.open({ from: writer.size, validator: options.validator }, signal);
      if ((await begin(response, writer, file)) === 0) options.onBegin?.(response.headers.etag);
      await receive(response, writer, file, options, signal);
    }
    const result = await writer.end();
    check(file, result);
    return { sha256: result.sha256, size: result.size };
  } finally {
    await writer.close();
  }
}

/** Returns where the response begins: at the end of what is there, or at the first byte. */
async function begin(response: IncomingMessage, writer: Writer, file: RemoteFile): Promise<number> {
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
    throw new ContentError('Invalid', `${file.path} has ${length} bytes, and ${file.size} were announced`);
  }
  response.destroy();
  throw new TransportError('RANGE', `${file.path}: the range that was asked for is not what was answered`);
}

async function receive(
  response: IncomingMessage,
  writer: Writer,
  file: RemoteFile,
  { pace, checkRoom, onBytes, quiet = QUIET }: DownloadOptions,
  signal: AbortSignal,
): Promise<void> {
  const source = response[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const first = writer.size;
  let looked = first;
  let waited = 0;
  const silent = () =>
    response.destroy(new TransportError('TIMEOUT', `${file.path}: its sender is silent, or too slow`));
  try {
    for (;;) {
      // Time that the pace or the disk takes is not the sender's.
      const began = performance.now();
      const left = quiet + (writer.size - first) / SLOWEST - waited;
      const timer = setTimeout(silent, Math.min(quiet, left));
      const { value, done } = await source.next().finally(() => clearTimeout(timer));
      if (done) break;
      waited += performance.now() - began;
      if (file.size !== undefined && writer.size + value.length > file.size)
        throw new ContentError('Invalid', `${file.path} has more than the ${file.size} bytes that were announced`);
      await writer.write(value);
      onBytes?.(writer.size);
      if (writer.size - looked >= LOOK_EVERY) {
        looked = writer.size;
        await checkRoom?.();
      }
      await pace?.(value.length, signal);
      signal.throwIfAborted();
    }
  } finally {
    response.destroy();
  }
  if (!response.complete || (file.size !== undefined && writer.size < file.size))
    throw new TransportError('BROKEN', `${file.path}: the connection broke after ${writer.size} bytes`);
}

/**
 * Throws where the content is not the announced one. No message names its checksum: a source can lead to what only this machine
 * may read, and the checksum of a few bytes gives them away.
 */
function check({ path, checksum, size }: RemoteFile, found: { sha256: string; git: string; size: number }): void {
  if (size !== undefined && found.size !== size)
    throw new ContentError('ChecksumMismatch', `${path} has ${found.size} bytes, and ${size} were announced`);
  if (!checksum || found[checksum.algorithm] === checksum.value) return;
  throw new ContentError('ChecksumMismatch', `${path} does not have the checksum ${checksum.value} that was announced`);
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
  static async open(path: string, keep: number, { checksum, size }: RemoteFile): Promise<Writer> {
    const gitSize = checksum?.algorithm === 'git' ? size : undefined;
    const writer = new Writer(await openForWriting(path, keep), gitSize);
    try {
      for await (const piece of readPieces(path, keep)) writer.#add(piece);
    } catch (error) {
      await writer.close();
      throw error;
    }
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
