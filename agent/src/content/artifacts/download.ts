import { type Backoff, backoffDelay } from '../../../../src/lib/backoff.ts';
import { type Clock, sleep } from '../../../../src/lib/clock.ts';
import type { Random } from '../../domain/jitter.ts';
import { downloadTo } from '../../machine/download.ts';
import { toArtifactError } from './error.ts';
import type { Pace } from './pace.ts';
import type { SourceFile } from './source.ts';
import type { ArtifactStore, Partial } from './store.ts';

/** Attempts in a row that bring no byte, until the pull fails. */
const ATTEMPTS = 4;
const RETRY: Backoff = { baseMs: 1000, factor: 2, maxMs: 4000, spread: 0.1 };

export interface DownloadDependencies {
  store: ArtifactStore;
  clock: Clock;
  random: Random;
  pace: Pick<Pace, 'take'>;
  /** the artifact that the file is for */
  owner: string;
  /** A content is part of what is pulled: it stays in the store until the pull has ended. */
  claim(sha256: string): void;
  /** Throws when no more bytes may be written. */
  checkRoom(): Promise<void>;
  /** The download has so many bytes now. */
  onBytes(bytes: number): void;
  /** ms without a byte after which a response is given up */
  quiet?: number;
}

/** Brings one file into the store and returns its SHA-256 and size. */
export async function download(
  file: SourceFile,
  deps: DownloadDependencies,
  signal: AbortSignal,
): Promise<{ sha256: string; size: number }> {
  const present = await presentIn(deps, file);
  if (present) {
    deps.onBytes(present.size);
    return present;
  }
  const partial = deps.store.partial(file.identity);
  // Without a checksum nothing would show that the beginning is that of other content, or was not written.
  if (!file.checksum) partial.discard();
  const found = await downloadWithRetries(file, partial, deps, signal);
  deps.claim(found.sha256);
  await partial.finish({ owner: deps.owner, sha256: found.sha256 });
  return found;
}

async function presentIn({ store, claim }: DownloadDependencies, { checksum }: SourceFile) {
  if (checksum?.algorithm !== 'sha256') return undefined;
  claim(checksum.value);
  const size = await store.sizeOf(checksum.value);
  return size === undefined ? undefined : { sha256: checksum.value, size };
}

async function downloadWithRetries(
  file: SourceFile,
  partial: Partial,
  deps: DownloadDependencies,
  signal: AbortSignal,
) {
  const { clock, random, owner, pace, checkRoom, onBytes, quiet } = deps;
  for (let futile = 0; ; ) {
    const before = partial.size;
    const options = {
      ...{ checkRoom, onBytes, quiet, validator: partial.note?.validator },
      pace: (bytes: number, until: AbortSignal) => pace.take(bytes, until),
      onBegin: (validator: string | undefined) => partial.begin({ validator, owner }),
    };
    try {
      return await downloadTo(partial.path, file, options, signal);
    } catch (error) {
      signal.throwIfAborted();
      const problem = toArtifactError(error);
      if (problem.code === 'ChecksumMismatch') partial.discard();
      futile = partial.size > before ? 1 : futile + 1;
      if (!problem.isTransient || futile >= ATTEMPTS) throw problem;
      await sleep(Math.max(problem.retryAfter ?? 0, Math.round(backoffDelay(RETRY, futile, random))), signal, clock);
      signal.throwIfAborted();
    }
  }
}
