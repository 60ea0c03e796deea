import type { KeyObject } from 'node:crypto';
import { dirname, join } from 'node:path';
import type { Architecture } from '../../../src/api/names.ts';
import { parseVersion } from '../../../src/api/version.ts';
import { type Backoff, backoffDelay } from '../../../src/lib/backoff.ts';
import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { StatusReport, UpdateReport, VersionReply } from '../../../src/wire/agent.ts';
import type { Random } from '../domain/jitter.ts';
import type { Part } from '../domain/part.ts';
import {
  exists,
  fileDigest,
  fileSize,
  finishFile,
  linkFileSync,
  listDirectory,
  makeDirectory,
  removePath,
  renameDurably,
  writeDurably,
} from '../machine/disk.ts';
import { errorText } from '../machine/log.ts';
import { type AccessTo, BusyError, fetchFile, fetchSmall } from './download.ts';
import { fitting, ReleaseError, type ReleaseFile, type ReleaseManifest, verifiedManifest } from './manifest.ts';
import type { Program, UpdateState } from './program.ts';

/** Attempts in a row that bring nothing, after which an action has failed. */
const ATTEMPTS = 6;
/** Attempts in all, without those that a busy server put off. */
const MOST_ATTEMPTS = 100;
const RETRY: Backoff = { baseMs: 5000, factor: 2, maxMs: 300_000, spread: 0.1 };
/** Bytes that stay free on the disk of the program directory. */
const WATERMARK = 256 * 1024 * 1024;

export interface UpdaterDependencies {
  program: Program;
  /** those of this machine, whose signatures count; none: no update */
  keys: readonly KeyObject[];
  /** the release that runs */
  version: string;
  architecture: Architecture;
  clock: Clock;
  random: Random;
  log: Log;
  /** how the places of releases are reached */
  accessTo: AccessTo;
  /** what the controller wants; undefined when nothing is requested */
  requested(signal: AbortSignal): Promise<VersionReply | undefined>;
  /** Starts the agent again, by the launcher. */
  restart(): void;
  /** Whether it is ready, or what is wrong, has changed. */
  changed(): void;
}

/**
 * Carries out version actions: fetches a release, verifies it, and switches to it. What happens after the switch until the
 * first report is confirmed is the launcher's (trial.ts). Every step can be cut off by a loss of power and is begun again.
 */
export class Updater implements Part {
  /** carries out version actions */
  readonly executor = {
    start: (action: string) => this.begin(action),
    resume: (action: string | undefined, signal: AbortSignal) => this.resume(action, signal),
    isDone: (action: string) => this.isFinished(action),
    forget: () => this.forget(),
  };
  readonly #deps: UpdaterDependencies;
  #state: UpdateState;
  #trouble = '';
  #running: { action: string; abort: AbortController } | undefined;
  #end: AbortSignal | undefined;

  constructor(deps: UpdaterDependencies) {
    this.#deps = deps;
    this.#state = withoutMended(deps.program.state, deps.version);
    const { trial } = this.#state;
    // Another package must not bring back what is over. Without a disk to write to, it is over for this process.
    if (deps.program.state.failure && !this.#state.failure && !trial) this.#saveIfPossible(this.#state);
    // The launcher could not write, and so started the former release.
    if (trial && trial.version !== deps.version)
      this.#trouble = `${trial.version} is not on trial, since ${deps.program.directory} could not be written; the next start of the agent continues`;
  }

  get isReadyToUpgrade(): boolean {
    return this.#isIdle && this.#deps.keys.length > 0;
  }

  get isReadyToRollback(): boolean {
    return this.#isIdle && this.#previous !== undefined;
  }

  get #isIdle(): boolean {
    return this.#running === undefined && this.#state.trial === undefined;
  }

  get #previous(): string | undefined {
    const { previous } = this.#state;
    return previous !== this.#deps.version && this.#deps.program.versions().includes(previous ?? '')
      ? previous
      : undefined;
  }

  /** What went wrong with the last action, for people. */
  get problems(): string[] {
    const { failure } = this.#state;
    if (this.#trouble) return [`update: ${this.#trouble}`];
    return failure ? [`update: ${failure.version} failed, ${this.#deps.version} runs: ${failure.reason}`] : [];
  }

  /** What the controller is told of the last action. */
  get progress(): UpdateReport {
    const { version } = this.#deps;
    const { trial, failure } = this.#state;
    if (this.#trouble) return { state: 'Retrying', message: cut(this.#trouble) };
    if (trial) return { state: 'OnTrial', version: trial.version };
    if (this.#running) return { state: 'Downloading' };
    if (!failure) return { state: 'Idle', ...(this.#deps.keys.length === 0 && { message: NO_KEY }) };
    const message = `${failure.version} failed, ${version} runs: ${failure.reason}`;
    return { state: 'Failed', version: failure.version.slice(0, 64), message: cut(message) };
  }

  report(): StatusReport {
    const { isReadyToUpgrade, isReadyToRollback, progress } = this;
    return { isReadyToUpgrade, isReadyToRollback, update: progress };
  }

  isFinished(action: string): boolean {
    return this.#state.finished === action;
  }

  /** Continues an action that an earlier process noted, until the signal fires. */
  resume(action: string | undefined, signal: AbortSignal): void {
    this.#end = signal;
    if (action) this.begin(action);
  }

  /** Begins an action, named by its digest; one that is under way gives way. */
  begin(action: string): void {
    if (!this.#end || this.#end.aborted || this.isFinished(action) || this.#state.trial) return;
    if (this.#running?.action === action) return;
    this.#running?.abort.abort();
    const abort = new AbortController();
    const running = { action, abort };
    this.#running = running;
    this.#trouble = '';
    this.#deps.changed();
    void this.#carryOut(action, AbortSignal.any([abort.signal, this.#end])).finally(() => {
      if (this.#running === running) this.#running = undefined;
      this.#deps.changed();
    });
  }

  /** The controller has a report of this process. The first one confirms a new release. */
  confirm(): void {
    const { program, version, log } = this.#deps;
    const { trial, failure, ...rest } = this.#state;
    if (trial?.version !== version) return;
    try {
      this.#save({ ...rest, previous: trial.from, ...(trial.action && { finished: trial.action }) });
      program.keepOnly([version, trial.from]);
      log.info({ version, before: trial.from }, 'The new release is confirmed');
    } catch (error) {
      log.error({ error: errorText(error) }, 'The new release could not be confirmed');
    }
    this.#deps.changed();
  }

  /**
   * The controller that requested the last action is no longer ours: neither its failure nor its digest means anything to
   * the next one. What the machine knows of releases stays, and a trial goes on.
   */
  forget(): void {
    this.#running?.abort.abort();
    this.#running = undefined;
    this.#trouble = '';
    const { failure, finished, trial, ...rest } = this.#state;
    if (!failure && !finished && !trial) return;
    this.#saveIfPossible({ ...rest, ...(trial && { trial: { ...trial, action: '' } }) });
  }

  #saveIfPossible(state: UpdateState): void {
    try {
      this.#save(state);
    } catch (error) {
      this.#state = state;
      this.#deps.log.warn({ error: errorText(error) }, 'What is over of the last version action could not be saved');
    }
  }

  async #carryOut(action: string, signal: AbortSignal): Promise<void> {
    const { clock, random, log } = this.#deps;
    let version = '';
    for (let [futile, attempts] = [0, 1]; !signal.aborted; futile++, attempts++) {
      const before = this.#downloaded();
      try {
        const wish = await this.#deps.requested(signal);
        if (signal.aborted) return;
        if (!wish || this.#isInstalled(wish)) {
          // Nothing is asked for any more, or what is asked for runs: what failed before is over.
          const { failure, ...rest } = this.#state;
          this.#save({ ...rest, finished: action });
          this.#trouble = '';
          return;
        }
        version = wish.semver ?? (wish.versionCommand === 'rollback' ? (this.#previous ?? '') : 'the latest release');
        await (wish.versionCommand === 'rollback' ? this.#rollBack(wish, action) : this.#upgrade(wish, action, signal));
        this.#trouble = '';
        return;
      } catch (error) {
        if (signal.aborted) return;
        // A server that asks for patience is there: a fleet that upgrades at once takes turns, however long that takes.
        const asked = error instanceof BusyError ? error.retryAfter * (1 + random()) : 0;
        if (asked > 0) attempts--;
        if (this.#downloaded() > before || asked > 0) futile = 0;
        const isFinal = error instanceof ReleaseError || futile >= ATTEMPTS || attempts >= MOST_ATTEMPTS;
        log.warn({ version, error: errorText(error), again: !isFinal }, 'A version action failed');
        if (isFinal && this.#fail(action, version, errorText(error))) return;
        this.#trouble = `${version || 'a version action'}: ${errorText(error)}; it is tried again`;
        this.#deps.changed();
        await sleep(Math.max(asked, Math.round(backoffDelay(RETRY, futile + 1, random))), signal, clock);
      }
    }
  }

  #isInstalled({ versionCommand, semver }: VersionReply): boolean {
    return versionCommand === 'upgrade' && semver !== undefined && parseVersion(semver) === this.#deps.version;
  }

  /** Ends an action without a switch; false when that cannot be saved. */
  #fail(action: string, version: string, reason: string): boolean {
    const { trial, ...rest } = this.#state;
    try {
      this.#save({ ...rest, failure: { version, reason, runs: this.#deps.version }, finished: action });
      removePath(this.#downloads);
      this.#trouble = '';
      return true;
    } catch {
      return false;
    }
  }

  async #upgrade({ semver, releasesUrl }: VersionReply, action: string, signal: AbortSignal): Promise<void> {
    const { program, keys, version: installed, architecture, accessTo, log } = this.#deps;
    if (!releasesUrl) throw new ReleaseError('the controller names no place of releases');
    if (keys.length === 0) throw new ReleaseError(NO_KEY);
    const version = semver === undefined ? undefined : parseVersion(semver);
    if (semver !== undefined && version === undefined) throw new ReleaseError('it is not a version such as 1.2.3');
    const at = releasesUrl.replace(/(?<!\/)\/+$/, '');
    const folder = `${at}/${version ?? 'latest'}`;
    const bytes = await fetchSmall(`${folder}/manifest.json`, accessTo, signal);
    const signature = await fetchSmall(`${folder}/manifest.json.sig`, accessTo, signal);
    const { manifest, digest } = verifiedManifest(bytes, signature.toString('utf8'), keys);
    const files = fitting(manifest, { version, installed, architecture });
    const bad = this.#state.bad[manifest.version];
    if (bad?.digest === digest) throw new ReleaseError(`it failed here before and is not tried again: ${bad.reason}`);
    for (const [path, file] of files) await this.#obtain(path, file, `${at}/blobs/${file.sha256}`, signal);
    this.#assemble(manifest, files);
    log.info({ version: manifest.version }, 'A release is complete');
    signal.throwIfAborted();
    this.#switchTo({ version: manifest.version, digest, action, from: installed, starts: 0 });
    program.switchTo(manifest.version);
    this.#deps.restart();
  }

  async #rollBack({ semver }: VersionReply, action: string): Promise<void> {
    const { program, version: from } = this.#deps;
    const version = this.#previous;
    if (version === undefined) throw new ReleaseError('there is no former release on this machine');
    if (semver !== undefined && parseVersion(semver) !== version)
      throw new ReleaseError(`the former release is ${version}; another one is had with the command upgrade`);
    this.#switchTo({ version, digest: '', action, from, starts: 0 });
    program.switchTo(version);
    this.#deps.restart();
  }

  #switchTo(trial: NonNullable<UpdateState['trial']>): void {
    const { failure, ...rest } = this.#state;
    this.#save({ ...rest, trial });
  }

  /** A file of the installed release with the same content is used again: the node of most releases is the same. */
  async #obtain(name: string, file: ReleaseFile, url: string, signal: AbortSignal): Promise<void> {
    const { program, version } = this.#deps;
    makeDirectory(this.#downloads, 0o755);
    const path = join(this.#downloads, file.sha256);
    const present = join(program.release(version), name);
    const isSame = fileSize(present) === file.size && (await fileDigest(present)) === file.sha256;
    if (isSame) return linkFileSync(present, path);
    const free = program.freeBytes ?? Number.POSITIVE_INFINITY;
    const missing = file.size - fileSize(path);
    if (free < missing + WATERMARK)
      throw new ReleaseError(`it needs ${mebibytes(missing + WATERMARK)} MiB free, and there are ${mebibytes(free)}`);
    await fetchFile({ ...file, name, url }, path, this.#deps.accessTo, signal);
  }

  /** Puts the files under their names. The directory gets its name when all of it is on the disk. */
  #assemble({ version, nodeFlags }: ReleaseManifest, files: ReadonlyMap<string, ReleaseFile>): void {
    const { program } = this.#deps;
    const draft = join(program.releases, `.${version}.new`);
    removePath(draft);
    makeDirectory(draft, 0o755);
    for (const [path, { sha256 }] of files) {
      makeDirectory(dirname(join(draft, path)), 0o755);
      linkFileSync(join(this.#downloads, sha256), join(draft, path));
      finishFile(join(draft, path), 0o755);
    }
    for (const folder of new Set([...files.keys()].map(dirname))) finishFile(join(draft, folder), 0o755);
    writeDurably(join(draft, 'release.json'), `${JSON.stringify({ version, nodeFlags })}\n`, 0o644);
    // An earlier attempt may have left it, and it is not what runs.
    if (exists(program.release(version))) removePath(program.release(version));
    renameDurably(draft, program.release(version));
    removePath(this.#downloads);
  }

  get #downloads(): string {
    return join(this.#deps.program.releases, '.download');
  }

  #downloaded(): number {
    return listDirectory(this.#downloads).reduce((sum, name) => sum + fileSize(join(this.#downloads, name)), 0);
  }

  #save(state: UpdateState): void {
    this.#deps.program.save(state);
    this.#state = state;
  }
}

/** A package has brought the machine to another release since: what failed before is over. */
function withoutMended({ failure, ...rest }: UpdateState, version: string): UpdateState {
  if (!failure) return rest;
  const isMended = failure.version === version || (failure.runs !== undefined && failure.runs !== version);
  return isMended ? rest : { ...rest, failure };
}

/** Why a machine with a launcher installs nothing. */
const NO_KEY = 'this machine has no release key (setting releaseKeyFile)';

const cut = (text: string) => text.slice(0, 512);

const mebibytes = (bytes: number) => Math.ceil(bytes / 1024 ** 2);
