import type { IncomingMessage } from 'node:http';
import { ContentError, downloadTo, QUIET, rangeHeaders } from '../machine/download.ts';
import { open, readAll, TransportError } from '../machine/http.ts';
import { ReleaseError, type ReleaseFile } from './manifest.ts';

const MAX_REDIRECTS = 5;
/** ms; a server that asks for more patience is asked again after this */
const MOST_PATIENCE = 300_000;
/** bytes of a manifest or its signature */
const SMALL = 64 * 1024;

/** How servers are reached; what belongs to one of them goes to no other, also after a redirect. */
export type AccessTo = (origin: URL) => { ca?: string; insecure?: boolean; authorization?: string };

/** The server is busy and says when to ask again. */
export class BusyError extends TransportError {
  override name = 'BusyError';
  /** ms */
  readonly retryAfter: number;
  constructor(status: number, message: string, retryAfter: number) {
    super(String(status), message);
    this.retryAfter = Math.min(retryAfter, MOST_PATIENCE);
  }
}

/** A small file of a release; throws ReleaseError when there is none. */
export async function fetchSmall(url: string, accessTo: AccessTo, signal: AbortSignal): Promise<Buffer> {
  return readAll(await get(url, {}, accessTo, signal), SMALL, QUIET);
}

/**
 * Makes a file of a release complete: goes on where an earlier attempt ended. Throws ReleaseError when another attempt is of
 * no use.
 */
export async function fetchFile(
  { name, size, sha256, url }: ReleaseFile & { name: string; url: string },
  path: string,
  accessTo: AccessTo,
  signal: AbortSignal,
): Promise<void> {
  const file = {
    path: `its file ${name}`,
    size,
    checksum: { algorithm: 'sha256', value: sha256 },
    open: (range, until) => get(url, rangeHeaders(range), accessTo, until),
  } satisfies Parameters<typeof downloadTo>[1];
  try {
    await downloadTo(path, file, {}, signal);
  } catch (error) {
    throw error instanceof ContentError ? new ReleaseError(error.message, { cause: error }) : error;
  }
}

/** A response with content, after redirects. */
async function get(
  url: string,
  asked: Record<string, string>,
  accessTo: AccessTo,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  let at = parsed(url);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const path = `${at.pathname}${at.search}`;
    const { ca, insecure, authorization } = accessTo(at);
    const headers = { ...asked, ...(authorization !== undefined && { authorization }) };
    const target = { origin: at, ...(ca !== undefined && { ca }), ...(insecure && { insecure }) };
    const incoming = await open({ target, method: 'GET', path, headers, deadline: QUIET, signal });
    const { statusCode = 0, headers: reply } = incoming;
    if (statusCode === 200 || ('range' in asked && (statusCode === 206 || statusCode === 416))) return incoming;
    incoming.destroy();
    if (![301, 302, 303, 307, 308].includes(statusCode) || reply.location === undefined)
      throw refused(at.href, statusCode, reply['retry-after']);
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

/** Responses that another attempt may change: the server is busy, broken, or asks for patience. */
function refused(url: string, status: number, retryAfter: string | undefined): Error {
  const message = `${hostOf(url)} answered ${status}`;
  const seconds = /^\d{1,9}$/.test(retryAfter ?? '') ? Number(retryAfter) : undefined;
  if (seconds !== undefined && (status === 503 || status === 429))
    return new BusyError(status, message, seconds * 1000);
  if (status >= 500 || status === 408 || status === 429) return new TransportError(String(status), message);
  return new ReleaseError(status === 404 ? `there is none at ${hostOf(url)}` : message);
}

/** An address may have a password in it or in its query. */
const hostOf = (url: string) => URL.parse(url)?.host ?? 'the place of releases';
