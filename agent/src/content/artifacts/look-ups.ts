import type { Clock } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { RegistryView } from '../../../../src/wire/agent.ts';
import { jitter, type Random } from '../../domain/jitter.ts';
import { toArtifactError } from './error.ts';
import type { Failures } from './failures.ts';
import { type ArtifactStep, attemptOf, stepKey } from './plan.ts';
import { lookUpRevision, type ResolveDependencies } from './pull.ts';
import { type ArtifactKey, type ArtifactRecord, artifactKey } from './record.ts';

/** A floating revision is looked up again so often, ms. */
const EVERY = 3600_000;
/** A look-up may take so long, ms. */
const DEADLINE = 600_000;

type LookUpStep = Extract<ArtifactStep, { do: 'look-up' }>;

export interface LookUpsDependencies extends ResolveDependencies {
  clock: Clock;
  random: Random;
  log: Log;
  metrics: { add(name: 'artifactLookUps', labels: Record<string, string>): void };
  failures: Failures;
  /** ms until the next look-up of an artifact, where it is not about an hour */
  lookUpDelay?: (isFirst: boolean) => number;
  /** A look-up has ended, one way or the other. */
  lookedUp(): void;
}

/** What the branches and tags that artifacts name mean now. A commit or a digest is never looked up again. */
export class LookUps {
  readonly #deps: LookUpsDependencies;
  readonly #dueAt = new Map<ArtifactKey, number>();
  readonly #outdated = new Set<ArtifactKey>();
  #underWay: Promise<void> | undefined;

  constructor(deps: LookUpsDependencies) {
    this.#deps = deps;
  }

  /** Artifacts whose name means another revision now than the one that is here. */
  get outdated(): ReadonlySet<ArtifactKey> {
    return this.#outdated;
  }

  /** Artifacts that are to be looked up; none while a look-up is under way. */
  due(now: number): ReadonlySet<ArtifactKey> {
    return new Set(this.#underWay ? [] : [...this.#dueAt].flatMap(([key, at]) => (at <= now ? [key] : [])));
  }

  nextDue(now: number): number {
    return Math.min(...[...this.#dueAt.values()].filter((at) => at > now));
  }

  /** This process has found the content of an earlier one. */
  opened(records: Iterable<ArtifactRecord>): void {
    for (const record of records) this.#schedule(record, true);
  }

  pulled(record: ArtifactRecord): void {
    this.#outdated.delete(artifactKey(record));
    this.#schedule(record, false);
  }

  forget(record: ArtifactRecord): void {
    this.#outdated.delete(artifactKey(record));
    this.#dueAt.delete(artifactKey(record));
  }

  #schedule(record: ArtifactRecord, isFirst: boolean): void {
    const { clock, random, lookUpDelay } = this.#deps;
    // After a start at any time of the interval: a fleet that comes back at once does not ask at once.
    const delay = lookUpDelay?.(isFirst) ?? (isFirst ? random() * EVERY : jitter(EVERY, random));
    if (record.floating) this.#dueAt.set(artifactKey(record), clock.now() + delay);
    else this.#dueAt.delete(artifactKey(record));
  }

  begin(step: LookUpStep, registry: RegistryView | undefined, signal: AbortSignal): void {
    this.#underWay = this.#lookUp(step, registry, signal).finally(() => {
      this.#underWay = undefined;
      this.#deps.lookedUp();
    });
  }

  async settled(): Promise<void> {
    await this.#underWay;
  }

  async #lookUp(step: LookUpStep, registry: RegistryView | undefined, signal: AbortSignal): Promise<void> {
    const { failures, metrics } = this.#deps;
    const { kind, view, record } = step;
    const log = this.#deps.log.child({ kind, artifact: view.name, repo: view.repo, revision: view.revision });
    try {
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(DEADLINE)]);
      const revision = await lookUpRevision({ kind, view, registry }, this.#deps, deadline);
      failures.forget(stepKey(step));
      this.#schedule(record, false);
      const isSame = revision === record.resolvedRevision;
      metrics.add('artifactLookUps', { kind, outcome: isSame ? 'same' : 'newer' });
      if (isSame) return;
      this.#outdated.add(artifactKey(record));
      log.info({ before: record.resolvedRevision, now: revision }, 'An artifact means another revision now');
    } catch (error) {
      if (signal.aborted) return;
      const { code, message, retryAfter } = toArtifactError(error);
      metrics.add('artifactLookUps', { kind, outcome: code });
      failures.note(stepKey(step), { asked: attemptOf(step), message }, retryAfter);
      log.warn({ reason: code, error: message }, 'Cannot look up what an artifact means now; what is here stays');
    }
  }
}
