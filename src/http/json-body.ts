import type { IncomingMessage } from 'node:http';
import { jsonExcess } from '../api/json.ts';
import { type BodyReaderOptions, type BodyRules, createBodyReader } from './body.ts';

/** Reads the JSON of a request body; undefined when there is none. Rejects with what `refuse` or `invalid` makes. */
export type ReadJson = (req: IncomingMessage, rules: JsonRules) => Promise<unknown>;

interface JsonRules extends BodyRules {
  /** maximum of elements of the JSON; default: enough for any message of an agent */
  elements?: number;
}

export interface JsonReaderOptions extends BodyReaderOptions {
  /** the error for a body that is no JSON, or has too many elements */
  invalid: (message: string) => Error;
}

/** Invalid UTF-8 is replaced, never refused: the sender may be older or newer. */
export function createJsonReader({ invalid, ...options }: JsonReaderOptions): ReadJson {
  const read = createBodyReader(options);
  return async (req, rules) => {
    const body = await read(req, rules);
    if (body.length === 0) return undefined;
    const text = body.toString('utf8');
    const excess = jsonExcess(text, { elements: rules.elements });
    if (excess) throw invalid(`the body ${excess}`);
    try {
      return JSON.parse(text);
    } catch {
      throw invalid('the body is not JSON');
    }
  };
}
