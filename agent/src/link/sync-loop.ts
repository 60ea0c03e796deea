import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { StatusReport } from '../../../src/wire/agent.ts';
import {
  type ChangesReply,
  type Digests,
  does,
  formatHave,
  NAMES,
  parseHave,
  RESPONSES,
  responseOf,
  type SavedName,
  SECTIONS,
  type Section,
  type SectionThat,
} from '../../../src/wire/sections.ts';
import type { SavedResponse, ShortRequest } from '../domain/desired.ts';
import { jitter, type Random } from '../domain/jitter.ts';
import { errorText } from '../machine/log.ts';
import { delayAfterLoss, delayAfterRefusal } from './backoff.ts';
import { type Connection, type ControllerClient, ControllerError } from './client.ts';
import { delta } from './delta.ts';

const SECOND = 1000;
const SOON = 50;
/** Seconds that a long poll lasts when the network allows it. */
const LONGEST_WAIT = 60;
const SHORTEST_WAIT = 5;
/** Time without two cuts in a row after which longer polls are tried again. */
const TRUSTED_AFTER = 3600 * SECOND;

export interface SyncLoopDependencies {
  client: ControllerClient;
  /** when the controller last answered before this loop, Unix ms; 0 when it never did */
  lastContact?: number;
  clock: Clock;
  random: Random;
  log: Log;
  /** digests of the saved responses */
  have(): Digests;
  /** how a response is asked for when some of it is saved; undefined: as a whole */
  short(name: SavedName): ShortRequest | undefined;
  /** Saves responses, all or none, and acts on them. Throws DatabaseError, or ControllerError for an unreadable response. */
  save(responses: ReadonlyMap<SavedName, SavedResponse>): void;
  /** Carries out an action; the digest distinguishes it from the last one, the count is echoed. */
  carryOut(section: SectionThat<'act'>, digest: string, count: number | undefined): void;
  /** Exec or log sessions of this node have begun or ended. */
  sessionsChanged(): void;
  /** The controller wants to be known by other authorities. Throws DatabaseError, or ControllerError. */
  trust(signal: AbortSignal): Promise<void>;
  /** The controller deletes this node; this cannot be undone. */
  deleting(): void;
  /** The controller deletes this node and has received the confirmation. */
  deleted(): void;
  /** The complete report, optionally with measurements. */
  report(measurements: boolean): Promise<StatusReport>;
  /** The controller has this report now. */
  reported(report: StatusReport): void;
  /** seconds between reports when the controller answers polls at once */
  statusFrequency(): number;
  changeFrequency(): number;
}

/** A response could not be saved. This is not a problem of the connection. */
export class DatabaseError extends Error {
  override name = 'DatabaseError';
}

/** Turns an error of the database into a DatabaseError, so that it does not count as a problem of the connection. */
export function orDatabaseError(act: () => void): void {
  try {
    act();
  } catch (error) {
    throw new DatabaseError('the database does not take it', { cause: error });
  }
}

/**
 * Polls and reports while the agent is provisioned: a long poll fetches changes of the controller, and reports send changes
 * of this machine. No error response makes it remove anything.
 */
export class SyncLoop {
  readonly #deps: SyncLoopDependencies;
  #connection: Connection = 'NOT_CONNECTED';
  #error = '';
  #wait = LONGEST_WAIT;
  /** long polls that were cut since the last one that was not */
  #cuts = 0;
  #shortenedAt = 0;
  #hasLongPolls = false;
  /** start of the present long poll */
  #pollingSince: number | undefined;
  /** sections that this version ignores, with the digests that were last sent: the controller need not send them again */
  #passed: Digests = {};
  #sent: StatusReport = {};
  #changes = new AbortController();
  /** ends a poll whose connection is known to be dead */
  #dead = new AbortController();
  #online = new AbortController();
  #lastPing = 0;
  /** milliseconds that the last ping took */
  #roundTrip = 0;
  #lastContact: number;
  #databaseProblem = '';

  constructor(deps: SyncLoopDependencies) {
    this.#deps = deps;
    this.#lastContact = deps.lastContact ?? 0;
  }

  get connection(): { state: Connection; error: string; lastContact: number } {
    return { state: this.#connection, error: this.#error, lastContact: this.#lastContact };
  }

  /** Why the last responses could not be saved; empty when they were. */
  get databaseProblem(): string {
    return this.#databaseProblem;
  }

  /** Wakes the reporter: the state of this machine has changed. */
  changed(): void {
    this.#changes.abort();
  }

  /** Polls and reports until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    await sleep(500 * this.#deps.random(), signal, this.#deps.clock);
    await Promise.all([this.#pollLoop(signal), this.#reportLoop(signal)]);
  }

  async #pollLoop(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#deps;
    let failures = 0;
    let futile = 0;
    while (!signal.aborted) {
      const dead = new AbortController();
      this.#dead = dead;
      try {
        if (this.#lastPing === 0 || clock.now() - this.#lastPing > 3600 * SECOND) await this.#ping(signal);
        // The first poll does not wait, so that a response shows early that the connection works.
        const probe = this.#connection !== 'OK';
        const wait = probe ? undefined : Math.max(1, Math.round(jitter(this.#wait * SECOND, random) / SECOND));
        const began = clock.now();
        this.#pollingSince = probe ? undefined : began;
        const position = this.#deps.client.epochPosition;
        const reply = await this.#deps.client.changes(
          formatHave({ ...NAMES, ...this.#passed, ...this.#deps.have() }),
          wait,
          AbortSignal.any([signal, dead.signal]),
        );
        this.#pollingSince = undefined;
        const elapsed = clock.now() - began;
        this.#ok();
        failures = 0;
        if (wait !== undefined && elapsed >= (wait * SECOND) / 2) this.#noteLongPoll();
        if ((await this.#act(reply, signal)) || probe) {
          futile = 0;
          continue;
        }
        // A slow network must not be mistaken for a long poll.
        if (elapsed > SECOND + 2 * this.#roundTrip) {
          this.#hasLongPolls = true;
          futile = 0;
          continue;
        }
        // The controller ended the poll to send the next position.
        if (this.#deps.client.epochPosition !== position) {
          await sleep(jitter(SOON, random), signal, clock);
          continue;
        }
        // An early response without a change is from a replica that drains or a controller without long polls.
        futile++;
        if (futile > 3) this.#hasLongPolls = false;
        const delay = futile > 3 ? this.#deps.changeFrequency() * SECOND : SECOND * futile;
        await sleep(jitter(delay, random), signal, clock);
      } catch (error) {
        const elapsed = this.#pollingSince === undefined ? 0 : clock.now() - this.#pollingSince;
        this.#pollingSince = undefined;
        if (signal.aborted) return;
        if (dead.signal.aborted) continue;
        this.#noteCut(error, elapsed);
        const delay =
          error instanceof DatabaseError ? this.#delayAfterDatabaseError(error) : this.#delayAfter(error, ++failures);
        await sleep(delay, signal, clock);
      }
    }
  }

  async #ping(signal: AbortSignal): Promise<void> {
    const { client, clock } = this.#deps;
    const began = clock.now();
    await client.ping(signal);
    this.#lastPing = clock.now();
    this.#roundTrip = this.#lastPing - began;
  }

  /** A long poll that ends without a response was cut by the network; after two of them the next ones are shorter. */
  #noteCut(error: unknown, elapsed: number): void {
    const cut = error instanceof ControllerError && error.connection === 'NOT_CONNECTED' && error.status === 0;
    if (!cut || elapsed < SHORTEST_WAIT * SECOND || ++this.#cuts < 2) return;
    this.#cuts = 0;
    this.#shortenedAt = this.#deps.clock.now();
    this.#wait = Math.max(SHORTEST_WAIT, Math.round(this.#wait / 2));
    this.#deps.log.info({ seconds: this.#wait }, 'Shortening the long poll, since the network cuts it');
  }

  /** Tries longer polls again after a while, since the cause of the cuts may be gone. */
  #noteLongPoll(): void {
    this.#cuts = 0;
    const now = this.#deps.clock.now();
    if (this.#wait === LONGEST_WAIT || now - this.#shortenedAt < TRUSTED_AFTER) return;
    this.#shortenedAt = now;
    this.#wait = Math.min(LONGEST_WAIT, this.#wait * 2);
  }

  /** Fetches and saves the flagged sections. Returns whether there were any. */
  async #act(reply: ChangesReply, signal: AbortSignal): Promise<boolean> {
    const flagged = SECTIONS.filter((section) => reply[section] === true);
    if (flagged.length === 0) {
      this.#noteDatabaseProblem('');
      return false;
    }
    const due = parseHave(reply.due);
    if (flagged.includes('deleteNode')) {
      this.#deps.log.warn({}, 'The controller deletes this node');
      this.#deps.deleting();
      await this.#deps.client.deleteNode(signal);
      this.#deps.deleted();
      return true;
    }
    const before = formatHave({ ...this.#passed, ...this.#deps.have() });
    const responses = await this.#fetch(flagged, due, signal);
    if (responses.size > 0) this.#deps.save(responses);
    this.#noteDatabaseProblem('');
    if (flagged.some((section) => does(section, 'sessions'))) {
      // Whoever runs the sessions reads the lists: a terminal must not wait for a poll, nor slow one.
      this.#deps.sessionsChanged();
      // A user waits for these lists: they take the connection of this poll, and the next poll takes another.
      await new Promise(setImmediate);
    }
    for (const section of flagged) {
      if (does(section, 'act')) this.#deps.carryOut(section, due[section] ?? '', reply.actions?.[section]);
      if (!does(section, 'save') && !does(section, 'trust')) this.#passed[section] = due[section] ?? '';
    }
    // Last, so that what goes wrong here keeps nothing else of the desired state waiting.
    if (flagged.some((section) => does(section, 'trust'))) await this.#deps.trust(signal);
    // A controller that sends no digests gets its `lastUpdated` back as the acknowledgement of all sections.
    if (reply.due === undefined) await this.#deps.client.acknowledge(reply.lastUpdated, signal);
    else if (formatHave({ ...this.#passed, ...this.#deps.have() }) === before) return false;
    return true;
  }

  async #fetch(flagged: readonly Section[], due: Digests, signal: AbortSignal): Promise<Map<SavedName, SavedResponse>> {
    const names = new Set(flagged.flatMap((section) => (does(section, 'save') ? responseOf(section) : [])));
    const responses = new Map<SavedName, SavedResponse>();
    for (const name of names) {
      const { path, sections, missing } = RESPONSES[name];
      const short = this.#deps.short(name);
      const document = await this.#deps.client.document(`${path}${short?.query ?? ''}`, signal);
      // A replica of the former release answers, and another one has raised the flag: the next poll may reach that again.
      if (!document && missing === 'unknown') continue;
      const sent = document?.etag === undefined ? due : parseHave(document.etag);
      const digests = Object.fromEntries(sections.flatMap((each) => (sent[each] ? [[each, sent[each]]] : [])));
      const body = document?.body ?? '';
      responses.set(name, { digests, body: short && document ? short.whole(body) : body });
      this.#deps.log.info({ section: name }, 'Received a change');
    }
    return responses;
  }

  async #reportLoop(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#deps;
    let failures = 0;
    let lastWhole = 0;
    while (!signal.aborted) {
      if (this.#connection !== 'OK') {
        await sleep(60 * SECOND, AbortSignal.any([signal, this.#online.signal]), clock);
        // After a time without contact the controller may have lost the reports.
        this.#sent = {};
        continue;
      }
      this.#changes = new AbortController();
      try {
        const due = clock.now() - lastWhole >= this.#idle();
        const measurements = due || Object.keys(this.#sent).length === 0;
        const report = await this.#deps.report(measurements);
        const change = delta(this.#sent, report, measurements);
        if (Object.keys(change).length > 0 || due) {
          const isWhole = Object.keys(this.#sent).length === 0;
          const sent = { ...change, ...(measurements && { systemTime: clock.wall() }) };
          const wantsAll = await this.#deps.client.report(sent, signal);
          this.#sent = { ...this.#sent, ...change };
          if (wantsAll && !isWhole) {
            this.#sent = {};
            this.changed();
          }
          this.#deps.reported(report);
          this.#ok();
        }
        if (measurements) lastWhole = clock.now();
        failures = 0;
        const next = lastWhole + jitter(this.#idle(), random) - clock.now();
        await sleep(Math.max(SECOND, next), AbortSignal.any([signal, this.#changes.signal]), clock);
        // Changes come in bursts, which are collected into one report.
        await sleep(200, signal, clock);
      } catch (error) {
        if (signal.aborted) return;
        // A refused report is not repeated unchanged: the next one is complete.
        this.#sent = {};
        const delay = this.#delayAfter(error, ++failures);
        // The poll uses the same connection and would notice only at its own deadline.
        if (error instanceof ControllerError && error.code === 'TIMEOUT') this.#dead.abort();
        await sleep(delay, signal, clock);
      }
    }
  }

  /** Milliseconds between reports when nothing changes. */
  #idle(): number {
    const elapsed = this.#pollingSince !== undefined && this.#deps.clock.now() - this.#pollingSince > 2 * SECOND;
    return (this.#hasLongPolls || elapsed ? 60 : this.#deps.statusFrequency()) * SECOND;
  }

  #ok(): void {
    this.#lastContact = this.#deps.clock.wall();
    if (this.#connection === 'OK') return;
    this.#deps.log.info({ controllerUrl: this.#deps.client.controllerUrl }, 'Connected to the controller');
    this.#connection = 'OK';
    this.#error = '';
    this.#online.abort();
    this.#online = new AbortController();
  }

  /** A change that waits for disk space looks like one that is ignored, so it is reported at once. */
  #noteDatabaseProblem(problem: string): void {
    if (problem === this.#databaseProblem) return;
    this.#databaseProblem = problem;
    this.changed();
  }

  #delayAfterDatabaseError(error: DatabaseError): number {
    this.#deps.log.error({ error: errorText(error) }, 'Cannot keep what the controller said');
    this.#noteDatabaseProblem(errorText(error));
    return jitter(10 * SECOND, this.#deps.random);
  }

  /** Records the error and returns the delay before the next request. */
  #delayAfter(error: unknown, failures: number): number {
    const { log, random, client } = this.#deps;
    const problem = error instanceof ControllerError ? error : undefined;
    const state = problem?.connection ?? 'INTERNAL_ERROR';
    const text = problem?.code ? `${errorText(error)} (${problem.code})` : errorText(error);
    if (state !== this.#connection || text !== this.#error)
      log.warn(
        { controllerUrl: client.controllerUrl, connection: state, error: text },
        'The controller cannot be used',
      );
    this.#connection = state;
    this.#error = text;
    // One of the clocks may have been set. After a lost connection, asking for the time would only add delay.
    if (state === 'UNAUTHORIZED') this.#lastPing = 0;
    if (problem?.retryAfter !== undefined) return problem.retryAfter * (1 + random() / 2) + 100;
    return (state === 'UNAUTHORIZED' ? delayAfterRefusal : delayAfterLoss)(failures, random);
  }
}
