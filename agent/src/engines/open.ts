import type { CompleteEngine } from '../engine-port/engine.ts';
import { DockerEngine, type DockerEngineOptions } from './docker/engine.ts';
import { EmbeddedEngine } from './embedded/engine.ts';
import { EMBEDDED } from './embedded/machine/places.ts';
import { startedAt } from './embedded/machine/started.ts';
import { socketOf } from './find.ts';

/**
 * The adapter of the engine at a URL: the socket of a containerd that the agent has prepared leads to its own engine; docker and
 * podman share the Docker API, which says which of the two answers.
 */
export function openEngine(options: DockerEngineOptions): CompleteEngine {
  const socket = socketOf(options.url);
  const isOwn = socket !== undefined && (socket === EMBEDDED.socket || startedAt(socket) !== undefined);
  return isOwn ? new EmbeddedEngine(options) : new DockerEngine(options);
}
