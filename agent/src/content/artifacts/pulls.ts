import type { Log } from '../../../../src/lib/log.ts';
import type { RegistryView } from '../../../../src/wire/agent.ts';
import { type ArtifactView, artifactFingerprint } from '../../../../src/wire/artifacts.ts';
import type { ArtifactKind } from '../../domain/artifact.ts';
import { type ArtifactError, toArtifactError } from './error.ts';
import type { Failures } from './failures.ts';
import { Pace } from './pace.ts';
import { type PullDependencies, pullArtifact } from './pull.ts';
import { type ArtifactKey, type ArtifactRecord, artifactKey } from './record.ts';

export interface PullsDependencies extends Omit<PullDependencies, 'pace' | 'exclusively' | 'claim'> {
  log: Log;
  metrics: {
    add(name: 'artifactPulls' | 'artifactBytes', labels: Record<string, string>, by?: number): void;
  };
  /** bytes a second; 0: any number */
  rateLimit(): number;
  /** whether images are pulled */
  imagesPulled(): boolean;
  failures: Failures;
  /** A pull has brought a complete artifact, which is not saved yet. */
  pulled(record: ArtifactRecord): void;
  /** A pull has failed; the next attempt is due later. */
  failed(key: ArtifactKey, error: ArtifactError): void;
  /** A pull has come further. */
  progressed(): void;
  /** A pull has ended, one way or the other. */
  ended(): Promise<void>;
}

interface Pull {
  asked: string;
  abort: AbortController;
  /** contents that it has so far */
  claims: Set<string>;
  received: number;
  total: number;
}

/** The pulls that are under way. */
export class Pulls {
  readonly #deps: PullsDependencies;
  readonly #pace: Pace;
  readonly #pulls = new Map<ArtifactKey, Pull>();
  readonly #writing = new Map<string, Promise<unknown>>();

  constructor(deps: PullsDependencies) {
    this.#deps = deps;
    this.#pace = new Pace({ clock: deps.clock, limit: deps.rateLimit, imagesPulled: deps.imagesPulled });
  }

  /** How far they are, by artifact. */
  get progress(): ReadonlyMap<ArtifactKey, { asked: string; received: number; total: number }> {
    return this.#pulls;
  }

  /** Whether a content belongs to one of them: it stays in the store. */
  isClaimed(sha256: string): boolean {
    return [...this.#pulls.values()].some(({ claims }) => claims.has(sha256));
  }

  /** Ends those that `which` selects. */
  abort(which: (key: ArtifactKey, asked: string) => boolean): void {
    for (const [key, { asked, abort }] of this.#pulls) if (which(key, asked)) abort.abort();
  }

  /** Resolves when no download is written any more. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#writing.values());
  }

  /** Pulls one artifact. Never throws. */
  async begin(
    kind: ArtifactKind,
    view: ArtifactView,
    registry: RegistryView | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { metrics, clock, failures, pulled, ended } = this.#deps;
    const key = artifactKey({ kind, uuid: view.uuid });
    const log = this.#deps.log.child({ kind, artifact: view.name });
    const pull: Pull = {
      asked: artifactFingerprint(view),
      abort: new AbortController(),
      claims: new Set(),
      received: 0,
      total: 0,
    };
    this.#pulls.set(key, pull);
    const began = clock.now();
    log.info({ repo: view.repo, revision: view.revision }, 'Pulling an artifact');
    try {
      const ending = AbortSignal.any([signal, pull.abort.signal]);
      const progress = (received: number, total: number) => this.#progressed(pull, received, total);
      const record = await pullArtifact({ kind, view, registry }, this.#dependencies(pull), progress, ending);
      pulled(record);
      failures.forget(key);
      metrics.add('artifactPulls', { kind, outcome: 'ok' });
      const { resolvedRevision, totalBytes } = record;
      log.info({ resolvedRevision, totalBytes, durationMs: clock.now() - began }, 'Pulled an artifact');
    } catch (error) {
      const isGivenUp = signal.aborted || pull.abort.signal.aborted;
      const failure = toArtifactError(error);
      const { code, message, retryAfter } = failure;
      metrics.add('artifactPulls', { kind, outcome: isGivenUp ? 'given-up' : code });
      if (!isGivenUp) {
        failures.note(key, { asked: pull.asked, message, lacksRoom: code === 'DiskFull' }, retryAfter);
        log.warn({ reason: code, error: message }, 'Cannot pull an artifact');
        this.#deps.failed(key, failure);
      }
    }
    this.#pulls.delete(key);
    await ended();
  }

  #dependencies({ claims }: Pull): PullDependencies {
    const exclusively = <T>(identity: string, act: () => Promise<T>) => this.#exclusively(identity, act);
    return { ...this.#deps, pace: this.#pace, exclusively, claim: (sha256) => void claims.add(sha256) };
  }

  /** Artifacts may share a content: one of them downloads it, and the others find it in the store. */
  async #exclusively<T>(identity: string, act: () => Promise<T>): Promise<T> {
    for (let other = this.#writing.get(identity); other; other = this.#writing.get(identity))
      await other.catch(() => {});
    const own = act();
    this.#writing.set(identity, own);
    try {
      return await own;
    } finally {
      if (this.#writing.get(identity) === own) this.#writing.delete(identity);
    }
  }

  #progressed(pull: Pull, received: number, total: number): void {
    const before = percentageOf(pull);
    const isFirst = pull.received === 0;
    this.#deps.metrics.add('artifactBytes', {}, Math.max(0, received - pull.received));
    Object.assign(pull, { received, total });
    if (isFirst || percentageOf(pull) !== before) this.#deps.progressed();
  }
}

function percentageOf({ received, total }: { received: number; total: number }): number {
  return total > 0 ? Math.floor((received / total) * 100) : 0;
}
