/** An operation that cannot be done now, in the words of the local API. */
export class AgentError extends Error {
  readonly code:
    | 'INVALID_ARGUMENT'
    | 'FORBIDDEN'
    | 'CONFLICT'
    | 'NOT_FOUND'
    | 'INTERNAL'
    | 'UNAVAILABLE'
    | 'EXEC_START_TIMEOUT';
  /** for programs */
  readonly details: Record<string, unknown> | undefined;
  constructor(
    code: AgentError['code'],
    message: string,
    { details, ...options }: ErrorOptions & { details?: Record<string, unknown> } = {},
  ) {
    super(message, options);
    this.name = 'AgentError';
    this.code = code;
    this.details = details;
  }
}

/**
 * Does what has to survive the end of the process, or throws AgentError. `consequence` says what holds when it could not be
 * saved.
 */
export function saving<T>(consequence: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw notSaved(consequence, (error as Error).message, error);
  }
}

/** The error of a command whose promise cannot be saved: what holds, why, and what to do. */
export function notSaved(consequence: string, reason: string, cause?: unknown): AgentError {
  const next = 'Make room on the disk, or make it writable (skerry-agent doctor)';
  return new AgentError('UNAVAILABLE', `this cannot be saved, so ${consequence}: ${reason}. ${next}`, { cause });
}
