import { BOUNDS } from '../../../../src/api/bounds.ts';
import { type Backoff, backoffDelay } from '../../../../src/lib/backoff.ts';
import { type Clock, sleep } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { MicroserviceView, StatusReport } from '../../../../src/wire/agent.ts';
import { SYSTEM_FILES_ASKED, type SystemFileContent } from '../../../../src/wire/system-files.ts';
import type { Sent } from '../../domain/desired.ts';
import { jitter, type Random } from '../../domain/jitter.ts';
import type { Observed, Part } from '../../domain/part.ts';
import { base64Length, type SystemFilesItem } from '../../domain/system-files.ts';
import type { Resolution } from '../../domain/volume-mounts.ts';
import { errorText } from '../../machine/log.ts';
import { UnusedFiles } from '../../machine/unused-files.ts';
import { FileSets, type FileSetsDependencies, type MissingFile } from './file-sets.ts';

/** How often failures and what nothing uses are looked at, ms. */
const LOOK_EVERY = 30_000;
/** The controller does not answer. */
const AFTER_LOSS: Backoff = { baseMs: 1_000, factor: 1.5, maxMs: 30_000, spread: 0.5 };
/** The controller does not have what it listed, or sends other content. */
const AFTER_REFUSAL: Backoff = { baseMs: 2_000, factor: 2, maxMs: 300_000, spread: 0.5 };
/** Bytes of files that one request asks for, unless one file alone has more. */
const BATCH_BYTES = 1024 * 1024;

export interface SystemFilesDependencies extends FileSetsDependencies {
  clock: Clock;
  random: Random;
  log: Log;
  observed: Observed;
  /** digest of the list that the controller sent last */
  listDigest(): string | undefined;
  /**
   * Fetches content, base64 by digest, in a response of at most `limit` bytes. Rejects when the controller does not answer;
   * `retryAfter` of the error is a time in ms that it asks for.
   */
  fetch(digests: readonly string[], limit: number, signal: AbortSignal): Promise<SystemFileContent['contents']>;
  /** The content here, or the problems with it, have changed. */
  changed(): void;
}

/**
 * Keeps the files that the system itself has on this machine. The list of the controller has the digest of each file; only
 * content that no set on the disk has is fetched.
 */
export class SystemFiles implements Part<'systemFiles'> {
  readonly #deps: SystemFilesDependencies;
  readonly #sets: FileSets;
  readonly #unused: UnusedFiles;
  #sent: Sent['systemFiles'];
  /** of the list */
  #digest = '';
  /** digest of the last list whose sets were all here, and the changes of the sets at that time */
  #complete = { digest: '', changes: 0 };
  #hasReceived = false;
  #failures = 0;
  /** when missing content is asked for next, by the clock's `now` */
  #dueAt = 0;
  /** why content could not be fetched last */
  #lost = '';
  #shown = '';
  #wake = () => {};

  constructor(deps: SystemFilesDependencies) {
    this.#deps = deps;
    this.#sets = new FileSets(deps);
    this.#unused = new UnusedFiles({
      ...deps,
      what: 'system files',
      remove: (inUse) => this.#sets.tidy(inUse),
    });
  }

  get problems(): string[] {
    return [...this.#sets.problems.map((text) => `system files: ${text}`), ...this.#unused.problems];
  }

  get items(): SystemFilesItem[] {
    return this.#sets.items;
  }

  report(): StatusReport {
    if (!this.#sent) return {};
    const { digest, changes } = this.#complete;
    const problem = this.#sets.problems.join('; ').slice(0, BOUNDS.message);
    const whole = changes === this.#sets.changes ? digest : '';
    return { systemFiles: { digest: whole, ...(problem && { problem }), sets: this.#sets.digests } };
  }

  write({ systemFiles }: Pick<Sent, 'systemFiles'>): void {
    this.#unused.noteChange();
    const isOther = systemFiles !== this.#sent;
    if (!isOther && !this.#hasReceived && !this.#sets.hasFailed) return;
    this.#sent = systemFiles;
    this.#hasReceived = false;
    this.#digest = this.#deps.listDigest() ?? '';
    this.#sets.apply(systemFiles);
    if (isOther) {
      this.#failures = 0;
      this.#dueAt = this.#deps.clock.now();
      this.#wake();
    }
    this.#show();
  }

  resolve(view: MicroserviceView): Resolution {
    return this.#sets.resolve(view);
  }

  observed(): void {
    this.#unused.look();
    this.#show();
  }

  /** Fetches missing content, tries again what failed, and removes what nothing uses, until the signal fires. */
  async run(signal: AbortSignal, applyAgain: () => void): Promise<void> {
    while (!signal.aborted) {
      await this.#rest(signal);
      if (signal.aborted) return;
      if (this.#untilDue() <= 0) await this.#fetch(signal, applyAgain);
      else if (this.#sets.hasFailed) applyAgain();
      this.#unused.noteChange();
      this.observed();
    }
  }

  /** Milliseconds until missing content is asked for. */
  #untilDue(): number {
    return this.#sets.missing.length > 0 ? this.#dueAt - this.#deps.clock.now() : Infinity;
  }

  async #rest(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#deps;
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    const milliseconds = Math.max(0, Math.min(jitter(LOOK_EVERY, random), this.#untilDue()));
    await sleep(milliseconds, AbortSignal.any([woken.signal, signal]), clock);
    this.#wake = () => {};
  }

  /** Asks once for all that is missing. What has arrived is applied, whatever became of the rest. */
  async #fetch(signal: AbortSignal, applyAgain: () => void): Promise<void> {
    const { clock, random, fetch } = this.#deps;
    const sent = this.#sent;
    let delay: (failures: number) => number = (failures) => backoffDelay(AFTER_REFUSAL, failures, random);
    try {
      for (const batch of batchesOf(this.#sets.missing)) {
        const digests = batch.map(({ digest }) => digest);
        this.#sets.take(batch, await fetch(digests, limitOf(batch), signal));
        this.#hasReceived = true;
        if (sent !== this.#sent) break;
      }
      this.#noteLoss('');
    } catch (error) {
      if (signal.aborted) return;
      const { retryAfter = 0 } = error as { retryAfter?: number };
      delay = (failures) => Math.max(backoffDelay(AFTER_LOSS, failures, random), retryAfter);
      this.#noteLoss(errorText(error));
    }
    if (this.#hasReceived) applyAgain();
    // Another list is asked for at once.
    if (sent !== this.#sent || this.#sets.missing.length === 0) return;
    this.#failures++;
    this.#dueAt = clock.now() + delay(this.#failures);
  }

  #noteLoss(error: string): void {
    if (error !== '' && error !== this.#lost)
      this.#deps.log.warn({ error }, "The system's files could not be fetched; the files here stay");
    this.#lost = error;
  }

  /** Notes whether all is here, and has a report sent when there is something new in it. */
  #show(): void {
    if (this.#sets.isComplete) this.#complete = { digest: this.#digest, changes: this.#sets.changes };
    const shown = JSON.stringify([this.report(), this.problems]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#deps.changed();
  }
}

/** Files by the requests that ask for them. */
function batchesOf(files: readonly MissingFile[]): MissingFile[][] {
  const batches: MissingFile[][] = [];
  let bytes = Infinity;
  for (const file of files) {
    const batch = batches.at(-1);
    if (!batch || batch.length === SYSTEM_FILES_ASKED || bytes + file.size > BATCH_BYTES) {
      batches.push([file]);
      bytes = file.size;
    } else {
      batch.push(file);
      bytes += file.size;
    }
  }
  return batches;
}

/** Greatest length of the response with these files: the content, and 80 characters around each. */
function limitOf(batch: readonly MissingFile[]): number {
  return 1024 + batch.reduce((sum, { size }) => sum + base64Length(size) + 80, 0);
}
