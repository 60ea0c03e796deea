import type { Log } from '../lib/log.ts';
import { textOfTime } from '../subjects/pki/rules/validity.ts';
import type { TlsCredentials } from './credentials.ts';

/** Where the controller takes its certificate from; every replica follows it by itself. */
export interface TlsSource extends Disposable {
  /** absent while there are none; then no connection succeeds */
  readonly current: TlsCredentials | undefined;
  /** why there are none, for people; undefined once there are */
  readonly problem: string | undefined;
  /** Calls the listener after each change of the credentials. */
  subscribe(listener: (credentials: TlsCredentials) => void): Disposable;
}

/** The credentials that a source has found last, and who is to know. */
export class CurrentCredentials {
  readonly #log: Log;
  readonly #listeners = new Set<(credentials: TlsCredentials) => void>();
  #current: TlsCredentials | undefined;
  #problem: string | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  get current(): TlsCredentials | undefined {
    return this.#current;
  }

  get problem(): string | undefined {
    return this.#current ? undefined : this.#problem;
  }

  subscribe(listener: (credentials: TlsCredentials) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** Takes what a source has found: credentials, or why there are none; then the former ones stay in use. */
  take(found: TlsCredentials | { problem: string }): void {
    if ('problem' in found) {
      this.#takeProblem(found.problem);
      return;
    }
    this.#problem = undefined;
    const before = this.#current;
    if (before?.cert === found.cert && before.key === found.key && before.authorities === found.authorities) return;
    this.#current = found;
    const { subject, issuer, fingerprint, notAfter } = found.facts;
    this.#log.info(
      { subject, issuer, fingerprint, notAfter: textOfTime(notAfter) },
      before ? 'Serving the next certificate' : 'Serving the certificate',
    );
    for (const listener of [...this.#listeners]) listener(found);
  }

  #takeProblem(problem: string): void {
    if (problem === this.#problem) return;
    this.#problem = problem;
    if (this.#current) this.#log.warn({ problem }, 'The next certificate cannot be served; the present one stays');
    else this.#log.info({ problem }, 'Waiting for the certificate of the controller');
  }
}
