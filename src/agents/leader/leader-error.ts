/** No leader, or one that did not answer as it should. */
export class LeaderError extends Error {
  override readonly name = 'LeaderError';
  /** REFUSED: the message is wrong, and always will be; UNREACHABLE: another time it may be taken */
  readonly code: 'NO_LEADER' | 'NOT_LEADER' | 'REFUSED' | 'UNREACHABLE';

  constructor(code: LeaderError['code'], message: string, cause?: unknown) {
    super(cause instanceof Error ? `${message}: ${cause.message}` : message, { cause });
    this.code = code;
  }
}
