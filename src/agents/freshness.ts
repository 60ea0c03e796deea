import { type Clock, compareResourceVersions, type KubeObject, type Store } from '../kube/mod.ts';
import { notReady } from './failure.ts';

/**
 * How far a view of the world had come when an agent was told of it. Agents keep the mark of what they have stored and
 * show it with each question, so that a replica that lags behind takes nothing back: requests of one agent may arrive at
 * any replica, and one whose connection to the API server is half-open still answers.
 *
 * Form: `<replica>:<version>.<version>...`, a resource version for each store in a fixed order, 0 for none. Opaque to
 * agents.
 */
export interface Freshness {
  /** Mark of what is answered now, no older than the mark that was shown. */
  mark(shown: string | undefined): string;
  /**
   * Resolves when this replica knows all that the mark knows: mostly at once. Rejects with 503 when it does not come to
   * know it soon. A mark that the cluster itself is behind of, since etcd was restored, is void.
   */
  reached(shown: string | undefined): Promise<void> | undefined;
}

export interface FreshnessOptions {
  /** of everything that a desired state is made from, in an order that never changes */
  stores: readonly Pick<Store<KubeObject>, 'latest' | 'seenTo'>[];
  /** this replica's own marks need no comparison: its view never goes back */
  replica: string;
  /** the present resource version of a resource, from the API server itself */
  liveVersion(store: number): Promise<string>;
  clock: Pick<Clock, 'now' | 'after'>;
}

/** A replica that is merely a moment behind hears the news within that time. */
const PATIENCE_MS = 2_000;
const LOOK_EVERY_MS = 50;
/** What the API server said of its version counts for so long. */
const LIVE_MS = 5_000;
const NONE = '0';

export function createFreshness({ stores, replica, liveVersion, clock }: FreshnessOptions): Freshness {
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
      // Without the API server nobody can tell, and it is more likely that this replica has lost it than the past.
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
    mark(shown) {
      const before = parse(shown)?.versions ?? [];
      const versions = stores.map(({ latest }, i) => newer(latest ?? NONE, before[i] ?? NONE));
      return `${replica}:${versions.join('.')}`;
    },
    reached(shown) {
      const mark = parse(shown);
      if (!mark || mark.replica === replica || behind(mark.versions).length === 0) return undefined;
      return settle(mark.versions);
    },
  };
}

const MARK = /^([\w-]{1,64}):(\d{1,20}(?:\.\d{1,20}){0,15})$/;

/** What is no mark says nothing. */
function parse(text: string | undefined): { replica: string; versions: string[] } | undefined {
  const [, replica, versions] = MARK.exec(text ?? '') ?? [];
  return replica !== undefined && versions !== undefined ? { replica, versions: versions.split('.') } : undefined;
}

/** Versions that cannot be compared say nothing. */
const isOlder = (a: string, b: string) => (compareResourceVersions(a, b) ?? 0) < 0;
const newer = (a: string, b: string) => (isOlder(a, b) ? b : a);
