import type { IncomingMessage } from 'node:http';
import { fileDigest, fileSize, openAppending, removePath } from '../system/disk.ts';
import { open, readAll, TransportError } from '../system/http.ts';
import { ReleaseError, type ReleaseFile } from './manifest.ts';

const SECOND = 1000;
/** until a response begins, and between two pieces of it */
const PATIENCE = 60 * SECOND;
/** Bytes per millisecond (16 kbit/s) that a response has to bring on the whole. */
const SLOWEST = 2;
const MAX_REDIRECTS = 5;
/** bytes of a manifest or its signature */
const SMALL = 64 * 1024;

/** A small file of a release; throws ReleaseError when there is none. */
export async function fetchSmall(url: string, signal: AbortSignal): Promise<Buffer> {
  const incoming = await get(url, {}, signal);
  if (incoming.statusCode === 200) return readAll(incoming, SMALL, PATIENCE);
  incoming.destroy();
  throw refused(url, incoming.statusCode);
}

/**
 * Makes a file of a release complete: continues what an earlier attempt left at `path`. A file that turns out to have other
 * content is removed. Throws ReleaseError when another attempt is of no use.
 */
export async function fetchFile(url: string, path: string, file: ReleaseFile, signal: AbortSignal): Promise<void> {
  if (fileSize(path) > file.size) removePath(path);
  if (fileSize(path) < file.size) await append(url, path, file, signal);
  if (fileSize(path) === file.size && (await fileDigest(path)) === file.sha256) return;
  removePath(path);
  throw new ReleaseError('a file of it does not have the digest that its manifest names');
}

async function append(url: string, path: string, { size }: ReleaseFile, signal: AbortSignal): Promise<void> {
  const before = fileSize(path);
  const incoming = await get(url, before > 0 ? { range: `bytes=${before}-` } : {}, signal);
  const { statusCode } = incoming;
  if (statusCode !== 200 && statusCode !== 206) {
    incoming.destroy();
    throw refused(url, statusCode);
  }
  // A server that does not know ranges sends the whole file.
  const continues = statusCode === 206 && contentStart(incoming) === before;
  if (!continues) removePath(path);
  if (statusCode === 206 && !continues && before > 0) {
    incoming.destroy();
    throw new TransportError('RANGE', `${hostOf(url)} sent another part than was asked for`);
  }
  const target = openAppending(path);
  const stalled = () => incoming.destroy(new TransportError('TIMEOUT', `${hostOf(url)} sends nothing, or too slowly`));
  const deadline = setTimeout(stalled, PATIENCE + (size - target.size) / SLOWEST);
  let timer = setTimeout(stalled, PATIENCE);
  try {
    for await (const piece of incoming as AsyncIterable<Buffer>) {
      clearTimeout(timer);
      timer = setTimeout(stalled, PATIENCE);
      if (target.size + piece.length > size) throw new ReleaseError('a file of it is larger than its manifest says');
      target.write(piece);
    }
  } finally {
    clearTimeout(timer);
    clearTimeout(deadline);
    target.close();
    incoming.destroy();
  }
  if (target.size < size) throw new TransportError('BROKEN', `${hostOf(url)} ended a file too early`);
}

async function get(url: string, headers: Record<string, string>, signal: AbortSignal): Promise<IncomingMessage> {
  let at = parsed(url);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const path = `${at.pathname}${at.search}`;
    const incoming = await open({ target: { origin: at }, method: 'GET', path, headers, deadline: PATIENCE, signal });
    const { statusCode = 0, headers: reply } = incoming;
    if (![301, 302, 303, 307, 308].includes(statusCode) || reply.location === undefined) return incoming;
    incoming.destroy();
    at = parsed(new URL(reply.location, at).href);
  }
  throw new ReleaseError(`${hostOf(url)} redirects in circles`);
}

function parsed(url: string): URL {
  const parsed = URL.parse(url);
  if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:')
    throw new ReleaseError('the place of releases is not an address that begins with http:// or https://');
  return parsed;
}

function contentStart({ headers }: IncomingMessage): number {
  return Number(/^bytes (\d+)-/.exec(headers['content-range'] ?? '')?.[1] ?? Number.NaN);
}

/** Responses that another attempt may change: the server is busy, broken, or asks for patience. */
function refused(url: string, status = 0): Error {
  const message = `${hostOf(url)} answered ${status}`;
  if (status >= 500 || status === 408 || status === 429) return new TransportError(String(status), message);
  return new ReleaseError(status === 404 ? `there is none at ${hostOf(url)}` : message);
}

/** An address may have a password in it or in its query. */
const hostOf = (url: string) => URL.parse(url)?.host ?? 'the place of releases';
