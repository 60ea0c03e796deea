import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type busboy from 'busboy';
import { z } from 'zod';
import { LocalApiError } from './errors.ts';
import { queryFlag } from './fields.ts';
import { validate } from './validate.ts';

/** What a multipart form with a manifest may be in all, bytes. */
export const FORM_BYTES = 16 * 1024 * 1024;

/** The part that is a file. */
const FILE = 'manifest';
/** Longer fields are refused before they are in memory. */
const FIELD_BYTES = 1024;

const fieldsSchema = () =>
  z.strictObject({
    sourceName: z
      .string()
      .regex(/^[^\p{Cc}]{1,255}$/u, 'a text of 1 to 255 characters without control characters')
      .optional()
      .describe('where the manifest comes from, for people'),
    dryRun: queryFlag('judge the manifest and change nothing'),
    async: queryFlag('answer when the work begins'),
  });

/** A form with a manifest, as it is described. */
export const formSchema = () =>
  fieldsSchema().extend({
    [FILE]: z.string().meta({ format: 'binary', description: 'a file: the manifest, as YAML' }),
  });

/** What a route gets of a form with a manifest. */
export type ManifestForm = z.output<ReturnType<typeof fieldsSchema>> & { manifest: string };

/**
 * Reads a multipart form with one file, the manifest, as it comes. Whatever is wrong with it is found before more of it is in
 * memory than is allowed.
 */
export async function readForm(incoming: IncomingMessage): Promise<ManifestForm> {
  if (Number(incoming.headers['content-length'] ?? 0) > FORM_BYTES) throw tooLarge();
  // Most agents never get a form.
  const { default: parserOf } = await import('busboy');
  let parser: busboy.Busboy;
  try {
    parser = parserOf({ headers: incoming.headers, limits: LIMITS });
  } catch {
    throw refused(`send a multipart/form-data body with a boundary, and the file part "${FILE}"`);
  }
  const { file, fields } = await received(incoming, parser);
  if (file === undefined) throw refused(`the file part "${FILE}" is missing`);
  return { ...validate(fieldsSchema(), Object.fromEntries(fields)), manifest: decoded(file) };
}

/** One more part than there can be, so that a part too many is seen. */
const LIMITS: busboy.Limits = {
  ...{ files: 2, fields: 4, parts: 6, headerPairs: 32 },
  ...{ fileSize: FORM_BYTES, fieldNameSize: 64, fieldSize: FIELD_BYTES },
};

const refused = (message: string) => new LocalApiError('INVALID_ARGUMENT', message);
const tooLarge = () => new LocalApiError('PAYLOAD_TOO_LARGE', `the form exceeds ${FORM_BYTES} bytes`);

interface Parts {
  file?: Buffer;
  fields: Map<string, string>;
}

/** The parts of a form whose end has come; rejects at the first thing that is wrong, and then receives no more. */
function received(incoming: IncomingMessage, parser: busboy.Busboy): Promise<Parts> {
  const { promise, resolve, reject } = Promise.withResolvers<Parts>();
  const parts: Parts = { fields: new Map() };
  const pieces: Buffer[] = [];
  const names = new Set<string>();
  let size = 0;
  const fail = (error: LocalApiError) => {
    incoming.off('data', count).unpipe(parser);
    pieces.length = 0;
    reject(error);
  };
  const count = (piece: Buffer) => {
    size += piece.length;
    if (size > FORM_BYTES) fail(tooLarge());
  };
  /** Takes note of a part; returns whether there may be one of this name. */
  const isNew = (name: string) => {
    const isFirst = !names.has(name);
    if (!isFirst) fail(refused(`the part "${name.slice(0, 64)}" is there twice`));
    names.add(name);
    return isFirst;
  };
  parser.on('file', (name: string, stream: Readable) => {
    // A form that ends in the middle of a part is an error of its stream as well, which would end the process.
    stream.on('error', () => {});
    if (name !== FILE) fail(refused(`the part "${name?.slice(0, 64)}" is a file; "${FILE}" is the only one`));
    else if (isNew(name)) return void stream.on('data', (piece: Buffer) => pieces.push(piece));
    stream.resume();
  });
  parser.on('field', (name: string, value: string, { nameTruncated, valueTruncated }: busboy.FieldInfo) => {
    if (nameTruncated || valueTruncated)
      return fail(refused(`the part "${name.slice(0, 64)}" has a name or a text that is too long`));
    if (name === FILE) return fail(refused(`the part "${FILE}" has no file name: send it as a file`));
    if (isNew(name)) parts.fields.set(name, value);
  });
  for (const limit of ['partsLimit', 'filesLimit', 'fieldsLimit'] as const)
    parser.on(limit, () => fail(refused('the form has too many parts')));
  parser.on('error', () => fail(refused('the form is malformed')));
  parser.on('close', () => resolve({ ...parts, ...(names.has(FILE) && { file: Buffer.concat(pieces) }) }));
  incoming.on('data', count).once('aborted', () => fail(refused('the form ends before its time')));
  incoming.pipe(parser);
  return promise;
}

function decoded(file: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(file);
  } catch {
    throw refused(`the file "${FILE}" is not UTF-8`);
  }
}
