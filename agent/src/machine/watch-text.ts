import { type FSWatcher, watch } from 'node:fs';
import { dirname } from 'node:path';
import { type Clock, sleep } from '../../../src/lib/clock.ts';
import { fileStamp } from './disk.ts';

/** Looks without an event, ms: a machine may have no watches left, and a link may lead to another directory. */
const ROUND = 30_000;
/** A file is whole when two looks, so far apart, show the same one, ms. */
const SETTLED = 250;

/**
 * Calls `changed` after each change of a file, also where an editor puts another one in its place, once it is whole. Nothing is
 * called for the state that it begins with.
 */
export async function watchText(path: string, changed: () => void, signal: AbortSignal, clock: Clock): Promise<void> {
  let wake = () => {};
  let watcher: FSWatcher | undefined;
  let known = fileStamp(path);
  const stop = () => watcher?.close();
  signal.addEventListener('abort', stop, { once: true });
  while (!signal.aborted) {
    const woken = new AbortController();
    wake = () => woken.abort();
    // The directory, since a watch of the file follows the file that was replaced.
    watcher ??= watchDirectory(dirname(path), {
      onEvent: () => wake(),
      onEnd: () => {
        watcher = undefined;
      },
    });
    if (fileStamp(path) === known) await sleep(ROUND, AbortSignal.any([woken.signal, signal]), clock);
    const settled = await settledStamp(path, known, signal, clock);
    if (signal.aborted || settled === known) continue;
    known = settled;
    changed();
  }
  stop();
}

async function settledStamp(path: string, known: string | undefined, signal: AbortSignal, clock: Clock) {
  let before = fileStamp(path);
  while (before !== known && !signal.aborted) {
    await sleep(SETTLED, signal, clock);
    const now = fileStamp(path);
    if (now === before) return now;
    before = now;
  }
  return before;
}

function watchDirectory(
  directory: string,
  { onEvent, onEnd }: { onEvent(): void; onEnd(): void },
): FSWatcher | undefined {
  try {
    const watcher = watch(directory, { persistent: false }, onEvent);
    watcher.on('error', () => {
      watcher.close();
      onEnd();
    });
    return watcher;
  } catch {
    return undefined;
  }
}
