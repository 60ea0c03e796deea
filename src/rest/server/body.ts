import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import busboy from 'busboy';
import { duplicateKey } from '../../api/duplicate-key.ts';
import { jsonExcess } from '../../api/json.ts';
import type { BodyRefusal, ReadBody } from '../../http/body.ts';
import { HttpError, retryAfter } from '../../http/http-error.ts';
import type { ByteBudget } from '../../lib/byte-budget.ts';
import { quoted } from '../../rules/document.ts';
import { badRequest, tooOften } from '../contract/errors.ts';
import type { Limits } from '../contract/limits.ts';
import type { Body } from '../contract/route.ts';
import { requireTexts } from '../contract/text.ts';

/** The body of a request: a JSON value (undefined when there is none), or the text of a file. */
export type RawBody = { json: unknown } | { file: string };

const YAML_TYPES = ['application/x-yaml', 'application/yaml', 'text/yaml', 'text/x-yaml', 'text/vnd.yaml'];

/** Resolves with the bytes of a body of at most `maxBytes`. */
type Receive = (maxBytes: number) => Promise<Buffer>;

export interface ReceiveOptions {
  read: ReadBody;
  budget: ByteBudget;
  caller: string;
  received: (bytes: number) => void;
  limits: Pick<Limits, 'bodyBytes' | 'jsonDepth' | 'receiveMs'>;
}

/** Reads the body of a route, up to the allowed length. */
export async function readInput(
  request: IncomingMessage,
  body: Body,
  { read, limits, ...options }: ReceiveOptions,
): Promise<RawBody> {
  const { bodyBytes, jsonDepth } = limits;
  const type = mediaType(request);
  const receive: Receive = (maxBytes) => read(request, { ...options, maxBytes, ms: limits.receiveMs });
  if (body.kind === 'file') {
    if (YAML_TYPES.includes(type)) return { file: decode(await receive(bodyBytes)) };
    if (type === 'multipart/form-data') {
      const form = await receive(bodyBytes + FORM_BYTES);
      return { file: decode(await partOf(form, { headers: request.headers, part: body.part, limit: bodyBytes })) };
    }
    if (type === '' && !hasBody(request)) throw fileMissing(body.part);
    throw unsupported(`send a multipart form with the file part "${body.part}", or an application/x-yaml body`);
  }
  const bytes = await receive(bodyBytes);
  if (bytes.length === 0) return { json: undefined };
  if (type !== 'application/json' && !type.endsWith('+json') && type !== '')
    throw unsupported('send the body as application/json');
  return { json: parseJsonBody(decode(bytes), jsonDepth) };
}

/** The length that a multipart form may have in addition to its file: boundaries and headers. */
const FORM_BYTES = 64 * 1024;

function mediaType(request: IncomingMessage): string {
  return (request.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

const hasBody = (request: IncomingMessage) =>
  request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0;

const unsupported = (message: string) => new HttpError(415, 'UNSUPPORTED_MEDIA_TYPE', message);
const tooLarge = (limit: number) => refusedBody('too-large', `the body exceeds ${limit} bytes`);
const fileMissing = (part: string) => badRequest(`the file part "${part}" is missing`, 'FILE_NOT_FOUND');
const severalParts = (part: string) => badRequest(`send one part only, the file "${part}"`);

/** The rest of the body is not read, so the connection cannot be used again. */
const UNREAD = { connection: 'close' };

/** The error with which a body is refused. */
export function refusedBody(why: BodyRefusal, message: string): HttpError {
  switch (why) {
    case 'encoding':
      return unsupported(message);
    case 'too-large':
      return new HttpError(413, 'PAYLOAD_TOO_LARGE', message, { headers: UNREAD });
    case 'caller-full':
      return tooOften(message, 1);
    case 'class-full':
      return new HttpError(503, 'SERVICE_UNAVAILABLE', message, { headers: { ...UNREAD, ...retryAfter(1) } });
    case 'too-slow':
      return new HttpError(408, 'REQUEST_TIMEOUT', message, { headers: UNREAD });
    case 'cut-off':
      return badRequest(message);
  }
}

/** The one file of a multipart form. Other parts are an error: ignoring them would hide a mistake of the client. */
function partOf(
  form: Buffer,
  { headers, part, limit }: { headers: IncomingHttpHeaders; part: string; limit: number },
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let parser: busboy.Busboy;
    try {
      parser = busboy({
        headers,
        limits: { files: 2, fields: 1, parts: 2, fileSize: limit, headerPairs: 32, fieldNameSize: 64, fieldSize: 1 },
      });
    } catch {
      return reject(badRequest('the multipart form is malformed'));
    }
    let found: Promise<Buffer> | undefined;
    parser.on('file', (name, stream) => {
      if (found || name !== part) {
        // A form that ends in the middle of this part is an error of its stream as well, which would end the process.
        stream.on('error', () => {}).resume();
        return reject(found ? severalParts(part) : fileMissing(part));
      }
      found = contentOf(stream, limit);
      found.catch(reject);
    });
    parser.on('field', () => reject(found ? severalParts(part) : fileMissing(part)));
    parser.on('error', () => reject(badRequest('the multipart form is malformed')));
    parser.on('close', () => (found ? found.then(resolve, reject) : reject(fileMissing(part))));
    parser.end(form);
  });
}

async function contentOf(file: Readable & { truncated?: boolean }, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of file as AsyncIterable<Buffer>) chunks.push(chunk);
  if (file.truncated) throw tooLarge(limit);
  return Buffer.concat(chunks);
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw badRequest('the body is not UTF-8');
  }
}

/** Parses JSON of at most the depth `depth` and with a limited number of elements; a member named `__proto__` is dropped. */
export function parseJsonBody(text: string, depth: number): unknown {
  const excess = jsonExcess(text, { depth });
  if (excess) throw badRequest(`the body ${excess}`);
  let value: unknown;
  try {
    value =
      text.includes('"__proto__"') || ESCAPED_PROTO.test(text)
        ? JSON.parse(text, (key, member) => (key === '__proto__' ? undefined : member))
        : JSON.parse(text);
  } catch {
    throw badRequest('the body is not valid JSON', 'MALFORMED_JSON');
  }
  const twice = duplicateKey(text);
  if (twice !== undefined) throw badRequest(`the body has the member ${quoted(twice)} twice`, 'MALFORMED_JSON');
  if (ESCAPED_ODDITY.test(text)) requireTexts(value, 'the body');
  return value;
}

/** Any character of `__proto__` may be written as an escape. */
const ESCAPED_PROTO = /\\u00(5f|70|72|6f|74)/i;
/** JSON in UTF-8 can contain NUL and half surrogate pairs only as escapes. */
const ESCAPED_ODDITY = /\\u(0000|d[89a-f])/i;
