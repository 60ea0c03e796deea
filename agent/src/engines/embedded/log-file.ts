import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { lastLines } from '../../domain/last-lines.ts';
import type { LogLine, LogOptions } from '../../engine-port/logs.ts';

/** Reads and bounds the log of a container: a file that containerd writes, and the file before it. */

const PIECE = 256 * 1024;
/** Characters of a line; more are cut. */
const LINE_LIMIT = 64 * 1024;
const LOOK_EVERY = 100;
/** Bytes that are kept of a log that grew beyond its size, and that are copied at once. */
const KEPT = 16 * 1024 * 1024;
const COPY_PIECE = 1024 * 1024;

/** The file that was written before the present file. */
const previous = (path: string) => `${path}.1`;

/** Lines of a log, with `follow` until the container has ended. */
export async function* readLogFiles(
  path: string,
  options: LogOptions,
  isRunning: () => Promise<boolean>,
  signal?: AbortSignal,
): AsyncGenerator<LogLine> {
  const { tail, since = -Infinity, until = Infinity, follow } = options;
  const isAsked = ({ ts }: LogLine) => {
    const at = Date.parse(ts);
    return at >= since && at <= until;
  };
  const files = openFiles(path);
  try {
    const lines = new LineReader();
    async function* present(): AsyncGenerator<LogLine> {
      for (const file of files)
        for (const piece of piecesOf(file)) {
          for (const line of lines.add(piece)) if (isAsked(line)) yield line;
          // A log may have a GiB of which nothing is asked for.
          await nextTurn();
        }
    }
    if (tail === Infinity) yield* present();
    else yield* await lastLines(present(), tail);
    if (!follow || until < Date.now()) return;
    for (let isLast = false; !isLast; ) {
      signal?.throwIfAborted();
      // What was written before the container ended is in the file when its end is known.
      isLast = !(await isRunning());
      yield* present();
      // A file that was replaced has been read to its end; the next one is read from its beginning.
      for (const next = openNext(path, files); next; ) {
        files.push(next);
        yield* present();
        // Open, it would keep its place on the disk.
        for (const { descriptor } of files.splice(0, files.length - 1)) closeSync(descriptor);
        break;
      }
      if (!isLast) await sleep(LOOK_EVERY, undefined, { signal });
    }
  } finally {
    for (const { descriptor } of files) closeSync(descriptor);
  }
}

interface OpenFile {
  descriptor: number;
  inode: number;
  at: number;
}

function openFiles(path: string): OpenFile[] {
  return [previous(path), path].flatMap((each) => openFile(each) ?? []);
}

function openFile(path: string): OpenFile | undefined {
  try {
    const descriptor = openSync(path, 'r');
    return { descriptor, inode: fstatSync(descriptor).ino, at: 0 };
  } catch {
    return undefined;
  }
}

/** The file at the path, where it is another one than those that are open. */
function openNext(path: string, files: readonly OpenFile[]): OpenFile | undefined {
  const next = openFile(path);
  if (next && files.every(({ inode }) => inode !== next.inode)) return next;
  if (next) closeSync(next.descriptor);
  return undefined;
}

function* piecesOf(file: OpenFile): Generator<Buffer> {
  const buffer = Buffer.allocUnsafe(PIECE);
  for (;;) {
    const length = readSync(file.descriptor, buffer, 0, PIECE, file.at);
    if (length === 0) return;
    file.at += length;
    yield buffer.subarray(0, length);
  }
}

/** Joins pieces of a log to lines: `time stream F|P text`, of which P says that the line continues in the next row of its stream. */
export class LineReader {
  #rest = Buffer.alloc(0);
  readonly #parts: Record<LogLine['stream'], { ts: string; pieces: Buffer[] } | undefined> = {
    stdout: undefined,
    stderr: undefined,
  };

  *add(piece: Buffer): Generator<LogLine> {
    let bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, piece]) : piece;
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10)) {
      const line = this.#line(bytes.subarray(0, end));
      bytes = bytes.subarray(end + 1);
      if (line) yield line;
    }
    this.#rest = Buffer.from(bytes);
  }

  #line(bytes: Buffer): LogLine | undefined {
    const [, ts = '', stream, tag] =
      /^(\S{1,40}) (stdout|stderr) ([FP]) /.exec(bytes.subarray(0, 64).toString('latin1')) ?? [];
    if (stream !== 'stdout' && stream !== 'stderr') return undefined;
    const content = Buffer.from(bytes.subarray(ts.length + stream.length + 4));
    const open = this.#parts[stream] ?? { ts, pieces: [] };
    open.pieces.push(content);
    const length = open.pieces.reduce((sum, each) => sum + each.length, 0);
    this.#parts[stream] = tag === 'P' && length < LINE_LIMIT ? open : undefined;
    if (this.#parts[stream]) return undefined;
    const text = Buffer.concat(open.pieces).toString('utf8').replace(/\r$/, '');
    return { ts: open.ts, stream, line: text };
  }
}

interface LogBound {
  /** of each of the two files */
  bytes: number;
  isRunning: boolean;
  /** has containerd open the log again */
  reopen: () => Promise<void>;
}

/**
 * Begins another file where the log has reached its size. An agent that was killed here may have left no file at all, and
 * containerd then writes to the one before.
 */
export async function boundLog(path: string, { bytes, isRunning, reopen }: LogBound): Promise<void> {
  const isLost = isRunning && !existsSync(path);
  if (!isLost && sizeOf(path) < bytes) return;
  if (!isLost) replaceLog(path, bytes);
  await reopen();
}

/** Makes the log the one before. A log that grew beyond its size meanwhile loses its beginning. */
function replaceLog(path: string, bytes: number): void {
  const size = sizeOf(path);
  if (size <= 1.25 * bytes) {
    renameSync(path, previous(path));
    return;
  }
  // The kept end of the log needs room, which a full disk has only without the file before.
  rmSync(previous(path), { force: true });
  // Who follows the log still has the whole file.
  const cut = `${path}.cut`;
  try {
    copyEnd(path, cut, Math.min(size, bytes, KEPT));
    renameSync(cut, previous(path));
  } catch {
    // The disk is full: room is worth more than lines.
    rmSync(cut, { force: true });
  }
  rmSync(path, { force: true });
}

/** Copies so many last bytes of a file, from the beginning of a line on. */
function copyEnd(from: string, to: string, bytes: number): void {
  const source = openSync(from, 'r');
  try {
    const target = openSync(to, 'w', 0o640);
    try {
      const buffer = Buffer.allocUnsafe(COPY_PIECE);
      const start = fstatSync(source).size - bytes;
      for (let done = 0; done < bytes; ) {
        const length = readSync(source, buffer, 0, Math.min(COPY_PIECE, bytes - done), start + done);
        if (length === 0) break;
        const piece = buffer.subarray(0, length);
        writeFileSync(target, done === 0 ? piece.subarray(piece.indexOf(10) + 1) : piece);
        done += length;
      }
    } finally {
      closeSync(target);
    }
  } finally {
    closeSync(source);
  }
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}
