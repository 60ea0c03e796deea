import type { IncomingMessage } from 'node:http';
import { duplicateKey } from '../../../../src/api/duplicate-key.ts';
import { jsonExcess } from '../../../../src/api/json.ts';
import { jsonOr } from '../../domain/json.ts';
import { LocalApiError } from './errors.ts';

const BODY_LIMIT = 1024 * 1024;
/** How much of a body that is too large is received and discarded, so that its sender can read the response. */
export const DISCARDED = 16 * BODY_LIMIT;

/** The JSON object that a request has as its body; an empty body is an empty object. */
export async function readBody(incoming: IncomingMessage): Promise<Record<string, unknown>> {
  const pieces: Buffer[] = [];
  let size = 0;
  const tooLarge = () => new LocalApiError('PAYLOAD_TOO_LARGE', `the body exceeds ${BODY_LIMIT} bytes`);
  if (Number(incoming.headers['content-length'] ?? 0) > DISCARDED) throw tooLarge();
  for await (const piece of incoming as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size <= BODY_LIMIT) pieces.push(piece);
    else pieces.length = 0;
    if (size > DISCARDED) throw tooLarge();
  }
  if (size > BODY_LIMIT) throw tooLarge();
  if (size === 0) return {};
  const text = Buffer.concat(pieces).toString('utf8');
  const excess = jsonExcess(text);
  if (excess) throw new LocalApiError('INVALID_ARGUMENT', `the body ${excess}`);
  const value = jsonOr(text, undefined);
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw new LocalApiError('INVALID_ARGUMENT', 'the body is not a JSON object');
  const twice = duplicateKey(text);
  if (twice !== undefined)
    throw new LocalApiError('INVALID_ARGUMENT', `the body has the member "${twice.slice(0, 64)}" twice`);
  return value as Record<string, unknown>;
}
