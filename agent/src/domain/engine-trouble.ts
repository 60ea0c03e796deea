import { EngineError, type EngineErrorCode } from '../engine-port/error.ts';
import { AgentError } from './agent-error.ts';

/** Codes of the local API for errors of the engine; codes that are not here are INTERNAL. */
const CODES: Partial<Record<EngineErrorCode, AgentError['code']>> = {
  Unavailable: 'UNAVAILABLE',
  DiskFull: 'UNAVAILABLE',
  NotFound: 'NOT_FOUND',
  ImageMissing: 'NOT_FOUND',
  ImageNotFound: 'NOT_FOUND',
  ImageUnauthorized: 'FORBIDDEN',
  PolicyRefused: 'FORBIDDEN',
  Conflict: 'CONFLICT',
  Invalid: 'INVALID_ARGUMENT',
};

/** An error of the engine in the words of the local API; undefined for other errors. */
export function engineTrouble(error: unknown): AgentError | undefined {
  if (!(error instanceof EngineError)) return undefined;
  return new AgentError(CODES[error.code] ?? 'INTERNAL', error.message, { cause: error });
}

/** Does what the engine is asked for; its errors become AgentErrors. */
export async function asking<T>(ask: Promise<T>): Promise<T> {
  try {
    return await ask;
  } catch (error) {
    throw engineTrouble(error) ?? error;
  }
}
