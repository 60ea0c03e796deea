import type { IncomingMessage } from 'node:http';
import { readAll, TransportError } from '../system/http.ts';
import { ArtifactError } from './error.ts';

const SECOND = 1000;
/** ms without a byte after which a response is given up */
export const QUIET = 60 * SECOND;
const LONGEST_RETRY_AFTER = 600 * SECOND;

/** One file of an artifact, at its source. */
export interface SourceFile {
  /** below the artifact's directory */
  path: string;
  /** bytes, where the source tells */
  size?: number;
  checksum?: Checksum;
  /** names the content at its source, so that a partial download of it is found again */
  identity: string;
  /** Begins to read it. A response that does not begin at `from` begins at the first byte. */
  open(range: { from: number; validator?: string }, signal: AbortSignal): Promise<IncomingMessage>;
}

/** What a file is checked against: its SHA-256, or the id of a git blob (SHA-1 with the size). */
export interface Checksum {
  algorithm: 'sha256' | 'git';
  value: string;
}

/** What the revision of an artifact means now. */
export interface Resolved {
  /** a manifest digest, or a commit */
  revision: string;
  /** whether the asked revision is a name that may mean other content later */
  floating: boolean;
  files: SourceFile[];
}

/** Headers that ask for the rest of a file. */
export function rangeHeaders({ from, validator }: { from: number; validator?: string }): Record<string, string> {
  const identity = { 'accept-encoding': 'identity' };
  if (from === 0) return identity;
  // A weak validator does not say that the bytes are the same.
  const isStrong = validator !== undefined && !validator.startsWith('W/');
  return { ...identity, range: `bytes=${from}-`, ...(isStrong && { 'if-range': validator }) };
}

/** Throws for a status that says that there is no content; `what` names what was asked for. */
export async function expectContent(response: IncomingMessage, what: string): Promise<void> {
  const { statusCode: status = 0, headers } = response;
  if (status === 200 || status === 206 || status === 416) return;
  const text = await readAll(response, 64 * 1024, 10 * SECOND).catch(() => Buffer.alloc(0));
  const said = /"(?:message|error)"\s*:\s*"([^"\\]{1,200})"/.exec(text.toString('utf8'))?.[1];
  const message = `${what}: status ${status}${said ? ` (${said})` : ''}`;
  if (status === 404 || status === 410) throw new ArtifactError('NotFound', `${what} does not exist`);
  if (status === 401 || status === 403) throw new ArtifactError('Unauthorized', message);
  const retryAfter = retryAfterOf(headers['retry-after']);
  if (status === 429) throw new ArtifactError('TooManyRequests', message, { retryAfter });
  throw new ArtifactError(status >= 500 || status === 408 ? 'Unavailable' : 'Invalid', message, { retryAfter });
}

function retryAfterOf(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const delay = /^\d+$/.test(header) ? Number(header) * SECOND : Date.parse(header) - Date.now();
  return Number.isFinite(delay) ? Math.min(Math.max(delay, 0), LONGEST_RETRY_AFTER) : undefined;
}

/** A JSON document of at most `limit` bytes, with its bytes. */
export async function readDocument(
  response: IncomingMessage,
  what: string,
  limit: number,
): Promise<{ bytes: Buffer; value: unknown }> {
  await expectContent(response, what);
  try {
    const bytes = await readAll(response, limit, QUIET);
    return { bytes, value: JSON.parse(bytes.toString('utf8')) };
  } catch (error) {
    if (error instanceof SyntaxError) throw new ArtifactError('Invalid', `${what} is no JSON`, { cause: error });
    if (error instanceof TransportError && error.code === 'TOO_LARGE')
      throw new ArtifactError('Invalid', `${what} is larger than ${limit} bytes`, { cause: error });
    throw new ArtifactError('Unavailable', `${what}: ${(error as Error).message}`, { cause: error });
  }
}
