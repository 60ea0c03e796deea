/** Errors of an engine, independent of its kind. */
const ENGINE_ERRORS = {
  Unavailable: 'the engine does not answer',
  NotFound: 'there is no such thing',
  Conflict: 'the thing is in another state',
  ImageMissing: 'the image is not there',
  ImageNotFound: 'the registry has no such image',
  ImageUnauthorized: 'the registry refuses the credentials',
  ImagePullFailed: 'the image could not be pulled',
  NameTaken: 'another container has the name',
  PortTaken: 'another process has the port',
  DiskFull: 'the disk is full',
  LimitRefused: 'the engine does not accept a limit',
  Invalid: 'the engine does not accept the settings',
  Failed: 'the engine failed',
  PolicyRefused: 'the machine does not allow it',
} as const;
export type EngineErrorCode = keyof typeof ENGINE_ERRORS;

/** An error of an engine, translated. */
export class EngineError extends Error {
  readonly code: EngineErrorCode;
  constructor(code: EngineErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EngineError';
    this.code = code;
  }
}
