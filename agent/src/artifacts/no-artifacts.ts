import { type ArtifactItem, type ArtifactWait, allCatalogs, type PrunedArtifacts } from '../domain/artifact.ts';
import type { Observed, Part } from '../domain/part.ts';

/** Takes the place of Artifacts on a machine that keeps no models and no knowledge: what binds some waits. */
export class NoArtifacts implements Part {
  readonly #observed: Observed;

  constructor(observed: Observed) {
    this.#observed = observed;
  }

  waitOf(uuid: string): ArtifactWait | undefined {
    const isBound = allCatalogs(this.#observed.desired).some((catalog) => catalog.uuid === uuid);
    return isBound ? { failed: true, message: 'this machine keeps no models and no knowledge' } : undefined;
  }

  items(): ArtifactItem[] {
    return [];
  }

  async prune(): Promise<PrunedArtifacts> {
    return { names: [], bytes: 0 };
  }
}
