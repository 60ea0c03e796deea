import type { MicroserviceView, StatusReport } from '../../../src/wire/agent.ts';
import type { SavedName } from '../../../src/wire/sections.ts';
import type { Container } from '../engine-port/container.ts';
import type { ArtifactWait } from './artifact.ts';
import type { Sent } from './desired.ts';
import type { Entry } from './entry.ts';
import type { MicroserviceRecord } from './record.ts';
import type { Resolution } from './volume-mounts.ts';

/**
 * A part of the agent: it keeps something of this machine, besides containers, as the controller wants it. A part has the
 * members that it needs; agent/src/supervise/apply.ts says when those about the desired state are called, and why then.
 *
 * `Reads`: the responses that it reads.
 */
export interface Part<Reads extends SavedName = SavedName> {
  /** Writes what containers may bind. */
  write?(sent: Pick<Sent, Reads>): void;
  /** The view with what its container binds of this part, or why the microservice has to wait. */
  resolve?(view: MicroserviceView): Resolution;
  /** Writes what the containers of these entries need when they start. */
  prepare?(entries: readonly Entry[]): void;
  /** The supervisor has the entries of what was sent. */
  look?(sent: Pick<Sent, Reads>): void;
  /** These registries have changed: what failed by them is tried again at once. */
  registriesChanged?(ids: ReadonlySet<number>): void;
  /** Why a microservice with an entry cannot be started yet. */
  waitOf?(uuid: string): ArtifactWait | undefined;
  /** The supervisor has read the engine, or a step of it has moved. */
  observed?(): void;
  /** What it adds to a report. */
  report?(): StatusReport;
  /** What keeps it from doing its work, for people */
  readonly problems?: readonly string[];
  /** such problems about microservices and content of the machine itself: no report to a controller has them */
  readonly ownProblems?: readonly string[];
  /**
   * Works until the signal fires, and resolves when all that it began has ended. `applyAgain` applies the present desired
   * state once more.
   */
  run?(signal: AbortSignal, applyAgain: () => void): Promise<void>;
}

/** What parts know of the containers of this machine. */
export interface Observed {
  /** what the machine is to run, as far as it is known */
  readonly desired: readonly Entry[];
  /** each microservice of the machine is one of these, or is known not to be wanted: what they do not use, nothing uses */
  readonly knowsAll: boolean;
  readonly containers: readonly Container[];
  /** whether the containers are those of a look at the engine */
  readonly hasLooked: boolean;
  /** steps under way */
  readonly pending: number;
  record(uuid: string): Pick<MicroserviceRecord, 'lastGood'> | undefined;
}
