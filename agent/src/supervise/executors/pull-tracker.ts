import type { Clock } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import { isRelayName } from '../../content/registries/pull.ts';
import type { StepOf } from '../../domain/step.ts';
import type { ImagePort } from '../../engine-port/images.ts';
import { errorText } from '../../machine/log.ts';

const SECOND = 1000;

export interface PullTrackerDependencies {
  engine: ImagePort;
  clock: Clock;
  log: Log;
  metrics: {
    add(name: 'pulls', labels: Record<string, string>): void;
    observe(name: 'pullSeconds', seconds: number): void;
  };
}

/** The pulls that are under way, and the names that they leave in the engine. */
export class PullTracker {
  readonly #deps: PullTrackerDependencies;
  #underWay = 0;

  constructor(deps: PullTrackerDependencies) {
    this.#deps = deps;
  }

  get isUnderWay(): boolean {
    return this.#underWay > 0;
  }

  /** A pull begins. The returned function is called when it has ended: `ok`, `given-up`, or the reason of its failure. */
  begin({ pull, instance }: StepOf<'image'>, signal: AbortSignal): (outcome: string) => void {
    const { clock, metrics } = this.#deps;
    const began = clock.now();
    this.#underWay++;
    return (outcome) => {
      if (--this.#underWay === 0 && pull.relay) void this.removeRelayNames(instance, signal);
      metrics.add('pulls', { outcome });
      if (outcome === 'ok') metrics.observe('pullSeconds', (clock.now() - began) / SECOND);
    };
  }

  /**
   * A pull through a relay that was cut short leaves a name that leads nowhere, and keeps its image from being pruned;
   * and podman brings such a name back when two pulls of one image end at once. While no pull is under way all of them
   * are left over.
   */
  async removeRelayNames(instance: string, signal: AbortSignal): Promise<void> {
    const { engine, log } = this.#deps;
    try {
      const names = await engine.imageNames(signal);
      if (this.#underWay > 0) return;
      for (const name of names) if (isRelayName(name, instance)) await engine.removeImage(name, signal);
    } catch (error) {
      log.warn({ error: errorText(error) }, 'Cannot remove the names that relays left in the engine');
    }
  }
}
