import { EngineError } from '../../engine-port/error.ts';
import { lines } from '../../machine/http.ts';
import { parseAnswer } from './answers.ts';
import { type DockerApi, readTextOf } from './api.ts';
import { errorOf } from './errors.ts';

/** ms between the last piece of the archive and the answer: the engine unpacks the layers meanwhile. */
const UNPACKING = 60 * 60_000;

/** Has the engine load an archive, and reads what it says of it. */
export async function engineLoad(
  api: DockerApi,
  archive: AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<void> {
  const options = { query: { quiet: '1' }, headers: { 'content-type': 'application/x-tar' }, deadline: UNPACKING };
  const incoming = await api.open('POST', '/images/load', { ...options, stream: archive, signal });
  if (incoming.statusCode !== 200)
    throw errorOf('POST', '/images/load', incoming.statusCode ?? 0, await readTextOf(incoming));
  try {
    // docker answers 200 before it knows how it ends.
    for await (const line of lines(incoming, 256 * 1024)) {
      const { error, errorDetail } = parseAnswer(line) as { error?: string; errorDetail?: { message?: string } };
      if (error) throw errorOf('POST', '/images/load', 500, errorDetail?.message ?? error);
    }
  } catch (error) {
    if (error instanceof EngineError || signal?.aborted) throw error;
    throw new EngineError('Unavailable', 'the engine ended the connection while it loaded an archive', {
      cause: error,
    });
  }
}
