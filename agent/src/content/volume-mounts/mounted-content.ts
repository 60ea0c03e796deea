import { type Clock, sleep } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { MicroserviceView, StatusReport } from '../../../../src/wire/agent.ts';
import type { Sent } from '../../domain/desired.ts';
import type { Entry } from '../../domain/entry.ts';
import type { Observed, Part } from '../../domain/part.ts';
import { boundPaths, type Resolution, tokenPath, tokenTarget } from '../../domain/volume-mounts.ts';
import { errorText } from '../../machine/log.ts';
import type { Identity } from '../../state/identity.ts';
import type { MountedFiles } from './files.ts';
import { ServiceAccounts } from './service-accounts.ts';
import { VolumeMounts } from './volume-mounts.ts';

/** How often tokens, failures and what nothing uses are looked at, ms. */
const LOOK_EVERY = 30_000;

export interface MountedContentDependencies {
  files: MountedFiles;
  clock: Clock;
  log: Log;
  identity(): Identity;
  /** PEM by which containers know the local API; absent: it is not served to them */
  authority?: string;
  observed: Observed;
}

/** What the agent itself writes for containers to mount: volume mounts, and the tokens of service accounts. */
export class MountedContent implements Part<'volumeMounts'> {
  readonly #deps: MountedContentDependencies;
  readonly #mounts: VolumeMounts;
  readonly #accounts: ServiceAccounts;
  /** nothing is left that will have to be removed */
  #isTidy = false;
  /** why something could not be removed */
  #problem = '';

  constructor(deps: MountedContentDependencies) {
    this.#deps = deps;
    this.#mounts = new VolumeMounts(deps);
    this.#accounts = new ServiceAccounts(deps);
  }

  get problems(): string[] {
    const own = this.#problem && `volume mounts: what nothing uses cannot be removed: ${this.#problem}`;
    return [...this.#mounts.problems, ...this.#accounts.problems, ...(own ? [own] : [])];
  }

  report(): StatusReport {
    const { active, changedAt } = this.#mounts.status;
    return { activeVolumeMounts: active, volumeMountLastUpdate: changedAt };
  }

  get items(): VolumeMounts['items'] {
    return this.#mounts.items;
  }

  write({ volumeMounts }: Pick<Sent, 'volumeMounts'>): void {
    this.#mounts.apply(volumeMounts);
  }

  resolve(view: MicroserviceView): Resolution {
    return this.#mounts.resolve(view);
  }

  /** Writes the tokens of what is to run, before it is made, and of what runs although it may not change. */
  prepare(desired: readonly Entry[] | undefined): void {
    this.#isTidy = false;
    this.#accounts.apply(this.#uuids(desired).flatMap((uuid) => this.#viewsOf(uuid, desired).slice(-1)));
  }

  /** Replaces tokens before they expire, tries again what failed, and removes what nothing uses, until the signal fires. */
  async run(signal: AbortSignal, applyAgain: () => void): Promise<void> {
    while (!signal.aborted) {
      await sleep(LOOK_EVERY, signal, this.#deps.clock);
      if (signal.aborted) return;
      if (this.#mounts.hasFailed) applyAgain();
      else this.prepare(this.#deps.observed.desired);
      this.observed();
    }
  }

  /** Removes what nothing uses. A disk that refuses it is tried again later. */
  observed(): void {
    try {
      this.#removeUnused();
      this.#problem = '';
    } catch (error) {
      const text = errorText(error);
      if (text !== this.#problem) this.#deps.log.warn({ error: text }, 'Cannot remove what no container uses');
      this.#problem = text;
    }
  }

  #removeUnused(): void {
    const { desired, containers, pending, hasLooked } = this.#deps.observed;
    // A container that is being made is not among the containers yet.
    if (this.#isTidy || !desired || pending > 0 || !hasLooked) return;
    const views = this.#uuids(desired).flatMap((uuid) => this.#viewsOf(uuid, desired));
    const tokens = views.filter(tokenTarget).map(({ uuid }) => tokenPath(uuid));
    const wanted = new Set([...views.flatMap(boundPaths), ...tokens]);
    // The directory of volumes may be reached by several paths.
    const sources = containers.flatMap(({ binds = [] }) => binds.map(({ source }) => source));
    const isBound = (path: string) => sources.some((source) => source.endsWith(`/${path}`));
    const inUse = { wanted, isBound };
    this.#isTidy = [this.#mounts.tidy(inUse), this.#accounts.tidy(inUse)].every(Boolean);
  }

  /** The microservices that are to run, or that have a container. */
  #uuids(desired: readonly Entry[] | undefined): string[] {
    return [...new Set([...(desired ?? []), ...this.#deps.observed.containers].map(({ uuid }) => uuid))];
  }

  /** The views that a container of a microservice is, or may be, made from; the one that is to be comes last. */
  #viewsOf(uuid: string, desired: readonly Entry[] | undefined): MicroserviceView[] {
    const entry = desired?.find((each) => each.uuid === uuid);
    const views = [this.#deps.observed.record(uuid)?.lastGood, entry?.kind === 'run' ? entry.view : undefined];
    return views.filter((view) => view !== undefined);
  }
}
