import { once } from 'node:events';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';

/** Sends a file, or its rest. It is opened once: what is there under its name later changes nothing. */

/** After which a client that takes nothing loses its connection. */
const STALLED_MS = 30_000;
/** A client that takes less loses its connection as well, in the end. */
const SLOWEST_BYTES_PER_MS = 16;
const PIECE_BYTES = 64 * 1024;

/** Returns whether there is such a file. Rejects when it was not sent to its end; the response is then to be destroyed. */
export async function sendFile(path: string, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
  // Without O_NONBLOCK, to open a pipe waits for its writer.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(() => undefined);
  try {
    const stat = await handle?.stat();
    if (!handle || !stat?.isFile()) return false;
    const { size, mtimeMs } = stat;
    const etag = `"${mtimeMs.toString(36)}-${size.toString(36)}"`;
    const from = startOf(request.headers, etag);
    const headers = { etag, 'accept-ranges': 'bytes', 'content-type': 'application/octet-stream' };
    if (from >= size && from > 0) {
      response.writeHead(416, { 'content-range': `bytes */${size}`, 'content-length': 0 }).end();
      return true;
    }
    const range = from > 0 && { 'content-range': `bytes ${from}-${size - 1}/${size}` };
    response.writeHead(from > 0 ? 206 : 200, { ...headers, ...range, 'content-length': size - from });
    if (request.method === 'HEAD') response.end();
    else await sendPieces({ handle, from, size, request, response });
    return true;
  } finally {
    await handle?.close();
  }
}

/** Where the client wants to begin. It holds a beginning of this file, or of another one that had the name before. */
function startOf(headers: IncomingMessage['headers'], etag: string): number {
  const held = headers['if-range'];
  if (held !== undefined && held !== etag) return 0;
  return Number(/^bytes=(\d{1,15})-$/.exec(headers.range ?? '')?.[1] ?? 0);
}

interface Sending {
  handle: FileHandle;
  from: number;
  size: number;
  request: IncomingMessage;
  response: ServerResponse;
}

async function sendPieces({ handle, from, size, request, response }: Sending): Promise<void> {
  // A response that waits for an earlier one on its connection says neither that this is gone nor that it stalls.
  const { socket } = request;
  const ending = new AbortController();
  const { signal } = ending;
  const end = () => ending.abort();
  const deadline = setTimeout(end, STALLED_MS + (size - from) / SLOWEST_BYTES_PER_MS);
  socket.once('close', end);
  if (socket.destroyed) end();
  response.setTimeout(STALLED_MS, end);
  try {
    for (let at = from; at < size; ) {
      const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, size - at));
      const { bytesRead } = await handle.read(piece, 0, piece.length, at);
      if (bytesRead === 0) throw new Error('the file became shorter while it was sent');
      at += bytesRead;
      signal.throwIfAborted();
      if (!response.write(piece.subarray(0, bytesRead))) await once(response, 'drain', { signal });
    }
    signal.throwIfAborted();
    response.end();
    await once(response, 'finish', { signal });
  } finally {
    clearTimeout(deadline);
    socket.off('close', end);
  }
}
