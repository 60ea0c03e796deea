import type { IncomingMessage } from 'node:http';
import { jsonExcess } from '../../api/json.ts';
import { type BodyRefusal, type BodyRules, createBodyReader } from '../../http/body.ts';
import type { Clock } from '../../lib/clock.ts';
import { AgentFailure, type AgentFailureCode } from '../channel/failure.ts';

/** Reads the JSON of a request body; undefined when there is none. Rejects with AgentFailure. */
export type ReadJson = (req: IncomingMessage, rules: JsonRules) => Promise<unknown>;

interface JsonRules extends BodyRules {
  /** maximum of elements of the JSON; default: enough for any message of an agent */
  elements?: number;
}

const CODES: Readonly<Record<BodyRefusal, AgentFailureCode>> = {
  encoding: 'UNSUPPORTED_ENCODING',
  'too-large': 'BODY_TOO_LARGE',
  'caller-full': 'TOO_MANY_REQUESTS',
  'class-full': 'CONTROLLER_DB_BUSY',
  'too-slow': 'REQUEST_TIMEOUT',
  'cut-off': 'REQUEST_TIMEOUT',
};

export function createJsonReader(clock: Clock): ReadJson {
  const read = createBodyReader({ clock, refuse: (why, message) => new AgentFailure(CODES[why], message) });
  return async (req, rules) => {
    const body = await read(req, rules);
    return body.length === 0 ? undefined : parse(body.toString('utf8'), rules.elements);
  };
}

/** Agents may be older or newer than the controller: invalid UTF-8 is replaced, never refused. */
function parse(text: string, elements: number | undefined): unknown {
  const excess = jsonExcess(text, { elements });
  if (excess) throw new AgentFailure('VALIDATION_ERROR', `the body ${excess}`);
  try {
    return JSON.parse(text);
  } catch {
    throw new AgentFailure('VALIDATION_ERROR', 'the body is not JSON');
  }
}
