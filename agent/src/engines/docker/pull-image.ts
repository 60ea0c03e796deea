import { EngineError } from '../../engine-port/error.ts';
import type { DockerApiKind } from '../../engine-port/facts.ts';
import type { PullRequest } from '../../engine-port/images.ts';
import { lines } from '../../machine/http.ts';
import { parseAnswer } from './answers.ts';
import { type DockerApi, readTextOf } from './api.ts';
import { messageOf, pullError } from './errors.ts';
import { pullCall } from './pull-call.ts';
import { PullProgress } from './pull-progress.ts';

const SECOND = 1000;

/** Has the engine pull, and follows it until the engine says that it is done. */
export async function enginePull(
  api: DockerApi,
  request: PullRequest,
  kind: DockerApiKind,
  signal?: AbortSignal,
): Promise<void> {
  const { reference, onProgress } = request;
  const { path, query, headers, quiet } = pullCall(request, kind);
  const incoming = await api.open('POST', path, { query, headers, signal, deadline: 120 * SECOND });
  if (incoming.statusCode !== 200) throw pullError(reference, messageOf(await readTextOf(incoming)));
  const progress = new PullProgress();
  const watchdog = new Watchdog(quiet, () => incoming.destroy());
  try {
    for await (const line of lines(incoming, 64 * 1024)) {
      watchdog.reset();
      const event = parseAnswer(line) as { error?: string; errorDetail?: { message?: string } };
      if (event.error) throw pullError(reference, event.errorDetail?.message ?? event.error);
      const percentage = progress.add(event);
      if (percentage !== undefined) onProgress?.(percentage);
    }
    if (progress.finish()) onProgress?.(100);
  } catch (error) {
    if (error instanceof EngineError || signal?.aborted) throw error;
    throw new EngineError('ImagePullFailed', `pull ${reference}: the engine ended the connection`, { cause: error });
  } finally {
    watchdog.stop();
  }
}

/** Calls back when nothing has happened for a while. */
class Watchdog {
  readonly #after: number;
  readonly #bark: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(after: number, bark: () => void) {
    this.#after = after;
    this.#bark = bark;
    this.reset();
  }

  reset(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#bark, this.#after);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
