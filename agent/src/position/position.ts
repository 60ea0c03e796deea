import { type Clock, sleep } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { AgentConfig, StatusReport } from '../../../src/wire/agent.ts';
import type { Config } from '../domain/config.ts';
import { jitter, type Random } from '../domain/jitter.ts';
import { NmeaLines, readNmea } from '../domain/nmea.ts';
import type { Part } from '../domain/part.ts';
import type { Coordinates, Fix } from '../domain/position.ts';
import { positionIn, shownUrl } from '../domain/position-lookup.ts';
import { errorText } from '../machine/log.ts';

const SECOND = 1000;
/** A receiver has so long, ms, to send a sentence with a position; it sends one each second. */
const READING = 10 * SECOND;
/** Bytes of one reading: far more than a receiver sends in its time. */
const MOST_BYTES = 256 * 1024;
/** After failures nothing waits longer, ms, than this and than the settings say. */
const LONGEST_WAIT = 300 * SECOND;
/** Degrees that a machine has to move before its controller gets another position: what a receiver says is never quite the same. */
const MOVED = 0.0001;

export interface PositionDependencies {
  config: Pick<Config, 'gpsLookupUrl'>;
  clock: Clock;
  random: Random;
  log: Log;
  /** the settings in force */
  settings(): Pick<AgentConfig, 'gpsMode' | 'gpsDevice' | 'gpsScanFrequency'>;
  /** what a device sends, until the signal fires */
  readDevice(path: string, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** the answer of an address; throws for any other than 200 */
  lookUp(url: string, signal: AbortSignal): Promise<string>;
  /** the position that is reported, or a problem, is another one now */
  changed(): void;
}

/** Where the position comes from: a receiver, or a service that knows the address of this machine. */
type Source = { kind: 'device' | 'address'; place: string };

/** Finds out where the machine is, for the modes `auto` and `dynamic`; in the others its settings say so. */
export class Position implements Part {
  readonly #deps: PositionDependencies;
  #source: Source | undefined;
  #fix: Fix | undefined;
  #reported: Coordinates | undefined;
  #problem = '';
  #wake = new AbortController();

  constructor(deps: PositionDependencies) {
    this.#deps = deps;
  }

  /** The last position that was found; undefined before the first one, and in the other modes. */
  get fix(): Fix | undefined {
    return this.#isCurrent() ? this.#fix : undefined;
  }

  /** The position for the report, which stays the same while the machine does not move. */
  get reported(): Coordinates | undefined {
    return this.#isCurrent() ? this.#reported : undefined;
  }

  get problems(): string[] {
    return this.#problem && this.#isCurrent() ? [`position: ${this.#problem}`] : [];
  }

  report(): StatusReport {
    const { gpsMode = 'off' } = this.#deps.settings();
    if (gpsMode === 'off') return { gpsStatus: 'OFF' };
    const isKnown = gpsMode === 'manual' || (this.fix !== undefined && this.#problem === '');
    return { gpsStatus: isKnown ? 'HEALTHY' : 'UNHEALTHY' };
  }

  /** The settings may be others now. */
  settingsChanged(): void {
    if (!this.#isCurrent()) this.#wake.abort();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#deps;
    let failures = 0;
    while (!signal.aborted) {
      this.#wake = new AbortController();
      const until = AbortSignal.any([signal, this.#wake.signal]);
      if (!this.#isCurrent()) {
        failures = 0;
        this.#begin(this.#wanted());
      }
      const source = this.#source;
      if (!source) {
        await sleep(2 ** 31 - 1, until, clock);
        continue;
      }
      const isFound = await this.#look(source, until);
      if (until.aborted) continue;
      failures = isFound ? 0 : failures + 1;
      const { gpsScanFrequency = 60 } = this.#deps.settings();
      const pause = gpsScanFrequency * SECOND;
      const longest = Math.max(pause, LONGEST_WAIT);
      await sleep(
        failures === 0 ? pause : jitter(Math.min(pause * 2 ** Math.min(failures - 1, 16), longest), random),
        until,
        clock,
      );
    }
  }

  #begin(source: Source | undefined): void {
    this.#source = source;
    this.#fix = undefined;
    this.#reported = undefined;
    this.#problem = '';
    this.#deps.changed();
  }

  #wanted(): Source | undefined {
    const { config, settings } = this.#deps;
    const { gpsMode, gpsDevice = '' } = settings();
    if (gpsMode === 'dynamic' && gpsDevice) return { kind: 'device', place: gpsDevice };
    return gpsMode === 'auto' && config.gpsLookupUrl ? { kind: 'address', place: config.gpsLookupUrl } : undefined;
  }

  #isCurrent(): boolean {
    const wanted = this.#wanted();
    return wanted?.kind === this.#source?.kind && wanted?.place === this.#source?.place;
  }

  /** Looks once; answers whether a position was found. */
  async #look(source: Source, signal: AbortSignal): Promise<boolean> {
    try {
      const found =
        source.kind === 'device' ? await this.#read(source.place, signal) : await this.#ask(source.place, signal);
      if (signal.aborted) return false;
      this.#note(found);
      return true;
    } catch (error) {
      if (!signal.aborted) this.#fail(errorText(error));
      return false;
    }
  }

  async #read(device: string, signal: AbortSignal): Promise<Coordinates> {
    const { clock, readDevice } = this.#deps;
    const end = new AbortController();
    const cancel = clock.after(READING, () => end.abort());
    const lines = new NmeaLines();
    let bytes = 0;
    let isReceiver = false;
    try {
      for await (const piece of readDevice(device, AbortSignal.any([signal, end.signal]))) {
        for (const line of lines.push(piece)) {
          const reading = readNmea(line);
          isReceiver ||= reading !== undefined;
          if (reading !== undefined && reading !== 'no fix') return reading;
        }
        bytes += piece.length;
        if (bytes > MOST_BYTES) break;
      }
    } catch (error) {
      throw new Error(deviceProblem(device, error), { cause: error });
    } finally {
      cancel();
    }
    if (isReceiver) throw new Error(`the receiver at ${device} has no position yet`);
    if (bytes > MOST_BYTES) throw new Error(`${device} sends something else than sentences of NMEA`);
    throw new Error(`no sentence of NMEA with a position came from ${device}`);
  }

  async #ask(url: string, signal: AbortSignal): Promise<Coordinates> {
    const { lookUp } = this.#deps;
    const answer = await lookUp(url, signal);
    const found = positionIn(answer);
    if (!found) throw new Error(`${shownUrl(url)} answers without a position (lat and lon)`);
    return found;
  }

  #note(found: Coordinates): void {
    const { clock, log } = this.#deps;
    const wasWell = this.#problem === '' && this.#fix !== undefined;
    this.#fix = { ...found, at: clock.wall() };
    this.#problem = '';
    const hasMoved = !this.#reported || distance(this.#reported, found) > MOVED;
    if (hasMoved) this.#reported = found;
    if (!wasWell) log.info({ source: this.#source?.kind }, 'Found the position of this machine');
    if (hasMoved || !wasWell) this.#deps.changed();
  }

  #fail(problem: string): void {
    if (problem === this.#problem) return;
    this.#problem = problem;
    this.#deps.log.warn({ problem }, 'Cannot find the position of this machine');
    this.#deps.changed();
  }
}

const distance = (a: Coordinates, b: Coordinates) =>
  Math.max(Math.abs(a.latitude - b.latitude), Math.abs(a.longitude - b.longitude));

const DEVICE_PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: 'is not there; it is looked for again',
  ENXIO: 'has no device behind it',
  EACCES: 'may not be opened',
  EBUSY: 'is in use by another program',
  EIO: 'was pulled out, or is closed',
};

function deviceProblem(device: string, error: unknown): string {
  const { code = '' } = error as NodeJS.ErrnoException;
  const known = DEVICE_PROBLEMS[code];
  return known ? `${device} ${known}` : errorText(error);
}
