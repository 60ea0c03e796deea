import { AgentError } from '../../domain/agent-error.ts';
import { EngineError, type EngineErrorCode } from '../../engine-port/error.ts';

/** What an error of the engine is in the words of the local API; codes that are not here are INTERNAL. */
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

/** Does what the engine is asked for; its errors become AgentErrors. */
export async function asking<T>(ask: Promise<T>): Promise<T> {
  try {
    return await ask;
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    throw new AgentError(CODES[error.code] ?? 'INTERNAL', error.message, { cause: error });
  }
}
