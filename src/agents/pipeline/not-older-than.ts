import { compareResourceVersions, type KubeObject, type Store } from '../../kube/mod.ts';
import type { Clock } from '../../lib/clock.ts';
import { createTokenBuckets } from '../../lib/token-bucket.ts';
import { notReady } from '../channel/failure.ts';

/**
 * A lower bound for the stores that a response comes from: how far the stores of the replica were at the last response.
 * Agents save the bound with the response and send it with each request, so that a replica that lags behind cannot send an
 * older state: requests of one agent may reach any replica, and one whose connection to the API server is half-open still
 * responds. Kubernetes calls this resourceVersionMatch=NotOlderThan.
 *
 * Form: `<replica>:<store>=<version>,<store>=<version>...`, a resource version for each store that has one. Opaque to agents. A
 * replica of another release may have other stores: names that this one does not know stay in the bound.
 *
 * The bound may come from another datastore: etcd was restored, or the objects were copied into an empty one. Nothing in a
 * resource version shows that, so neither case may keep an agent out:
 * - A version ahead of the API server itself is of another datastore. It is ignored, and is not part of the next bound.
 * - Otherwise the store is listed again. The list has everything that this datastore had when it began, so the store has
 *   reached whatever the bound means, and the next request is served.
 */
export interface NotOlderThan {
  /** The bound of a response made now, no older than the one presented. */
  bound(presented: string | undefined): string;
  /**
   * Undefined when this replica has reached the bound, which is usual. Otherwise resolves once it has, with what is still valid
   * of the bound. Rejects with 503 when that takes too long.
   */
  reached(presented: string | undefined, node: string): Promise<string> | undefined;
}

export interface NotOlderThanOptions {
  /** of everything that a desired state is made from, by name */
  stores: Readonly<Record<string, Pick<Store<KubeObject>, 'latest' | 'seenTo'>>>;
  /** this replica's own bounds need no comparison: its stores never go back */
  replica: string;
  /** the present resource version of a resource, from the API server itself */
  liveVersion(store: string): Promise<string>;
  /** begins a new list of a store, and returns at once */
  listAgain(store: string): void;
  clock: Pick<Clock, 'now' | 'after'>;
}

/** How long a request waits for a replica that is behind the bound. */
const PATIENCE_MS = 2_000;
const LOOK_EVERY_MS = 50;
/** A store is listed again at most so often because of bounds. */
const LISTS_MS = 30_000;
/** Limit of one node, which may send any bound. An honest one needs a list or two after a restore. */
const LISTS_OF_NODE = { perSecond: 1 / 600, burst: 3 };
const NONE = '0';

/** Resource versions by the name of their store. */
type Versions = ReadonlyMap<string, string>;

interface Bound {
  replica: string;
  versions: Versions;
}

export function createNotOlderThan({
  stores,
  replica,
  liveVersion,
  listAgain,
  clock,
}: NotOlderThanOptions): NotOlderThan {
  const reads = new Map<string, { at: number; version: Promise<string> }>();
  /** when each store was listed again last */
  const listedAt = new Map<string, number>();
  const listsOfNodes = createTokenBuckets({ clock, ...LISTS_OF_NODE });

  function behind(versions: Versions): string[] {
    return [...versions].flatMap(([name, version]) =>
      Object.hasOwn(stores, name) && isOlder(stores[name]?.seenTo ?? NONE, version) ? [name] : [],
    );
  }

  async function settle(bound: Bound, node: string): Promise<string> {
    const { versions } = bound;
    const arrivedAt = clock.now();
    const deadline = arrivedAt + PATIENCE_MS;
    let missing = behind(versions);
    while (missing.length > 0 && clock.now() < deadline) {
      await new Promise<void>((resolve) => void clock.after(LOOK_EVERY_MS, resolve));
      missing = behind(versions);
    }
    const valid = new Map(versions);
    const live = new Set<string>();
    await Promise.all(
      missing.map(async (name) => {
        // Without the API server it is more likely that this replica lags than that the bound is of another datastore.
        const present = await ask(name, arrivedAt).catch(() => undefined);
        if (present === undefined) return;
        if (isOlder(present, versions.get(name) ?? NONE)) valid.delete(name);
        else live.add(name);
      }),
    );
    missing = behind(valid);
    if (missing.length === 0) return format({ ...bound, versions: valid });
    catchUp(
      missing.filter((name) => live.has(name)),
      node,
    );
    throw notReady('this replica lags behind: ask again', 1);
  }

  /**
   * The version of the API server, read after the request arrived: an earlier one says nothing of a bound that another replica
   * issued meanwhile. Requests that wait at the same time share the read, so there is one in two seconds at most.
   */
  function ask(name: string, arrivedAt: number): Promise<string> {
    const known = reads.get(name);
    if (known && known.at > arrivedAt) return known.version;
    const read = { at: clock.now(), version: liveVersion(name) };
    reads.set(name, read);
    read.version.catch(() => {
      if (reads.get(name) === read) reads.delete(name);
    });
    return read.version;
  }

  function catchUp(late: readonly string[], node: string): void {
    const now = clock.now();
    const due = late.filter((name) => now - (listedAt.get(name) ?? Number.NEGATIVE_INFINITY) >= LISTS_MS);
    if (due.length === 0 || !listsOfNodes.take(node)) return;
    for (const name of due) {
      listedAt.set(name, now);
      listAgain(name);
    }
  }

  return {
    bound(presented) {
      const versions = new Map(parse(presented)?.versions);
      for (const [name, { latest = NONE }] of Object.entries(stores))
        versions.set(name, newer(latest, versions.get(name) ?? NONE));
      return format({ replica, versions });
    },
    reached(presented, node) {
      const bound = parse(presented);
      if (!bound || bound.replica === replica || behind(bound.versions).length === 0) return undefined;
      return settle(bound, node);
    },
  };
}

const BOUND = /^([\w-]{1,64}):([\w.=,]{1,2000})$/;
const NAMED = /^(\w{1,40})=(\d{1,20})$/;
/** Former releases sent the versions alone, in this order. */
const UNNAMED = /^\d{1,20}(?:\.\d{1,20}){0,15}$/;
const FORMER_ORDER = [
  'nodes',
  'applications',
  'registries',
  'secrets',
  'configMaps',
  'runtimeClasses',
  'models',
  'knowledge',
  'serviceAccounts',
  'catalogItems',
  'volumeMounts',
] as const;

/** Undefined for a text that is no bound. */
function parse(text: string | undefined): Bound | undefined {
  const [, replica, list] = BOUND.exec(text ?? '') ?? [];
  if (replica === undefined || list === undefined) return undefined;
  const parts = UNNAMED.test(list)
    ? list.split('.').flatMap((version, i) => (i < FORMER_ORDER.length ? [`${FORMER_ORDER[i]}=${version}`] : []))
    : list.split(',');
  const versions = new Map<string, string>();
  for (const part of parts) {
    const [, name, version] = NAMED.exec(part) ?? [];
    if (name === undefined || version === undefined) return undefined;
    versions.set(name, version);
  }
  return { replica, versions };
}

const format = ({ replica, versions }: Bound) =>
  `${replica}:${[...versions].flatMap(([name, version]) => (version === NONE ? [] : [`${name}=${version}`])).join(',')}`;

/** False for versions that cannot be compared. */
const isOlder = (a: string, b: string) => (compareResourceVersions(a, b) ?? 0) < 0;
const newer = (a: string, b: string) => (isOlder(a, b) ? b : a);
