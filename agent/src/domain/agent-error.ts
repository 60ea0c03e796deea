/** An operation that cannot be done now, in the words of the local API. */
export class AgentError extends Error {
  readonly code: 'INVALID_ARGUMENT' | 'CONFLICT' | 'NOT_FOUND' | 'INTERNAL';
  constructor(code: AgentError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'AgentError';
    this.code = code;
  }
}
