import type { Config } from '../domain/config.ts';
import { DOCKER_API_KINDS, type EngineKind } from '../engine-port/facts.ts';

/** An engine of this machine, and where it listens. */
export interface EngineChoice {
  /** unknown where the settings have an address alone */
  kind?: EngineKind;
  url: string;
  /** nothing spoke for it: the machine has no engine yet */
  isGuess?: true;
}

/** What speaks for an engine where the settings name none. */
export interface EngineEvidence {
  /** whether something is at a path */
  isThere(path: string): boolean;
  /** the engine that the agent of this machine had when it last started */
  former: EngineChoice | undefined;
  /** whether an agent ran here before engines were recorded */
  isOld: boolean;
  /** whether the machine has all that the agent's own engine is made of */
  canEmbed(): boolean;
}

/** Where engines listen, the first that is there is taken. */
export const ENGINE_SOCKETS = {
  docker: ['/var/run/docker.sock', '/run/docker.sock'],
  podman: ['/run/podman/podman.sock'],
  embedded: ['/run/skerry-containerd/containerd.sock'],
} as const satisfies Record<EngineKind, readonly string[]>;

/**
 * The engine that the settings name; else the former one, present or not: an engine never changes in silence; else the first
 * of others that is there; else the agent's own.
 */
export function chooseEngine(
  { containerEngine, containerEngineUrl }: Pick<Config, 'containerEngine' | 'containerEngineUrl'>,
  { isThere, former, isOld, canEmbed }: EngineEvidence,
): EngineChoice {
  if (containerEngineUrl) return { ...(containerEngine && { kind: containerEngine }), url: containerEngineUrl };
  if (containerEngine) return choiceOf(containerEngine, isThere);
  if (former) return former.kind ? choiceOf(former.kind, isThere) : former;
  const present = DOCKER_API_KINDS.find((kind) => ENGINE_SOCKETS[kind].some(isThere));
  if (present) return choiceOf(present, isThere);
  if (!isOld && canEmbed()) return choiceOf('embedded', isThere);
  return { ...choiceOf(DOCKER_API_KINDS[0], isThere), ...(!isOld && { isGuess: true }) };
}

function choiceOf(kind: EngineKind, isThere: (path: string) => boolean): EngineChoice {
  const sockets: readonly string[] = ENGINE_SOCKETS[kind];
  return { kind, url: `unix://${sockets.find(isThere) ?? sockets[0]}` };
}
