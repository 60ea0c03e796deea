import { type Backoff, backoffDelay, jittered } from '../lib/backoff.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import { serveUntilAborted } from '../lib/serve-until-aborted.ts';
import { changesTo, type FoundEntity, MANAGED, type Owned, type RouterChange, type RouterEntity } from './changes.ts';
import { type RouterConnection, RouterRefused } from './connection.ts';

export interface RouterDeliveryOptions {
  /** Connects once. */
  dial(signal: AbortSignal): Promise<RouterConnection>;
  /** what the router is to have; undefined while that is not known, and nothing is changed */
  wanted(): readonly RouterEntity[] | undefined;
  /** the mode of the router that this is meant for: a router has its mode until it ends, and nothing is changed in a router of another mode */
  mode?(): string | undefined;
  /** digests of the files of each profile as they are now, by the name of the profile: a router reads them when it is asked to */
  certificates(): ReadonlyMap<string, string>;
  owned: Owned;
  /** Called at each change of the state. */
  report(state: RouterState): void;
  /** Called after each comparison, of what `wanted` and `certificates` were at its start. */
  compared?(): void;
  clock: Clock;
  random: () => number;
  log: Log;
}

/** The state of one running router. */
export interface RouterState {
  /** absent: no connection */
  router?: { readonly id: string; readonly version: string };
  /** whether it has all that is wanted, and has read the present certificates */
  isCurrent: boolean;
  /** what it does not take, and why */
  refused: readonly RouterIssue[];
  /** listeners of services that admit no clients; without a message they wait for a connector */
  notUp: readonly RouterIssue[];
  /** connections to other routers by the names of their connectors; with a message they do not stand */
  links: readonly RouterIssue[];
}

export interface RouterIssue {
  name: string;
  message?: string;
}

/** The router runs on this machine, or is one pod: the first attempts come fast. */
const RECONNECT: Backoff = { baseMs: 200, factor: 2, maxMs: 10_000, jitter: 0.5 };
/** Looks again while something is not as it is to be. */
const LOOK_AGAIN: Backoff = { baseMs: 500, factor: 2, maxMs: 10_000, jitter: 0.5 };
/** Between two attempts with a listener whose port is taken. */
const MAKE_AGAIN: Backoff = { baseMs: 5_000, factor: 2, maxMs: 300_000, jitter: 0.5 };
/** Between two looks at a router in which all is well: somebody may edit it by hand. */
const LOOK_MS = 60_000;
const LOOK_SPREAD = 0.1;
const REQUESTS_AT_ONCE = 16;
const MOST_OF_MESSAGE = 256;

const UNKNOWN: RouterState = { isCurrent: false, refused: [], notUp: [], links: [] };

/**
 * Keeps one running router at its configuration: compares everything whenever it connects, when something changes, and once in a
 * minute; changes what differs, and tries again without end. Nothing restarts, and connections of services that stay are left alone.
 */
export class RouterDelivery implements AsyncDisposable {
  readonly #options: RouterDeliveryOptions;
  readonly #abort = new AbortController();
  readonly #running: Promise<void>;
  /** digests of the files that the router of this connection has read, by profile */
  readonly #read = new Map<string, string>();
  /** listeners whose port is taken: failures in a row, and when to make them again */
  readonly #taken = new Map<string, { failures: number; dueAt: number }>();
  #isChanged = true;
  #wake = () => {};
  #state: RouterState = UNKNOWN;

  constructor(options: RouterDeliveryOptions) {
    this.#options = options;
    this.#running = this.#run(this.#abort.signal);
  }

  get state(): RouterState {
    return this.#state;
  }

  /** The wanted entities, or the files of a certificate, have changed. */
  changed(): void {
    this.#isChanged = true;
    this.#wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort(new Error('the delivery to the router ends'));
    await this.#running;
  }

  #run(signal: AbortSignal): Promise<void> {
    const { dial, clock, random, log } = this.#options;
    return serveUntilAborted(
      {
        ...{ dial, clock, random, log, reconnect: RECONNECT, failing: 'A router does not get its configuration' },
        serve: (connection, here, compared) => this.#serve(connection, here, compared),
        lost: () => this.#report(UNKNOWN),
      },
      signal,
    );
  }

  async #serve(connection: RouterConnection, here: AbortSignal, compared: () => void): Promise<void> {
    const { clock, random } = this.#options;
    this.#read.clear();
    this.#taken.clear();
    for (let looks = 1; !here.aborted; looks++) {
      if (this.#isChanged) looks = 1;
      this.#isChanged = false;
      const { hasTrouble } = await this.#compare(connection, here);
      compared();
      this.#options.compared?.();
      const pause = hasTrouble ? backoffDelay(LOOK_AGAIN, looks, random) : jittered(LOOK_MS, LOOK_SPREAD, random);
      if (!hasTrouble) looks = 0;
      await this.#pause(pause, here, clock);
    }
  }

  /** Until something changes, or for so long. */
  async #pause(ms: number, signal: AbortSignal, clock: Clock): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    if (!this.#isChanged) await sleep(ms, AbortSignal.any([signal, woken.signal]), clock);
    this.#wake = () => {};
  }

  async #compare(connection: RouterConnection, signal: AbortSignal): Promise<{ hasTrouble: boolean }> {
    const { wanted, certificates, owned, mode = () => undefined } = this.#options;
    const found = (await Promise.all(MANAGED.map((kind) => connection.query(kind, signal)))).flat();
    const running = mode() === undefined ? undefined : await connection.mode(signal);
    const entities = mode() === running ? wanted() : undefined;
    const digests = new Map(certificates());
    const changes = entities ? [...this.#withProfiles(changesTo(found, entities, owned), entities, digests)] : [];
    const again = entities ? this.#takenAgain(found, entities, changes) : [];
    const refused = await this.#apply(connection, [...changes, ...again], signal);
    for (const { entity, operation } of changes)
      if (entity.kind === 'sslProfile' && operation !== 'delete' && !refused.some(({ name }) => name === entity.name)) {
        const digest = digests.get(entity.name);
        if (digest !== undefined) this.#read.set(entity.name, digest);
      }
    const [listeners, connectors] =
      changes.length + again.length === 0
        ? [found.filter(isKind('tcpListener')), found.filter(isKind('connector'))]
        : await Promise.all([connection.query('tcpListener', signal), connection.query('connector', signal)]);
    const notUp = listeners
      .filter(({ attributes }) => attributes.operStatus !== 'up')
      .map(({ name, attributes }) => named(name, attributes.connectionMsg));
    const links = connectors.map(({ name, attributes }) =>
      attributes.connectionStatus === 'SUCCESS'
        ? { name }
        : named(name, attributes.connectionMsg || 'it is not connected'),
    );
    const isCurrent = entities !== undefined && refused.length === 0;
    this.#report({ router: connection.router, isCurrent, refused, notUp, links });
    return { hasTrouble: !isCurrent || notUp.length > 0 || links.some(({ message }) => message !== undefined) };
  }

  /** The changes, and an update of each profile whose files this router has not read yet. */
  #withProfiles(
    changes: readonly RouterChange[],
    entities: readonly RouterEntity[],
    digests: ReadonlyMap<string, string>,
  ): RouterChange[] {
    const changed = new Set(changes.map(({ entity }) => entity.name));
    const unread = entities.filter(
      ({ kind, name }) =>
        kind === 'sslProfile' && !changed.has(name) && digests.has(name) && this.#read.get(name) !== digests.get(name),
    );
    return [...unread.map((entity): RouterChange => ({ operation: 'update', entity })), ...changes];
  }

  /** A listener that failed because of its port never tries again by itself. */
  #takenAgain(
    found: readonly FoundEntity[],
    entities: readonly RouterEntity[],
    changes: readonly RouterChange[],
  ): RouterChange[] {
    const { clock, random } = this.#options;
    const changed = new Set(changes.map(({ entity }) => entity.name));
    const failed = new Set(found.filter(hasFailed).map(({ name }) => name));
    for (const name of this.#taken.keys()) if (!failed.has(name)) this.#taken.delete(name);
    return entities.flatMap((entity): RouterChange[] => {
      const { name } = entity;
      if (entity.kind !== 'tcpListener' || !failed.has(name) || changed.has(name)) return [];
      const { failures, dueAt } = this.#taken.get(name) ?? { failures: 0, dueAt: Number.NEGATIVE_INFINITY };
      if (clock.now() < dueAt) return [];
      const next = { failures: failures + 1, dueAt: clock.now() + backoffDelay(MAKE_AGAIN, failures + 1, random) };
      this.#taken.set(name, next);
      // The first failure was a moment ago.
      if (failures === 0) return [];
      return [
        { operation: 'delete', entity },
        { operation: 'create', entity },
      ];
    });
  }

  /** Carries out changes, several requests at once where their order does not matter. Resolves with what was refused. */
  async #apply(
    connection: RouterConnection,
    changes: readonly RouterChange[],
    signal: AbortSignal,
  ): Promise<RouterIssue[]> {
    const { log } = this.#options;
    const refused = new Map<string, RouterIssue>();
    for (const together of alike(changes))
      await each(together, async ({ operation, entity }) => {
        try {
          await connection[operation](entity, signal);
        } catch (error) {
          if (signal.aborted || !(error instanceof RouterRefused)) throw error;
          log.warn({ err: error, operation, entity: entity.name }, 'A router refuses a part of its configuration');
          refused.set(entity.name, named(entity.name, error.message));
        }
      });
    return [...refused.values()];
  }

  #report(state: RouterState): void {
    if (JSON.stringify(state) === JSON.stringify(this.#state)) return;
    this.#state = state;
    this.#options.report(state);
  }
}

const isKind =
  (kind: FoundEntity['kind']) =>
  (one: FoundEntity): boolean =>
    one.kind === kind;

/** Whether a listener has failed; a listener that waits for a connector has no message. */
const hasFailed = ({ kind, attributes }: FoundEntity): boolean =>
  kind === 'tcpListener' && attributes.operStatus !== 'up' && Boolean(attributes.connectionMsg);

const named = (name: string, message: unknown): RouterIssue =>
  message ? { name, message: String(message).slice(0, MOST_OF_MESSAGE) } : { name };

/** Runs of changes with one operation and kind, in their order. */
function alike(changes: readonly RouterChange[]): RouterChange[][] {
  const runs: RouterChange[][] = [];
  for (const change of changes) {
    const last = runs.at(-1);
    const [first] = last ?? [];
    if (last && first?.operation === change.operation && first.entity.kind === change.entity.kind) last.push(change);
    else runs.push([change]);
  }
  return runs;
}

async function each<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const next = items[Symbol.iterator]();
  const worker = async () => {
    for (let one = next.next(); !one.done; one = next.next()) await act(one.value);
  };
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, worker));
}
