import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { readText } from '../machine/disk.ts';
import { lines, open, readAll, TransportError } from '../machine/http.ts';

/** A failure as the command line shows it: a code, a sentence, and what to do next. */
export class CliError extends Error {
  readonly code: string;
  readonly hint: string | undefined;
  constructor(code: string, message: string, hint?: string) {
    super(message);
    this.name = 'CliError';
    this.code = code;
    this.hint = hint;
  }
}

/** What to do about what only the agent's user may. */
export const AS_ROOT = 'Run this as the user that the agent runs as, usually root.';

/** What each exit code means, for the help; scripts may rely on them. */
export const EXIT_MEANINGS: Readonly<Record<number, string>> = {
  0: 'done',
  1: 'failed; of doctor: something is wrong',
  2: 'wrong use, or a value that cannot be',
  3: 'not allowed',
  4: 'there is no such thing',
  5: 'not possible in the present state',
  6: 'not in this version',
  10: 'no agent answers',
  130: 'interrupted, or answered with no',
};

/** Exit codes by code of the failure (docs/spec/agent-local-api.md#errors). */
const EXIT_CODES: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 2,
  UNAUTHORIZED: 3,
  FORBIDDEN: 3,
  NOT_FOUND: 4,
  CONFLICT: 5,
  APPLY_IN_PROGRESS: 5,
  NOT_IMPLEMENTED: 6,
  DAEMON_UNAVAILABLE: 10,
  DECLINED: 130,
};

export function exitCode(code: string): number {
  return EXIT_CODES[code] ?? 1;
}

/** Codes by the status of a refused upgrade. */
const CODES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  501: 'NOT_IMPLEMENTED',
  503: 'UNAVAILABLE',
};

/** Why a session did not begin, or ended without the exit code of its program. */
export function sessionError({ status, code, reason }: { status?: number; code: number; reason: string }): CliError {
  if (status !== undefined) return new CliError(CODES[status] ?? 'INTERNAL', reason || `the agent answered ${status}`);
  if (code === 1006)
    return new CliError('SESSION_ENDED', `the connection to the agent was lost: ${reason || 'it ended'}`);
  return new CliError('SESSION_ENDED', reason || `the session was closed with ${code}`);
}

export interface LocalClientOptions {
  socket: string;
  tokenFile: string;
  configFile: string;
  /** a unit of systemd starts the agent */
  isService?: boolean;
  /** ms for an answer, instead of the deadline of each call */
  patience?: number;
  /** learns what was asked, and how it was answered */
  asked?(text: string): void;
  signal: AbortSignal;
}

/** A manifest with the fields that go with it. */
interface UploadedForm {
  manifest: string;
  sourceName?: string;
  dryRun?: boolean;
  async?: boolean;
}

interface CallOptions {
  body?: unknown;
  form?: UploadedForm;
  /** ms until the answer begins */
  deadline?: number;
  /** the time that the line names bounds the operation, not the answer */
  isWhole?: boolean;
}

interface Content {
  type: string;
  text: string;
}

const jsonContent = (body: unknown): Content => ({ type: 'application/json', text: JSON.stringify(body) });

/** A multipart form; its boundary is in no manifest. */
function formContent({ manifest, ...fields }: UploadedForm): Content {
  const boundary = `skerry-${randomUUID()}`;
  const part = (disposition: string, text: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${text}\r\n`;
  const parts = [
    ...Object.entries(fields).flatMap(([name, value]) =>
      value === undefined ? [] : [part(`name="${name}"`, String(value))],
    ),
    part('name="manifest"; filename="manifest.yaml"', manifest),
  ];
  return { type: `multipart/form-data; boundary=${boundary}`, text: `${parts.join('')}--${boundary}--\r\n` };
}

/** The local API as the command line uses it. */
export class LocalClient {
  readonly #options: LocalClientOptions;

  constructor(options: LocalClientOptions) {
    this.#options = options;
  }

  /** Calls a route and answers its data, out of the envelope where there is one. `form`: a manifest in place of a JSON body. */
  async call<T>(method: string, path: string, options?: CallOptions): Promise<T> {
    const incoming = await this.#open(method, path, options);
    const text = (await readAll(incoming, 32 * 1024 * 1024, 60_000)).toString('utf8');
    return unwrap(text, incoming.statusCode ?? 0) as T;
  }

  /** The lines of a route that goes on answering. */
  async *stream<T>(path: string): AsyncGenerator<T> {
    const incoming = await this.#open('GET', path);
    if (incoming.statusCode !== 200) {
      const text = (await readAll(incoming, 1024 * 1024, 10_000)).toString('utf8');
      unwrap(text, incoming.statusCode ?? 0);
    }
    for await (const line of lines(incoming, 1024 * 1024)) yield JSON.parse(line) as T;
  }

  /** The request for a WebSocket of a route, on a connection that stands already. */
  async socket(path: string): Promise<{ url: string; headers: Record<string, string>; through: Socket }> {
    const { socket, tokenFile, signal } = this.#options;
    const token = this.#token(tokenFile);
    const through = connect({ path: socket });
    try {
      await once(through, 'connect', { signal });
    } catch (error) {
      through.destroy();
      const { code = 'BROKEN', message } = error as NodeJS.ErrnoException;
      throw signal.aborted ? error : this.#unreachable(new TransportError(code, message, { cause: error }));
    }
    return { url: `ws://agent${path}`, headers: { ...(token && { authorization: `Bearer ${token}` }) }, through };
  }

  async #open(
    method: string,
    path: string,
    { body, form, deadline = 120_000, isWhole = false }: CallOptions = {},
  ): Promise<IncomingMessage> {
    const content = form ? formContent(form) : body === undefined ? undefined : jsonContent(body);
    const { socket, tokenFile, patience, asked, signal } = this.#options;
    const token = this.#token(tokenFile);
    const began = performance.now();
    const note = (outcome: string) =>
      asked?.(`${method} ${path}: ${outcome}, ${Math.round(performance.now() - began)} ms`);
    try {
      const incoming = await open({
        target: { socketPath: socket },
        method,
        path,
        headers: {
          ...(token && { authorization: `Bearer ${token}` }),
          ...(content && { 'content-type': content.type }),
        },
        body: content?.text,
        deadline: isWhole ? deadline : (patience ?? deadline),
        signal,
      });
      note(String(incoming.statusCode));
      return incoming;
    } catch (error) {
      note(error instanceof TransportError ? error.code : 'no answer');
      throw this.#unreachable(error);
    }
  }

  #token(path: string): string | undefined {
    try {
      return readText(path)?.trim();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EACCES')
        throw new CliError('FORBIDDEN', `${path} cannot be read`, AS_ROOT);
      throw error;
    }
  }

  #unreachable(error: unknown): unknown {
    if (!(error instanceof TransportError)) return error;
    const { socket, configFile, isService } = this.#options;
    if (error.code === 'EACCES') return new CliError('FORBIDDEN', `${socket} may not be opened`, AS_ROOT);
    if (error.code === 'TIMEOUT')
      return new CliError('TIMEOUT', `the agent at ${socket}: ${error.message}`, 'Give it more time with --timeout.');
    return new CliError(
      'DAEMON_UNAVAILABLE',
      `no agent answers at ${socket}`,
      `Start it with: ${isService ? 'systemctl start skerry-agent' : `skerry-agent start --config ${configFile}`}`,
    );
  }
}

function unwrap(text: string, status: number): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new CliError('INTERNAL', `the agent gave an answer that cannot be read (status ${status})`);
  }
  const { success, data, error } = value as {
    success?: unknown;
    data?: unknown;
    error?: { code: string; message: string };
  };
  if (success === false && error) throw new CliError(error.code, error.message);
  return typeof success === 'boolean' ? data : value;
}
