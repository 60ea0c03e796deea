import type { Action, AppState } from './model.ts';

/**
 * What happened in a story, as plain data: checkers read nothing else. Times are milliseconds since the start of the story,
 * by the clock of the runner.
 */
export interface History {
  seed: number;
  operations: readonly Operation[];
  /** every version of every application, in the order in which the API server sent them */
  versions: readonly Version[];
  /** what engines did and agents saw */
  engine: readonly EngineRecord[];
  faults: readonly FaultRecord[];
  /** what was found after every fault had ended and the system had time to settle */
  end: End;
}

/** The API surface that a user uses. */
export type Door = 'kubectl' | 'api' | 'rest' | 'yaml';

type Outcome =
  /** response with success */
  | 'done'
  /** response with a refusal: it must have no effect */
  | 'refused'
  /** no response, or one that leaves the outcome open (5xx) */
  | 'unknown'
  /** not sent: the object did not exist */
  | 'skipped';

export interface Operation {
  id: string;
  user: string;
  door: Door;
  app: string;
  action: Action;
  invoked: number;
  answered?: number;
  outcome: Outcome;
  /** status and message of the response */
  said?: string;
  /** what a read showed: values by entry; undefined when the application did not exist */
  read?: Readonly<Record<string, string>>;
  /** the last of the numbers 1, 2, ... that a session was given as input */
  typed?: number;
  /** the numbers that a session showed, in their order */
  shown?: readonly number[];
}

/** One version of an application. */
export interface Version {
  app: string;
  uid: string;
  /** when the runner received it; the write itself was earlier */
  at: number;
  resourceVersion: string;
  /** undefined: it was removed */
  state: AppState | undefined;
  generation: number;
  /** uuid of each entry's microservice */
  uuids: Readonly<Record<string, string>>;
  ready?: { status: string; reason: string; message: string; observedGeneration: number };
  /** the nodes that have its microservices by the status, by entry name */
  places?: Readonly<Record<string, string>>;
  /** entry names of the microservices that are ready in the status */
  readyEntries: readonly string[];
}

export type EngineRecord = { at: number; node: string; uuid: string; id: string } & (
  | { what: 'create'; value: string; image: string; rebuild: number; reason?: string }
  | { what: 'start' | 'stop' | 'remove'; reason?: string }
  /** its process ended although the agent did not stop it */
  | { what: 'exit'; because: 'fault' | 'engine' }
  /** removed, but not by the agent */
  | { what: 'vanish' }
  /** the agent observed it running */
  | { what: 'seen' }
);

export interface FaultRecord {
  at: number;
  /** when it ended; absent for a fault without duration */
  until?: number;
  kind: string;
  /** node, replica, or other target of the fault */
  target: string;
  text: string;
}

interface End {
  at: number;
  /** differences from the model that remained after the time to settle */
  unsettled: readonly string[];
  /** what was done on an engine although everything had settled */
  restless: readonly string[];
  /** expectations of single faults that were not met, such as a silent node that never becomes UNKNOWN */
  unmet: readonly string[];
}

export interface Violation {
  checker: string;
  text: string;
  /** when the violation became visible */
  at: number;
  app?: string;
  uuid?: string;
}
