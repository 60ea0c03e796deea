import type { CompleteEngine } from '../engine-port/engine.ts';
import { DockerEngine, type DockerEngineOptions } from './docker/engine.ts';

/** The adapter of the engine at a URL: docker and podman share the Docker API, which says which of the two answers. */
export function openEngine(options: DockerEngineOptions): CompleteEngine {
  return new DockerEngine(options);
}
