import type { IncomingMessage } from 'node:http';
import type { z } from 'zod';
import { QUIET, type RemoteFile } from '../../machine/download.ts';
import { readAll, TransportError } from '../../machine/http.ts';
import { isForeign } from '../registries/client.ts';
import { ArtifactError } from './error.ts';
import type { ArchiveForm } from './unpack.ts';

const SECOND = 1000;
const LONGEST_RETRY_AFTER = 600 * SECOND;

/** One file of an artifact, at its source; its path is below the artifact's directory. */
export interface SourceFile extends RemoteFile {
  /** names the content at its source, so that a partial download of it is found again */
  identity: string;
  /** an archive: what is in it are the files, below the artifact's directory */
  archive?: ArchiveForm;
}

/** What the revision of an artifact means now. */
export interface Resolved {
  /** a manifest digest, or a commit */
  revision: string;
  /** whether the asked revision is a name that may mean other content later */
  floating: boolean;
  files: SourceFile[];
}

/** Throws for a status that says that there is no content; `what` names what was asked for. */
export async function expectContent(response: IncomingMessage, what: string): Promise<void> {
  const { statusCode: status = 0, headers } = response;
  if (status === 200 || status === 206 || status === 416) return;
  const text = await readAll(response, 64 * 1024, 10 * SECOND).catch(() => Buffer.alloc(0));
  const said = isForeign(response)
    ? undefined
    : /"(?:message|error)"\s*:\s*"([^"\\]{1,200})"/.exec(text.toString('utf8'))?.[1];
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

/** Parses what a source has sent. Throws ArtifactError, which names the first violation; `what` names the document. */
export function parseDocument<T extends z.ZodType>(schema: T, value: unknown, what: string): z.infer<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const wrong = result.error.issues[0];
  throw new ArtifactError('Invalid', `${what} cannot be read: ${wrong?.path.join('.')}: ${wrong?.message}`);
}

/** A JSON document of at most `limit` bytes, with its bytes. */
export async function readJsonDocument(
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
