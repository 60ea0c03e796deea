import { EngineError, type EngineErrorCode } from '../../engine-port/error.ts';
import { ContentError } from '../../machine/download.ts';

/** Why an artifact cannot be had. `isTransient`: the next attempt may succeed as things are. */
const ARTIFACT_ERRORS = {
  Unavailable: { isTransient: true },
  TooManyRequests: { isTransient: true },
  Unauthorized: { isTransient: false },
  NotFound: { isTransient: false },
  ChecksumMismatch: { isTransient: false },
  DiskFull: { isTransient: false },
  Invalid: { isTransient: false },
  PolicyRefused: { isTransient: false },
} as const;
export type ArtifactErrorCode = keyof typeof ARTIFACT_ERRORS;

/** An error of a pull or a projection; the message never holds a credential. */
export class ArtifactError extends Error {
  override name = 'ArtifactError';
  readonly code: ArtifactErrorCode;
  /** ms until the other side wants to be asked again */
  readonly retryAfter: number | undefined;

  constructor(code: ArtifactErrorCode, message: string, options: ErrorOptions & { retryAfter?: number } = {}) {
    super(message, options);
    this.code = code;
    this.retryAfter = options.retryAfter;
  }

  get isTransient(): boolean {
    return ARTIFACT_ERRORS[this.code].isTransient;
  }
}

/** Errors of a registry that are no fault of the connection. */
const CODES: Partial<Record<EngineErrorCode, ArtifactErrorCode>> = {
  ImageUnauthorized: 'Unauthorized',
  PolicyRefused: 'PolicyRefused',
};

/** An error of any kind as one of a pull. */
export function toArtifactError(error: unknown): ArtifactError {
  if (error instanceof ArtifactError) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof ContentError) return new ArtifactError(error.code, message, { cause: error });
  if (error instanceof EngineError)
    return new ArtifactError(CODES[error.code] ?? 'Unavailable', message, { cause: error });
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new ArtifactError('DiskFull', 'the disk is full', { cause: error });
  return new ArtifactError('Unavailable', message, { cause: error });
}
