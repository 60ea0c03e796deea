import type { AgentErrorCode } from '../../api/error-codes.ts';
import type { BodyRefusal } from '../../http/body.ts';
import { createJsonReader, type ReadJson } from '../../http/json-body.ts';
import type { Clock } from '../../lib/clock.ts';
import { AgentFailure } from '../channel/failure.ts';

const CODES: Readonly<Record<BodyRefusal, AgentErrorCode>> = {
  encoding: 'UNSUPPORTED_ENCODING',
  'too-large': 'BODY_TOO_LARGE',
  'caller-full': 'TOO_MANY_REQUESTS',
  'class-full': 'CONTROLLER_DB_BUSY',
  'too-slow': 'REQUEST_TIMEOUT',
  'cut-off': 'REQUEST_TIMEOUT',
};

/** The reader of bodies of agents, which rejects with AgentFailure. */
export const createAgentJsonReader = (clock: Clock): ReadJson =>
  createJsonReader({
    clock,
    refuse: (why, message) => new AgentFailure(CODES[why], message),
    invalid: (message) => new AgentFailure('VALIDATION_ERROR', message),
  });
