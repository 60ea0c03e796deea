import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Container } from '../engine-port/container.ts';
import type { Runs } from './runs.ts';
import type { Step } from './step.ts';

/** Why a container was found stopped. Only Crash is counted and causes a back-off. */
export type ExitCause = 'Stopped' | 'Crash' | 'Engine' | 'Reboot' | 'Unwatched';

/** The record of one microservice. Plain JSON, apart from `live`. */
export interface MicroserviceRecord {
  uuid: string;
  application: string;
  name: string;
  isSystem: boolean;
  schedule: number;
  /** the image of new containers, and what it was looked up for */
  image?: KnownImage;
  /** the view of the last container that ran as it should */
  lastGood?: MicroserviceView;
  generation: number;
  /** the last known container, which may still exist when the engine cannot be read */
  containerId?: string;
  /** the runs of that container, of the one that runs or ran last; absent in records of agents that did not note them */
  runs?: Runs;
  /** the last exit seen, by container and time */
  exit?: { key: string; cause: ExitCause };
  /** crashes since the last ten steady minutes */
  crash?: { target: string; count: number; at: number; notBefore: number };
  /** the last attempt that failed and has not succeeded since */
  failure?: Failure;
  restartCount: number;
  /** current error: of a failed attempt, until that succeeds, or of a crash, until it has run for 30 s again */
  error?: { message: string; at: number };
  lastError?: string;
  lastErrorAt?: number;
  /** stopped on the machine; ends with a local start, a rebuild, or a new revision */
  stoppedLocally?: { revision: string; rebuildCount: number };
  /** removed because it is no longer wanted; kept until STOPPED was reported */
  gone?: boolean;
  /** a controller placed it and has left it to the machine: no list of a controller ends it */
  isKept?: true;
  /** not saved */
  live: Live;
}

interface KnownImage {
  /** as the view names it */
  reference: string;
  /** empty: the engine lost the image, so it is looked up again */
  id: string;
  rebuildCount: number;
  /** with the host of its registry; absent in records of agents that did not note it: the one that is asked for */
  pullReference?: string;
  /** the highest generation of the containers whose image came by another pull reference; absent: there are none */
  outdatedGeneration?: number;
}

/** State that is lost when the process ends. */
interface Live {
  /** the container that the agent stops: its exit is no crash */
  stopping?: string;
  /** since when it is wanted and not up */
  downSince?: number;
  /** since when it is no longer wanted */
  unwantedSince?: number;
  /** since when the container runs, in steady time */
  running?: { key: string; since: number };
  /** another program has ended it and may start or remove it next: the agent does nothing until then */
  leftAloneUntil?: number;
  /** local restart: the run of the container that is to end */
  restart?: { key: string };
  /** the failing health check that is reported */
  check?: ReportedCheck;
  /** the next start was asked for on the machine */
  startedLocally?: boolean;
}

/** A failing health check as it is reported. */
export interface ReportedCheck {
  /** the run of the container */
  key: string;
  health: NonNullable<Container['health']>;
  exitCode: number;
  /** for people */
  message: string;
  at: number;
}

export interface Failure {
  step: Step['kind'];
  target: string;
  /** the container that the step was about */
  containerId?: string;
  count: number;
  at: number;
  notBefore: number;
  /** machine-readable, one of FAILURE_REASONS or the engine's own code */
  reason: string;
  message: string;
}

export type Records = ReadonlyMap<string, MicroserviceRecord>;

/** A row for a microservice that is new to the agent, or whose row was lost while its container was not. */
export function newRecord(uuid: string, container?: Container): MicroserviceRecord {
  return {
    uuid,
    application: container?.application ?? '',
    name: container?.microservice ?? '',
    isSystem: false,
    schedule: 50,
    generation: 0,
    restartCount: 0,
    live: {},
  };
}

/** A record once the attempt that failed has succeeded: its error is over, unless a crash has given another one since. */
export function withoutFailure(record: MicroserviceRecord): MicroserviceRecord {
  const { failure, error } = record;
  return { ...record, failure: undefined, ...(error?.message === failure?.message && { error: undefined }) };
}

/** Whether the next start was asked for on the machine. */
export function isStartedLocally({ live }: Pick<MicroserviceRecord, 'live'>): boolean {
  return live.startedLocally === true || live.restart !== undefined;
}
