import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type Clock, systemClock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { credentialsOf, type TlsCredentials } from './credentials.ts';
import { CurrentCredentials, type TlsSource } from './source.ts';

/** A text in PEM: in a file, which is read again, or given with the environment by this variable. */
export type PemSource = { file: string } | { text: string; variable: string };

export interface TlsFiles {
  cert: PemSource;
  key: PemSource;
  /** what leads from the certificate to its authority, where `cert` has the certificate alone */
  intermediates?: PemSource;
  ca?: PemSource;
}

/** The files are read again so often. A watch would miss the kubelet, which switches a symbolic link of another folder. */
const EVERY_MS = 10_000;

/**
 * The certificate in files, such as a mounted Secret, read again without a restart. Throws where they cannot be used at the start; later
 * ones that cannot be used, such as half of a new pair, leave the present one in use.
 */
export function createTlsFiles(files: TlsFiles, { log, clock = systemClock }: { log: Log; clock?: Clock }): TlsSource {
  const credentials = new CurrentCredentials(log);
  const stop = new AbortController();
  const sources = [files.cert, files.key, files.intermediates, files.ca];
  let cancel = () => {};

  async function readAgain(): Promise<void> {
    const read = (source: PemSource | undefined) =>
      source && 'file' in source ? readFile(source.file, 'utf8') : source?.text;
    const texts = await Promise.all(sources.map(read));
    credentials.take(named(files, texts));
  }

  function schedule(): void {
    if (stop.signal.aborted) return;
    cancel = clock.after(EVERY_MS, () => {
      readAgain()
        .catch((error: Error) => credentials.take({ problem: error.message }))
        .finally(schedule);
    });
  }

  const readNow = (source: PemSource | undefined) =>
    source && 'file' in source ? readFileSync(source.file, 'utf8') : source?.text;
  const found = named(files, sources.map(readNow));
  if ('problem' in found) throw new Error(`the certificate of the controller cannot be used: ${found.problem}`);
  credentials.take(found);
  if (sources.some((source) => source && 'file' in source)) schedule();
  return {
    get current() {
      return credentials.current;
    },
    get problem() {
      return credentials.problem;
    },
    subscribe: (listener) => credentials.subscribe(listener),
    [Symbol.dispose]() {
      stop.abort();
      cancel();
    },
  };
}

/** Certificate, key, intermediates and authorities as credentials; a problem with the names of files, which may differ from the names in its text. */
function named(
  files: TlsFiles,
  [cert = '', key = '', intermediates, authorities]: readonly (string | undefined)[],
): TlsCredentials | { problem: string } {
  const found = credentialsOf({ cert, key, intermediates, authorities });
  if (!('problem' in found)) return found;
  const places = [files.cert, files.key, ...(files.intermediates ? [files.intermediates] : [])].map((source) =>
    'file' in source ? source.file : source.variable,
  );
  return { problem: `${places.join(', ')}: ${found.problem}` };
}
