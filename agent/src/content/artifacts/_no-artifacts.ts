import { AgentError } from '../../domain/agent-error.ts';
import {
  type ArtifactItem,
  type ArtifactWait,
  allCatalogs,
  NOTHING_SWEPT,
  type PrunedArtifacts,
} from '../../domain/artifact.ts';
import type { Observed } from '../../domain/part.ts';
import type { ArtifactsPart } from './artifacts.ts';

/** Takes the place of Artifacts on a machine that keeps no models and no knowledge: a microservice that binds some waits. */
export class NoArtifacts implements ArtifactsPart {
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

  async pull(): Promise<void> {
    throw new AgentError('UNAVAILABLE', 'this machine keeps no models and no knowledge');
  }

  removeContent(): void {}

  async prune(): Promise<PrunedArtifacts> {
    return { names: [], ...NOTHING_SWEPT };
  }
}
