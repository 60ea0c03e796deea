import type { IncomingMessage } from 'node:http';
import busboy from 'busboy';
import { jsonExcess } from '../api/json.ts';
import { HttpError, invalid } from './errors.ts';
import type { Body } from './route.ts';
import { requireTexts } from './text.ts';

export interface BodyLimits {
  bodyBytes: number;
  jsonDepth: number;
}

/** What a request carries: a JSON value (undefined when there is none), or the text of a file. */
export type RawBody = { json: unknown } | { file: string };

const YAML_TYPES = ['application/x-yaml', 'application/yaml', 'text/yaml', 'text/x-yaml', 'text/vnd.yaml'];

/** Told of each piece of a body that arrives, whatever becomes of it; throws when there is no room for it. */
export type Arriving = (bytes: number) => void;

/** Reads the body that a route wants, and no byte more than allowed. */
export async function readBody(
  request: IncomingMessage,
  body: Body,
  limits: BodyLimits,
  arriving: Arriving,
): Promise<RawBody> {
  const type = mediaType(request);
  if (body.kind === 'file') {
    if (YAML_TYPES.includes(type)) return { file: decode(await readAll(request, limits.bodyBytes, arriving)) };
    if (type === 'multipart/form-data')
      return { file: decode(await readPart(request, body.part, limits.bodyBytes, arriving)) };
    if (type === '' && !hasBody(request)) throw fileMissing(body.part);
    throw unsupported(`send a multipart form with the file part "${body.part}", or an application/x-yaml body`);
  }
  const bytes = await readAll(request, limits.bodyBytes, arriving);
  if (bytes.length === 0) return { json: undefined };
  if (type !== 'application/json' && !type.endsWith('+json') && type !== '')
    throw unsupported('send the body as application/json');
  return { json: parseJson(decode(bytes), limits.jsonDepth) };
}

function mediaType(request: IncomingMessage): string {
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') throw unsupported('compressed bodies are not read');
  return (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

const hasBody = (request: IncomingMessage) =>
  request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;

const unsupported = (message: string) => new HttpError(415, 'UNSUPPORTED_MEDIA_TYPE', message);
const tooLarge = (limit: number) =>
  // What is left of the body is not read: the connection cannot be used again.
  new HttpError(413, 'PAYLOAD_TOO_LARGE', `the body exceeds ${limit} bytes`, { headers: { connection: 'close' } });
const fileMissing = (part: string) => invalid(`the file part "${part}" is missing`, 'FILE_NOT_FOUND');
const endedEarly = () => invalid('the request ended early');
const severalParts = (part: string) => invalid(`send one part only, the file "${part}"`);

/**
 * The whole body. One that is too large is still received, up to a point, and thrown away: who is cut off in the middle
 * of sending sees a broken connection and not the answer.
 */
async function readAll(request: IncomingMessage, limit: number, arriving: Arriving): Promise<Buffer> {
  refuseHuge(request, limit);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.length;
      arriving(chunk.length);
      if (size <= limit) chunks.push(chunk);
      else chunks.length = 0;
      if (size > limit * PATIENCE) throw tooLarge(limit);
    }
  } catch (error) {
    throw error instanceof HttpError ? error : endedEarly();
  }
  if (size > limit) throw tooLarge(limit);
  return Buffer.concat(chunks, size);
}

/** How many times the limit is received before the connection is cut. */
const PATIENCE = 16;

function refuseHuge(request: IncomingMessage, limit: number): void {
  if (Number(request.headers['content-length'] ?? 0) > limit * PATIENCE) throw tooLarge(limit);
}

/** The one file of a multipart form. Other parts are an error: they would be ignored, and their sender would not know. */
function readPart(request: IncomingMessage, part: string, limit: number, arriving: Arriving): Promise<Buffer> {
  refuseHuge(request, limit);
  return new Promise((resolve, reject) => {
    let parser: busboy.Busboy;
    try {
      parser = busboy({
        headers: request.headers,
        limits: { files: 2, fields: 1, parts: 2, fileSize: limit, headerPairs: 32, fieldNameSize: 64, fieldSize: 1 },
      });
    } catch {
      return reject(invalid('the multipart form is malformed'));
    }
    let found: Promise<Buffer> | undefined;
    const fail = (error: Error) => {
      request.unpipe(parser);
      request.resume();
      reject(error);
    };
    parser.on('file', (name, stream) => {
      if (found || name !== part) {
        stream.resume();
        return fail(found ? severalParts(part) : fileMissing(part));
      }
      found = (async () => {
        const chunks: Buffer[] = [];
        for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk);
        if (stream.truncated) throw tooLarge(limit);
        return Buffer.concat(chunks);
      })();
      found.catch(fail);
    });
    parser.on('field', () => fail(found ? severalParts(part) : fileMissing(part)));
    parser.on('error', () => fail(invalid('the multipart form is malformed')));
    parser.on('close', () => (found ? found.then(resolve, fail) : fail(fileMissing(part))));
    request.on('error', () => fail(endedEarly()));
    request.on('aborted', () => fail(endedEarly()));
    request.on('data', (chunk: Buffer) => {
      try {
        arriving(chunk.length);
      } catch (error) {
        fail(error as Error);
      }
    });
    request.pipe(parser);
  });
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw invalid('the body is not UTF-8');
  }
}

/** Parses JSON that is no deeper than `depth` and has no more elements than any message needs; a member called `__proto__` is data like any other and is dropped. */
export function parseJson(text: string, depth: number): unknown {
  const excess = jsonExcess(text, { depth });
  if (excess) throw invalid(`the body ${excess}`);
  let value: unknown;
  try {
    value =
      text.includes('"__proto__"') || ESCAPED_PROTO.test(text)
        ? JSON.parse(text, (key, member) => (key === '__proto__' ? undefined : member))
        : JSON.parse(text);
  } catch {
    throw invalid('the body is not valid JSON', 'MALFORMED_JSON');
  }
  if (ESCAPED_ODDITY.test(text)) requireTexts(value, 'the body');
  return value;
}

/** Any letter of `__proto__` may be written as an escape. */
const ESCAPED_PROTO = /\\u00(5f|70|72|6f|74)/i;
/** Only as an escape can JSON in UTF-8 hold these. */
const ESCAPED_ODDITY = /\\u(0000|d[89a-f])/i;
