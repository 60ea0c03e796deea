/** There is no leader, or its response is an error. */
export class LeaderError extends Error {
  override readonly name = 'LeaderError';
  /** REFUSED: the message is invalid, and a retry fails as well; UNREACHABLE: a retry may succeed */
  readonly code: 'NO_LEADER' | 'NOT_LEADER' | 'REFUSED' | 'UNREACHABLE';

  constructor(code: LeaderError['code'], message: string, cause?: unknown) {
    super(cause instanceof Error ? `${message}: ${cause.message}` : message, { cause });
    this.code = code;
  }
}
