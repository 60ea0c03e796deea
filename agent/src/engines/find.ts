import type { Config } from '../domain/config.ts';
import { ENGINE_KINDS, type EngineKind } from '../engine-port/facts.ts';
import { exists } from '../machine/disk.ts';

/** Where engines listen, the first that is there is taken. */
export const ENGINE_SOCKETS = {
  docker: ['/var/run/docker.sock', '/run/docker.sock'],
  podman: ['/run/podman/podman.sock'],
} as const satisfies Record<EngineKind, readonly string[]>;

/** The engine that the settings name, else the first that is there. */
export function findEngineUrl({ containerEngine, containerEngineUrl }: Config): string {
  if (containerEngineUrl) return containerEngineUrl;
  const kinds = containerEngine ? [containerEngine] : ENGINE_KINDS;
  const sockets = kinds.flatMap((kind) => [...ENGINE_SOCKETS[kind]]);
  return `unix://${sockets.find(exists) ?? sockets[0]}`;
}

/** The socket of an engine on this machine; undefined of an engine elsewhere. */
export function socketOf(url: string): string | undefined {
  return url.startsWith('unix://') ? url.slice('unix://'.length) : undefined;
}
