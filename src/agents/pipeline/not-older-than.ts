import { type Clock, compareResourceVersions, type KubeObject, type Store } from '../../kube/mod.ts';
import { notReady } from '../failure.ts';

/**
 * A lower bound for the stores that a response comes from: how far the stores of the replica were at the last response.
 * Agents save the bound with the response and send it with each request, so that a replica that lags behind cannot send an
 * older state: requests of one agent may reach any replica, and one whose connection to the API server is half-open still
 * responds. Kubernetes calls this resourceVersionMatch=NotOlderThan.
 *
 * Form: `<replica>:<version>.<version>...`, a resource version for each store in a fixed order, 0 for none. Opaque to
 * agents.
 */
export interface NotOlderThan {
  /** The bound of a response made now, no older than the one presented. */
  bound(presented: string | undefined): string;
  /**
   * Resolves when this replica has reached the bound, usually at once. Rejects with 503 when that takes too long. A bound that
   * is ahead of the API server, since etcd was restored, is ignored.
   */
  reached(presented: string | undefined): Promise<void> | undefined;
}

export interface NotOlderThanOptions {
  /** of everything that a desired state is made from, in an order that never changes */
  stores: readonly Pick<Store<KubeObject>, 'latest' | 'seenTo'>[];
  /** this replica's own bounds need no comparison: its stores never go back */
  replica: string;
  /** the present resource version of a resource, from the API server itself */
  liveVersion(store: number): Promise<string>;
  clock: Pick<Clock, 'now' | 'after'>;
}

/** How long a request waits for a replica that is behind the bound. */
const PATIENCE_MS = 2_000;
const LOOK_EVERY_MS = 50;
/** How long a version read from the API server is cached. */
const LIVE_MS = 5_000;
const NONE = '0';

export function createNotOlderThan({ stores, replica, liveVersion, clock }: NotOlderThanOptions): NotOlderThan {
  const live = stores.map(() => ({ at: Number.NEGATIVE_INFINITY, version: undefined as Promise<string> | undefined }));

  function behind(versions: readonly string[]): number[] {
    return stores.flatMap(({ seenTo }, i) => (isOlder(seenTo ?? NONE, versions[i] ?? NONE) ? [i] : []));
  }

  async function settle(versions: readonly string[]): Promise<void> {
    const deadline = clock.now() + PATIENCE_MS;
    let missing = behind(versions);
    while (missing.length > 0 && clock.now() < deadline) {
      await new Promise<void>((resolve) => void clock.after(LOOK_EVERY_MS, resolve));
      missing = behind(versions);
    }
    for (const i of missing) {
      // Without the API server it is more likely that this replica lags than that the datastore was restored.
      const present = await ask(i).catch(() => undefined);
      if (present === undefined || !isOlder(present, versions[i] ?? NONE))
        throw notReady('this replica lags behind: ask again', 1);
    }
  }

  function ask(i: number): Promise<string> {
    const known = live[i];
    if (known?.version && clock.now() - known.at < LIVE_MS) return known.version;
    const version = liveVersion(i);
    live[i] = { at: clock.now(), version };
    version.catch(() => {
      live[i] = { at: Number.NEGATIVE_INFINITY, version: undefined };
    });
    return version;
  }

  return {
    bound(presented) {
      const before = parse(presented)?.versions ?? [];
      const versions = stores.map(({ latest }, i) => newer(latest ?? NONE, before[i] ?? NONE));
      return `${replica}:${versions.join('.')}`;
    },
    reached(presented) {
      const bound = parse(presented);
      if (!bound || bound.replica === replica || behind(bound.versions).length === 0) return undefined;
      return settle(bound.versions);
    },
  };
}

const BOUND = /^([\w-]{1,64}):(\d{1,20}(?:\.\d{1,20}){0,15})$/;

/** Undefined for a text that is no bound. */
function parse(text: string | undefined): { replica: string; versions: string[] } | undefined {
  const [, replica, versions] = BOUND.exec(text ?? '') ?? [];
  return replica !== undefined && versions !== undefined ? { replica, versions: versions.split('.') } : undefined;
}

/** False for versions that cannot be compared. */
const isOlder = (a: string, b: string) => (compareResourceVersions(a, b) ?? 0) < 0;
const newer = (a: string, b: string) => (isOlder(a, b) ? b : a);
