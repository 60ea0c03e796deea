import type { MicroserviceView } from '../../../src/wire/agent.ts';

/** A microservice that is to run. */
export interface RunEntry {
  kind: 'run';
  uuid: string;
  view: MicroserviceView;
  /** container digest of the view */
  digest: string;
  /** what its image is pulled by; absent while its registry is not known */
  pullReference?: string;
  /** of the machine's own: what a person last asked for there; absent: the record says it */
  isStopped?: boolean;
  /** a controller placed it and has left it to the machine */
  isKept?: true;
}

/** A microservice that may not be changed now: keep what runs, restart it when it dies, start nothing new. */
export interface HoldEntry {
  kind: 'hold';
  uuid: string;
  reason: string;
  message: string;
  /** what people call it; absent where that is not known */
  application?: string;
  name?: string;
  /** what runs is stopped, and not started again */
  stop?: boolean;
  isStopped?: boolean;
  isKept?: true;
}

export type Entry = RunEntry | HoldEntry;

/** The reason of an entry that the machine's own policy turned down. */
export const POLICY_REFUSED = 'PolicyRefused';
