import { BOUNDS } from '../../../src/api/bounds.ts';
import { whenAborted } from '../../../src/lib/aborted.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import type { Log } from '../../../src/lib/log.ts';
import {
  connectRouter,
  type RouterClientOptions,
  type RouterConnection,
} from '../../../src/router-client/connection.ts';
import { RouterDelivery, type RouterState } from '../../../src/router-client/delivery.ts';
import type { StatusReport } from '../../../src/wire/agent.ts';
import { ROUTER_SETS } from '../../../src/wire/router.ts';
import type { Sent } from '../domain/desired.ts';
import type { Random } from '../domain/jitter.ts';
import type { Part } from '../domain/part.ts';
import { ReadSets, type SystemSets } from '../machine/system-sets.ts';
import { hasRouter, type RouterFiles, readRouterFiles } from './router-files.ts';

export interface RouterDependencies extends SystemSets {
  clock: Clock;
  random: Random;
  log: Log;
  /** What the report says of the router has changed. */
  changed(): void;
  /** connects to a router; absent: as all clients of routers do */
  dial?(options: RouterClientOptions): Promise<RouterConnection>;
}

/** The router has this certificate under this name, whatever the address of the machine is. */
const LOOPBACK = '127.0.0.1';

/** A router as this agent tells it. */
interface Told {
  port: number;
  delivery: RouterDelivery;
}

/**
 * Tells the router on this machine what has changed in its files: services, connections to other routers, certificates. It reads its
 * files at its start alone, and no change ends a connection of a service that stays.
 */
export class RouterPart implements Part<'microservices'> {
  readonly #deps: RouterDependencies;
  readonly #files: ReadSets<RouterFiles>;
  #told: Told | undefined;
  #state: RouterState | undefined;
  /** digests of the files that the router is being compared with, and was */
  #compared = { next: '', last: '' };
  #shown = '';
  #isEnded = false;

  constructor(deps: RouterDependencies) {
    this.#deps = deps;
    this.#files = new ReadSets(deps, Object.values(ROUTER_SETS), readRouterFiles);
  }

  get problems(): string[] {
    const [first, ...others] = this.#state?.refused ?? [];
    if (!first) return [];
    const more = others.length > 0 ? ` and ${others.length} more` : '';
    return [`the router refuses ${first.name}${more}: ${first.message ?? 'no reason'}`];
  }

  report(): StatusReport {
    if (!this.#told) return {};
    const { refused = [], notUp = [], links = [], isCurrent = false } = this.#state ?? {};
    const [problem] = this.problems;
    return {
      router: {
        isReached: this.#state?.router !== undefined,
        isCurrent: isCurrent && this.#compared.last === this.#files.value?.digest,
        ...(problem && { problem: problem.slice(0, BOUNDS.message) }),
        links: links
          .flatMap(({ name, message }) => (message === undefined ? [name] : []))
          .toSorted()
          .slice(0, BOUNDS.upstreams),
        refused: firstOf(refused),
        // The default router knows which listeners wait for a connector; what failed is known here alone.
        notUp: firstOf(notUp.toSorted((a, b) => Number(!a.message) - Number(!b.message))),
        notUpCount: notUp.length,
      },
    };
  }

  look({ microservices }: Pick<Sent, 'microservices'>): void {
    if (this.#isEnded) return;
    const before = this.#files.value?.digest;
    const isThere = hasRouter(microservices?.views.values() ?? []);
    if (isThere) this.#files.refresh();
    const files = isThere ? this.#files.value : undefined;
    if (!files) this.#forget();
    else if (this.#told?.port !== files.port) this.#tell(files.port);
    else if (files.digest !== before) this.#told.delivery.changed();
    this.#show();
  }

  async run(signal: AbortSignal): Promise<void> {
    await whenAborted(signal);
    this.#isEnded = true;
    const { delivery } = this.#told ?? {};
    this.#forget();
    await delivery?.[Symbol.asyncDispose]();
  }

  #tell(port: number): void {
    const { clock, random, log, dial = connectRouter } = this.#deps;
    this.#forget();
    const delivery = new RouterDelivery({
      dial: async (signal) => {
        const tls = this.#files.value?.tls;
        if (!tls) throw new Error('the certificate of the agent for its router is not here');
        return dial({ host: LOOPBACK, port, servername: LOOPBACK, tls, name: 'skerry-agent', signal });
      },
      wanted: () => {
        this.#compared.next = this.#files.value?.digest ?? '';
        return this.#files.value?.entities;
      },
      // A router of another mode gives way to its successor.
      mode: () => this.#files.value?.mode,
      compared: () => {
        this.#compared.last = this.#compared.next;
        this.#show();
      },
      certificates: () => this.#files.value?.certificates ?? new Map(),
      owned: 'all',
      report: (state) => {
        this.#state = state;
        this.#show();
      },
      clock,
      random,
      log,
    });
    this.#told = { port, delivery };
  }

  #forget(): void {
    void this.#told?.delivery[Symbol.asyncDispose]();
    this.#told = undefined;
    this.#state = undefined;
    this.#compared = { next: '', last: '' };
  }

  #show(): void {
    const shown = JSON.stringify(this.report());
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#deps.changed();
  }
}

/** The first of a list that has no end, as a report has them. */
const firstOf = (issues: RouterState['notUp']) =>
  issues.slice(0, BOUNDS.routerIssues).map(({ name, message }) => ({
    name: name.slice(0, BOUNDS.name),
    ...(message !== undefined && { message: message.slice(0, BOUNDS.message) }),
  }));
