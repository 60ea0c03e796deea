import type { Duties } from '../../subjects/identity/rules/duties.ts';

/** Facts of the logins of a user without its Secret, for its status. */
export interface LoginFacts {
  /** undefined for a user that does not exist */
  facts(uuid: string): { duties: Duties; passwordAt: number; lockedUntil: number } | undefined;
  whenSynced(signal: AbortSignal): Promise<void>;
  /** The listener is called with the uuid of a user of whom something else is known than before. */
  subscribe(listener: (uuid: string) => void): Disposable;
}
