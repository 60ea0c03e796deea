import type { Service } from '../../../api/v3/service.ts';
import { type Change, keyOf } from '../../../kube/mod.ts';
import type { ServiceSettings } from '../../../rules/service-settings.ts';
import { claimedPort as claimOf, isBridgePort, keepsPort } from '../rules/bridge-ports.ts';

/** Services that are reconciled because a port is free again; the first of them gets it. */
const NEXT = 4;
/** How long nobody gets the port of a deleted service: clients and routers still mean the former one, ms. */
const QUARANTINE_MS = 600_000;

/** The index of the store of services that it reads. */
interface ServicesByPort {
  byIndex(index: 'bridgePort' | 'claimedPort', key: string): readonly Service[];
}

/**
 * Gives services their bridge ports. Their statuses say who has which port; until a status is written, its port is reserved here, since
 * services are reconciled at the same time.
 */
export class BridgePorts {
  readonly #range: ServiceSettings['ports'];
  readonly #services: ServicesByPort;
  readonly #clock: () => number;
  /** ports of the default router itself */
  readonly #ofHub: () => readonly number[];
  readonly #reserved = new Map<number, string>();
  /** the reserved port of a service, by its key */
  readonly #portOf = new Map<string, number>();
  /** Unix ms until which nobody gets a port but the service that had it, by its key */
  readonly #until = new Map<number, { at: number; had: string }>();
  /** keys of services that found no free port */
  readonly #waiting = new Set<string>();
  /** no lower port of the range is free, as far as is known */
  #low: number;

  constructor(
    range: ServiceSettings['ports'],
    services: ServicesByPort,
    clock: () => number,
    ofHub: () => readonly number[] = () => [],
  ) {
    this.#range = range;
    this.#services = services;
    this.#clock = clock;
    this.#ofHub = ofHub;
    this.#low = range.first;
  }

  /** The port of a service: its own, though the range is another one now, else the lowest that is free. */
  grant(service: Service): number | undefined {
    const key = keyOf(service);
    const own = service.status?.bridgePort;
    const isOwn = own !== undefined && keepsPort(service, this.#services.byIndex('bridgePort', String(own)));
    if (isOwn && this.#isReservedBy(own, key)) {
      this.#release(key);
      this.#waiting.delete(key);
      return own;
    }
    const reserved = this.#portOf.get(key);
    const port = [reserved, claimOf(service)].find((one) => one && this.#isFree(one, key)) ?? this.#lowest(key);
    this.#release(key);
    if (port === undefined) {
      this.#waiting.add(key);
      return undefined;
    }
    this.#waiting.delete(key);
    this.#reserved.set(port, key);
    this.#portOf.set(key, port);
    return port;
  }

  /** The default router has other ports: its former ports may be free. */
  hubChanged(): void {
    this.#low = this.#range.first;
  }

  /** Unix ms at which a port may be free for a service that found none. */
  get nextAt(): number {
    return Math.min(this.#clock() + QUARANTINE_MS, ...[...this.#until.values()].map(({ at }) => at));
  }

  /** The keys of further services that a change concerns: those with the same port, and those that wait for a port. */
  affected({ type, object, previous, key }: Change<Service>): string[] {
    const had = type === 'delete' ? object.status?.bridgePort : previous?.status?.bridgePort;
    const has = type === 'delete' ? undefined : object.status?.bridgePort;
    if (type === 'delete') this.#forget(key, had);
    const owners = has === undefined || has === had ? [] : this.#services.byIndex('bridgePort', String(has));
    // A former leader gave it away with its last write, or kubectl wrote the status.
    const same = owners.length > 1 ? owners.map(keyOf) : [];
    if (had === undefined || had === has) return same;
    this.#low = Math.min(this.#low, Math.max(had, this.#range.first));
    return [...same, ...[...this.#waiting].slice(0, NEXT)];
  }

  #forget(key: string, port: number | undefined): void {
    const reserved = this.#portOf.get(key);
    this.#release(key);
    this.#waiting.delete(key);
    for (const one of [port, reserved])
      if (one !== undefined) this.#until.set(one, { at: this.#clock() + QUARANTINE_MS, had: key });
  }

  #release(key: string): void {
    const port = this.#portOf.get(key);
    this.#portOf.delete(key);
    if (port === undefined) return;
    this.#reserved.delete(port);
    this.#low = Math.min(this.#low, port);
  }

  #lowest(key: string): number | undefined {
    for (const [port, { at }] of this.#until) {
      if (at > this.#clock()) continue;
      this.#until.delete(port);
      this.#low = Math.min(this.#low, Math.max(port, this.#range.first));
    }
    for (let port = this.#low; port <= this.#range.last; port++) {
      if (!this.#isFree(port, key)) continue;
      this.#low = port;
      return port;
    }
    this.#low = this.#range.last + 1;
    return undefined;
  }

  #isFree(port: number, key: string): boolean {
    const { first, last } = this.#range;
    return (
      port >= first &&
      port <= last &&
      isBridgePort(port, this.#ofHub()) &&
      this.#isReservedBy(port, key) &&
      this.#isOver(port, key) &&
      this.#services.byIndex('bridgePort', String(port)).every((service) => keyOf(service) === key) &&
      this.#isClaimedBy(port, key)
    );
  }

  /** Whether nobody had it a short time ago but the service itself. */
  #isOver(port: number, key: string): boolean {
    const until = this.#until.get(port);
    return !until || until.at <= this.#clock() || until.had === key;
  }

  /** Whether no other service had it before a restore. */
  #isClaimedBy(port: number, key: string): boolean {
    const claims = this.#services.byIndex('claimedPort', String(port));
    return claims.length === 0 || claims.some((one) => keyOf(one) === key && keepsPort(one, claims));
  }

  /** Whether nobody else has reserved it. */
  #isReservedBy(port: number, key: string): boolean {
    return (this.#reserved.get(port) ?? key) === key;
  }
}
