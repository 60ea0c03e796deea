import type { Leadership as KubeLeadership } from '../kube/leadership.ts';

/** What both ends of the channel between replicas share. */

/** The part of leadership that a replica needs; each use reads it again, since it may change at any time. */
export type LeaderState = Pick<KubeLeadership, 'isLeading' | 'leaderAddress'>;

/** How replicas of one controller authenticate each other: tokens of their ServiceAccount with a separate audience. */
export interface InternalCredentials {
  token(signal: AbortSignal): Promise<string>;
  /** Whether the token belongs to a replica. Rejects when the review fails. */
  verify(token: string, signal: AbortSignal): Promise<boolean>;
}

/** What the leader answers to requests of other replicas, by path: the value becomes JSON. */
export type InternalHandlers = Readonly<Record<string, (body: unknown) => unknown>>;
