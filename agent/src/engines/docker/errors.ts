import { withHint } from '../../domain/pull-hints.ts';
import { EngineError, type EngineErrorCode } from '../../engine-port/error.ts';
import { TransportError } from '../../machine/http.ts';
import { parseAnswer } from './answers.ts';

/** An engine that does not answer at all; any other error as it is. */
export function engineUnavailable(error: unknown, url: string): unknown {
  if (!(error instanceof TransportError)) return error;
  return new EngineError('Unavailable', `the engine at ${url} does not answer: ${error.message}`, { cause: error });
}

/** An engine that ends in the middle of its events; any other error as it is. */
export function cutOff(error: unknown, url: string): unknown {
  if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') return error;
  return new EngineError('Unavailable', `the engine at ${url} does not answer: it cut its events off`, {
    cause: error,
  });
}

/** What an answer of the engine that is an error means. */
export function errorOf(method: string, path: string, status: number, text: string): EngineError {
  const message = messageOf(text) || `${method} ${path}: status ${status}`;
  return new EngineError(codeOf(status, message), message.replace(LAYERS, '$1'));
}

/** The layers that pass an error of the runtime on, before and behind its words. */
const LAYERS = /^.*: unable to start container process: (.*?)(?:: unknown)?$/s;

/** Read from the text where the status says too little; the API has no codes. */
const TEXTS: readonly [RegExp, EngineErrorCode][] = [
  [/no such image|image .*not known|unable to find image/i, 'ImageMissing'],
  [/name .* is already in use/i, 'NameTaken'],
  [/port is already allocated|address already in use/i, 'PortTaken'],
  [/no space left on device/i, 'DiskFull'],
  [/container state improper|is not paused/i, 'Conflict'],
  [
    /minimum memory|memory limit|range of cpus|cpu cfs|set(?:ting )?rlimit|pids limit|requested (?:cpus|memory nodes) are not available/i,
    'LimitRefused',
  ],
];

function codeOf(status: number, message: string): EngineErrorCode {
  for (const [pattern, code] of TEXTS) if (pattern.test(message)) return code;
  if (status === 404) return 'NotFound';
  if (status === 409) return 'Conflict';
  return status === 400 ? 'Invalid' : 'Failed';
}

/** What the engine says of a pull that failed. */
export function pullError(reference: string, message: string): EngineError {
  const text = `pull ${reference}: ${message}`;
  if (/no space left on device/i.test(message)) return new EngineError('DiskFull', text);
  if (/manifest unknown|not found|does not exist/i.test(message) && !/no such host/i.test(message))
    return new EngineError('ImageNotFound', text);
  if (/unauthorized|denied|authentication required|no basic auth/i.test(message))
    return new EngineError('ImageUnauthorized', text);
  return new EngineError('ImagePullFailed', withHint(text));
}

/** Characters of an answer of the engine that are read and shown. */
const MESSAGE_LENGTH = 4096;

/** The words of an answer that is an error, at most `MESSAGE_LENGTH` characters. */
export function messageOf(text: string): string {
  const value = parseAnswer(text) as { message?: unknown; cause?: unknown };
  return typeof value?.message === 'string' ? value.message.slice(0, MESSAGE_LENGTH) : text.slice(0, 1024).trim();
}
