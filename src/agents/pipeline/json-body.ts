import type { IncomingMessage } from 'node:http';
import { jsonExcess } from '../../api/json.ts';
import { type BodyRefusal, type BodyRules, createBodyReader } from '../../http/body.ts';
import type { Clock } from '../../kube/mod.ts';
import { AgentFailure, type AgentFailureCode } from '../failure.ts';

/** Reads the JSON of a request body; undefined when there is none. Rejects with AgentFailure. */
export type ReadJson = (req: IncomingMessage, rules: JsonRules) => Promise<unknown>;

interface JsonRules extends BodyRules {
  /** elements that the JSON may have; as many as any message of an agent when absent */
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

/** Agents in the field are older and newer than the controller: what is not UTF-8 is replaced, never refused. */
function parse(text: string, elements: number | undefined): unknown {
  const excess = jsonExcess(text, { elements });
  if (excess) throw new AgentFailure('VALIDATION_ERROR', `the body ${excess}`);
  try {
    return JSON.parse(text);
  } catch {
    throw new AgentFailure('VALIDATION_ERROR', 'the body is not JSON');
  }
}
