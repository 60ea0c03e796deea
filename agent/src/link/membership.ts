import type { Clock } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import type { AgentConfig, StatusReport } from '../../../src/wire/agent.ts';
import type { Config } from '../domain/config.ts';
import { shortRequest } from '../domain/desired.ts';
import type { Random } from '../domain/jitter.ts';
import { errorText } from '../machine/log.ts';
import type { Database } from '../state/database.ts';
import { localPart, type Node } from '../state/identity.ts';
import type { OwnIdentity } from '../state/own-identity.ts';
import { signingKey } from '../state/token.ts';
import type { Actions } from './actions.ts';
import { Authorities } from './authorities.ts';
import { type Connection, ControllerClient, type Transport } from './client.ts';
import type { Link } from './link.ts';
import type { SavedResponses } from './saved-responses.ts';
import { orDatabaseError, SyncLoop } from './sync-loop.ts';

/** What ends with a membership: all containers of the agent (`all`), or only the membership (`local`). */
export type Scope = 'all' | 'local';

/** The microservices of the machine itself, at the end of a membership. Both throw when they cannot save what they do. */
interface OwnAtEnd {
  /** Makes what the controller placed the machine's own. */
  keep(): void;
  /** Ends all that is the machine's own. */
  removeAll(): void;
}

export interface MembershipDependencies {
  config: Config;
  clock: Clock;
  random: Random;
  log: Log;
  metrics: { add(name: 'requests', labels: { kind: string; code: string }): void };
  database: Pick<Database, 'value' | 'saveValue'>;
  identity: OwnIdentity;
  link: Link;
  responses: SavedResponses;
  actions: Actions;
  own: OwnAtEnd;
  /** id of this start of the agent */
  boot: string;
  /** how requests are sent */
  transport?: Transport;
  /** PEM of a further authority for the controller's certificate, as it is now */
  controllerCa(): string | undefined;
  /** why the identity is not used; undefined while it may be */
  refusal(): string | undefined;
  /** the settings in force */
  settings(): AgentConfig;
  report(measurements: boolean): Promise<StatusReport>;
  /** The controller has received a report. */
  reported(): void;
  /** Exec or log sessions have begun or ended, or the controller is another. */
  sessionsChanged(): void;
  /** The controller has received that these have stopped. */
  acknowledgeGone(uuids: string[]): void;
}

/** Membership at a controller, from provisioning to deprovisioning: a sync loop while the agent runs and has a node. */
export class Membership {
  readonly #deps: MembershipDependencies;
  readonly #authorities: Authorities;
  #running: AbortSignal | undefined;
  #open: { stop: AbortController; done: Promise<void> } | undefined;

  constructor(deps: MembershipDependencies) {
    this.#deps = deps;
    this.#authorities = new Authorities(deps);
  }

  get connection(): { state: Connection; error: string; lastContact: number } {
    const state = this.#deps.identity.current.node ? 'NOT_CONNECTED' : 'NOT_PROVISIONED';
    return this.#deps.link.connection ?? { state, error: this.#deps.refusal() ?? '', lastContact: 0 };
  }

  /** Polls and reports until the signal fires, while there is a node. */
  start(signal: AbortSignal): void {
    this.#running = signal;
    this.open();
  }

  /** Resolves when the present sync loop has ended. */
  async ended(): Promise<void> {
    await this.#open?.done;
  }

  /** Polls and reports as the present node; `lastContact`, Unix ms, comes from its former loop. */
  open(lastContact = 0): void {
    const { config, clock, random, log, database, identity, link, responses, actions, settings, report } = this.#deps;
    const { node } = identity.current;
    if (!node || this.#open || !this.#running || this.#running.aborted || this.#deps.refusal() !== undefined) return;
    const stop = new AbortController();
    const client = this.newClient(node.controllerUrl, node.ca, node);
    const syncLoop = new SyncLoop({
      client,
      lastContact,
      clock,
      random,
      log,
      have: () => ({ ...responses.digests, ...actions.digests, ...this.#authorities.digests }),
      short: (name) => shortRequest(name, responses.sent),
      save: (changed) => {
        responses.save(changed);
        link.changed();
      },
      carryOut: (section, digest, count) => {
        if (actions.carryOut(section, digest, count)) link.changed();
      },
      sessionsChanged: () => this.#deps.sessionsChanged(),
      trust: (signal) => this.#authorities.follow(client, signal),
      deleting: () => orDatabaseError(() => database.saveValue('ending', 'deleteNode')),
      deleted: () => this.end('all', false),
      report,
      reported: ({ microserviceStatus = [] }) => {
        this.#deps.acknowledgeGone(microserviceStatus.filter(({ status }) => status === 'STOPPED').map(({ id }) => id));
        this.#deps.reported();
      },
      statusFrequency: () => settings().statusFrequency ?? config.statusFrequency,
      changeFrequency: () => settings().changeFrequency ?? config.changeFrequency,
    });
    const done = syncLoop.run(AbortSignal.any([stop.signal, this.#running])).finally(() => client.close());
    this.#open = { stop, done };
    link.open(syncLoop, client);
  }

  /** Whether the identity may be used is another matter now. */
  refusalChanged(): void {
    if (this.#deps.refusal() === undefined) this.open();
    else this.close();
  }

  /** Polls and reports with the present identity. */
  renew(): void {
    if (!this.#open) return;
    const { lastContact } = this.connection;
    this.close();
    this.open(lastContact);
  }

  close(): void {
    this.#open?.stop.abort();
    this.#open = undefined;
    this.#deps.link.close();
    this.#deps.sessionsChanged();
  }

  /** Drops an unfinished deletion that the last controller requested, since another controller takes its place. */
  makeWay(): void {
    this.close();
    this.#deps.database.saveValue('ending', undefined);
  }

  /**
   * Ends the membership and forgets the node. What its controller placed is no longer wanted, or, with the scope `local`, becomes
   * the machine's own. With `all` that ends as well, unless the controller has deleted the node. Throws, and changes nothing,
   * when it cannot be saved.
   */
  end(scope: Scope, endsOwn = scope === 'all'): void {
    const { identity, log } = this.#deps;
    // This write decides. All that follows can be done again, by the next start at the latest.
    identity.become({ ...localPart(identity.current), ending: scope, ...(endsOwn && { endsOwn }) });
    this.close();
    log.info({}, 'No longer provisioned');
    this.#clearOrLater();
  }

  #clearOrLater(): void {
    try {
      this.clear();
    } catch (error) {
      this.#deps.log.error(
        { error: errorText(error) },
        'Cannot clear what the former controller sent; the next start does',
      );
    }
  }

  /**
   * Clears what the controller of an ended membership sent; nothing to do where that is done. What cannot be saved is cleared for
   * this process alone, and then it throws; but as long as microservices that are to stay cannot be saved, nothing is cleared.
   */
  clear(): void {
    const { database, identity, responses, actions, own } = this.#deps;
    const { ending, endsOwn, ...rest } = identity.current;
    if (!ending) return;
    if (ending === 'local') own.keep();
    try {
      if (endsOwn) own.removeAll();
    } finally {
      responses.endMembership(ending);
    }
    actions.forget();
    database.saveValue('epochPosition', undefined);
    database.saveValue('ending', undefined);
    identity.become(rest);
  }

  /** Completes the end of a membership that a process did not finish, or that an earlier version finished in its own way. */
  finishEnding(): void {
    const { database, identity, responses, log } = this.#deps;
    const { ending, node } = identity.current;
    if (ending) this.#clearOrLater();
    if (ending) return;
    try {
      if (!node && responses.areLeftOver) this.end('local');
      else if (database.value('ending') !== undefined) this.end('all', false);
    } catch (error) {
      log.error({ error: errorText(error) }, 'Cannot forget the controller that has deleted this node');
    }
  }

  /** A client of a controller with this agent's identity; without a node for provisioning. */
  newClient(controllerUrl: string, ca: string | undefined, node?: Pick<Node, 'uuid'>): ControllerClient {
    const { config, clock, transport, boot, metrics, responses, identity } = this.#deps;
    const { instance, nodeKey } = identity.current;
    return new ControllerClient({
      controllerUrl,
      ca: this.#authorities.with(ca),
      insecure: !config.secureMode,
      instance,
      boot,
      clock,
      transport,
      notOlderThan: responses.notOlderThan,
      onAnswer: (path, code) => metrics.add('requests', { kind: requestKind(path), code }),
      epochPosition: responses.epochPosition,
      requestSeconds: config.controllerRequestTimeoutSeconds,
      pingSeconds: config.controllerPingTimeoutSeconds,
      node: node && nodeKey && { uuid: node.uuid, key: signingKey(nodeKey) },
    });
  }
}

const REQUEST_KINDS: readonly [RegExp, string][] = [
  [/^\/agent\/changes/, 'poll'],
  [/^\/agent\/status/, 'report'],
  [/^\/agent\/(config|registries|microservices)/, 'document'],
];

/** The kind of a request to the controller, as a label of the metrics. */
function requestKind(path: string): string {
  return REQUEST_KINDS.find(([pattern]) => pattern.test(path))?.[1] ?? 'other';
}
