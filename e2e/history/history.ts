import type { Action, AppState } from './model.ts';

/**
 * What happened in a story, as plain data: checkers read nothing else. Times are milliseconds since the story began, by
 * one clock, that of the runner.
 */
export interface History {
  seed: number;
  operations: readonly Operation[];
  /** every version of every application, as the API server told them, in its order */
  versions: readonly Version[];
  /** what engines did and agents saw */
  engine: readonly EngineRecord[];
  faults: readonly FaultRecord[];
  /** what was found once every fault had ended and the system had time to settle */
  end: End;
}

/** Through which door a user came. */
export type Door = 'kubectl' | 'api' | 'rest' | 'yaml';

export type Outcome =
  /** answered with success */
  | 'done'
  /** answered with a refusal: it must have no effect */
  | 'refused'
  /** no answer, or one that promises nothing (5xx) */
  | 'unknown'
  /** was not sent: there was nothing to do it to */
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
  /** status and message of the answer */
  said?: string;
  /** what a read showed: values by entry; undefined when it said that there is no such application */
  read?: Readonly<Record<string, string>>;
}

/** One version of an application. */
export interface Version {
  app: string;
  uid: string;
  /** when the runner was told; the write itself was earlier */
  at: number;
  resourceVersion: string;
  /** undefined: it is gone */
  state: AppState | undefined;
  generation: number;
  /** uuid of each entry's microservice */
  uuids: Readonly<Record<string, string>>;
  ready?: { status: string; reason: string; message: string; observedGeneration: number };
  /** microservices that the status calls ready, by entry name */
  readyEntries: readonly string[];
}

export type EngineRecord = { at: number; node: string; uuid: string; id: string } & (
  | { what: 'create'; value: string; image: string; rebuild: number; reason?: string }
  | { what: 'start' | 'stop' | 'remove'; reason?: string }
  /** its process ended otherwise than by an order of the agent */
  | { what: 'exit'; because: 'fault' | 'engine' }
  /** removed behind the agent's back */
  | { what: 'vanish' }
  /** the agent looked and saw it running */
  | { what: 'seen' }
);

export interface FaultRecord {
  at: number;
  /** when it ended; absent for what is over at once */
  until?: number;
  kind: string;
  /** node, replica, or what else it was done to */
  target: string;
  text: string;
}

export interface End {
  at: number;
  /** differences from the model that did not go away in time */
  unsettled: readonly string[];
  /** what somebody did on an engine although everything was settled */
  restless: readonly string[];
  /** expectations of single faults that did not come true, such as a silent node that is never called so */
  unmet: readonly string[];
}

export interface Violation {
  checker: string;
  text: string;
  /** when it became visible */
  at: number;
  app?: string;
  uuid?: string;
}
