import type { Log } from '../lib/log.ts';
import type { KubeClient } from './client.ts';
import { type Election, LEASES, startElection } from './lease.ts';
import type { KubeMetrics } from './metrics.ts';
import type { KubeObject } from './object.ts';

/** One leadership of this replica, from taking the lease to losing it. */
export interface Term {
  /** Aborts when leadership is lost. */
  signal: AbortSignal;
  /** Unix ms */
  since: number;
  /** refuses writes once leadership is lost */
  client: KubeClient;
}

/**
 * Whether this replica leads, the address of the leader, and the work to do while this replica leads. It is created before
 * the replica joins the election, so that every part of the process can depend on it.
 */
export interface Leadership extends AsyncDisposable {
  readonly isLeading: boolean;
  /** `host:port` of the leader's internal listener; undefined while no replica leads */
  readonly leaderAddress: string | undefined;
  /** Unix ms when this replica last began to lead; when it was started, if it has not led yet */
  readonly since: number;
  /** the Lease, on which events about the controller itself are recorded */
  readonly lease: KubeObject;
  /** Adds work of the leader. It runs in each term and must end soon after the signal of the term aborts. */
  whileLeading(work: (term: Term) => Promise<void>): void;
  /** Adds a listener, called when the Lease is older than a state seen before: the datastore was restored from a backup. */
  onWentBack(listener: () => void): void;
  /** Takes part in the election until disposed. Other replicas reach this one at `address` while it leads. */
  join(address: string): void;
}

export interface LeadershipOptions {
  client: KubeClient;
  namespace: string;
  /** name of the Lease */
  name: string;
  /** unique per process */
  identity: string;
  /** annotation of the Lease that carries the leader's address */
  dataAnnotation: string;
  log: Log;
  metrics?: KubeMetrics;
  /** the election by Lease, which a test may replace */
  elect?: typeof startElection;
}

export function createLeadership({ elect = startElection, ...options }: LeadershipOptions): Leadership {
  const { client, namespace, name } = options;
  const works: ((term: Term) => Promise<void>)[] = [];
  const listeners: (() => void)[] = [];
  let election: Election | undefined;
  let since = Date.now();

  const isLeading = () => election?.isLeading ?? false;

  /** Runs all work of a term. When one part fails, the others end before the term ends. */
  async function lead(signal: AbortSignal): Promise<void> {
    since = Date.now();
    const failed = new AbortController();
    const term = { signal: AbortSignal.any([signal, failed.signal]), since, client: client.fenced(isLeading) };
    const results = await Promise.allSettled(
      works.map(async (work) => {
        try {
          await work(term);
        } catch (error) {
          failed.abort(error);
          throw error;
        }
      }),
    );
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }

  return {
    get isLeading() {
      return isLeading();
    },
    get leaderAddress() {
      return election?.holder?.data.internal;
    },
    get since() {
      return since;
    },
    lease: { apiVersion: `${LEASES.group}/${LEASES.version}`, kind: LEASES.kind, metadata: { name, namespace } },
    whileLeading: (work) => void works.push(work),
    onWentBack: (listener) => void listeners.push(listener),
    join(address) {
      if (election) throw new TypeError('the election is joined once');
      election = elect({
        ...options,
        data: { internal: address },
        onStartedLeading: lead,
        onWentBack() {
          for (const listener of listeners) listener();
        },
      });
    },
    async [Symbol.asyncDispose]() {
      await election?.[Symbol.asyncDispose]();
    },
  };
}
