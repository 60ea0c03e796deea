import { withHint } from '../../domain/pull-hints.ts';
import { EngineError, type EngineErrorCode } from '../../engine-port/error.ts';
import { GrpcError, STATUS } from './wire/grpc.ts';
import { ProtobufError } from './wire/protobuf.ts';

/** Characters of a message of containerd that are shown. */
const MESSAGE_LENGTH = 4096;

/** Read from the text where the status says too little. */
const TEXTS: readonly [RegExp, EngineErrorCode][] = [
  [/no space left on device/i, 'DiskFull'],
  [/address already in use/i, 'PortTaken'],
  // CRI begins later than the socket.
  [/server is not initialized yet/i, 'Unavailable'],
  [
    /minimum memory|memory limit|cpuset\.cpus|cpu\.max|cfs_quota|set(?:ting )?rlimit|pids limit|requested (?:cpus|memory nodes)/i,
    'LimitRefused',
  ],
];

const CODES: Readonly<Record<number, EngineErrorCode>> = {
  [STATUS.notFound]: 'NotFound',
  [STATUS.exists]: 'Conflict',
  [STATUS.precondition]: 'Conflict',
  [STATUS.invalid]: 'Invalid',
  [STATUS.unavailable]: 'Unavailable',
  [STATUS.deadline]: 'Unavailable',
};

/** An error of a call as an EngineError; any other error as it is. */
export function translated(error: unknown, url: string): unknown {
  if (error instanceof ProtobufError)
    return new EngineError('Failed', `the engine at ${url} answers what cannot be read: ${error.message}`, {
      cause: error,
    });
  if (!(error instanceof GrpcError)) return error;
  const message = plain(error.message);
  const code = TEXTS.find(([pattern]) => pattern.test(message))?.[1] ?? CODES[error.status] ?? 'Failed';
  const text = code === 'Unavailable' ? `the engine at ${url} does not answer: ${message}` : message;
  return new EngineError(code, text, { cause: error });
}

/** The layers that pass an error of the runtime on, before and behind its words. */
const LAYERS = /^.*: unable to start container process: (.*?)(?:: unknown)?$/s;

const plain = (message: string) => message.slice(0, MESSAGE_LENGTH).replace(LAYERS, '$1');

export const isCode = (error: unknown, ...codes: EngineErrorCode[]): boolean =>
  error instanceof EngineError && codes.includes(error.code);

/** Whether what was to be made is there already. */
export const alreadyExists = (error: unknown): boolean =>
  error instanceof EngineError && error.cause instanceof GrpcError && error.cause.status === STATUS.exists;

/** What the words of containerd about a pull mean; of several that fit the first. */
const PULL_TEXTS: readonly [RegExp, EngineErrorCode][] = [
  [/unauthorized|denied|authorization failed|authentication required|insufficient_scope/i, 'ImageUnauthorized'],
  [/no such host/i, 'ImagePullFailed'],
  [/not found|manifest unknown|does not exist/i, 'ImageNotFound'],
];

/** What a pull that failed means. */
export function containerdPullError(reference: string, error: unknown): unknown {
  if (!(error instanceof EngineError) || error.code === 'DiskFull' || error.code === 'Unavailable') return error;
  const code = PULL_TEXTS.find(([pattern]) => pattern.test(error.message))?.[1] ?? 'ImagePullFailed';
  const text = `pull ${reference}: ${error.message}`;
  return new EngineError(code, code === 'ImagePullFailed' ? withHint(text) : text, { cause: error });
}
