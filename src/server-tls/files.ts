import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type Clock, systemClock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { credentialsOf, type TlsCredentials } from './credentials.ts';
import { CurrentCredentials, type TlsSource } from './source.ts';

interface TlsFiles {
  certFile: string;
  keyFile: string;
  caFile?: string;
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
  let cancel = () => {};

  async function readAgain(): Promise<void> {
    const [cert = '', key = '', authorities] = await Promise.all(pathsOf(files).map((path) => readFile(path, 'utf8')));
    credentials.take(named(files, credentialsOf({ cert, key, authorities })));
  }

  function schedule(): void {
    if (stop.signal.aborted) return;
    cancel = clock.after(EVERY_MS, () => {
      readAgain()
        .catch((error: Error) => credentials.take({ problem: error.message }))
        .finally(schedule);
    });
  }

  const [cert = '', key = '', authorities] = pathsOf(files).map((path) => readFileSync(path, 'utf8'));
  const found = named(files, credentialsOf({ cert, key, authorities }));
  if ('problem' in found) throw new Error(`the certificate of the controller cannot be used: ${found.problem}`);
  credentials.take(found);
  schedule();
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

const pathsOf = ({ certFile, keyFile, caFile }: TlsFiles) => [certFile, keyFile, ...(caFile ? [caFile] : [])];

/** The problem with the names of the files, which may differ from the names in its text. */
const named = (
  { certFile, keyFile }: TlsFiles,
  found: TlsCredentials | { problem: string },
): TlsCredentials | { problem: string } =>
  'problem' in found ? { problem: `${certFile}, ${keyFile}: ${found.problem}` } : found;
