import { type Clock, sleep } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { MicroserviceView, StatusReport } from '../../../../src/wire/agent.ts';
import type { Sent } from '../../domain/desired.ts';
import type { Entry } from '../../domain/entry.ts';
import type { Observed, Part } from '../../domain/part.ts';
import type { Resolution } from '../../domain/volume-mounts.ts';
import type { MountedFiles } from '../../machine/mounted-files.ts';
import { presentViews, UnusedFiles } from '../../machine/unused-files.ts';
import type { Identity } from '../../state/identity.ts';
import type { LocalTokens } from '../../state/local-tokens.ts';
import { ServiceAccounts } from './service-accounts.ts';
import { VolumeMounts } from './volume-mounts.ts';

/** How often tokens, failures and what nothing uses are looked at, ms. */
const LOOK_EVERY = 30_000;

export interface MountedContentDependencies {
  files: MountedFiles;
  clock: Clock;
  log: Log;
  identity(): Identity;
  /** of an agent that is no node; absent: default */
  namespace?: () => string;
  tokens: LocalTokens;
  /** PEM by which containers know the local API; undefined: it is not served to them */
  authority(): string | undefined;
  observed: Observed;
}

/** What the agent itself writes for containers to mount: volume mounts, and the tokens of service accounts. */
export class MountedContent implements Part<'volumeMounts'> {
  readonly #deps: MountedContentDependencies;
  readonly #mounts: VolumeMounts;
  readonly #accounts: ServiceAccounts;
  readonly #unused: UnusedFiles;

  constructor(deps: MountedContentDependencies) {
    this.#deps = deps;
    this.#mounts = new VolumeMounts(deps);
    this.#accounts = new ServiceAccounts(deps);
    this.#unused = new UnusedFiles({
      ...deps,
      what: 'volume mounts',
      remove: (inUse) => [this.#mounts.tidy(inUse), this.#accounts.tidy(inUse)].every(Boolean),
    });
  }

  get problems(): string[] {
    return [...this.#mounts.problems, ...this.#accounts.problems, ...this.#unused.problems];
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
  prepare(desired: readonly Entry[]): void {
    this.#unused.noteChange();
    const views = presentViews(desired, this.#deps.observed);
    this.#accounts.apply(views.flatMap(({ next, lastGood }) => next ?? lastGood ?? []));
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

  observed(): void {
    this.#unused.look();
  }
}
