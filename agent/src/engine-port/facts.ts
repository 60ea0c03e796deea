/** The engines with the Docker API; the first is the default. */
export const DOCKER_API_KINDS = ['docker', 'podman'] as const;
export type DockerApiKind = (typeof DOCKER_API_KINDS)[number];
/** The agent's own engine. */
export const EMBEDDED_KIND = 'embedded';
/** The kinds of engine that are supported. */
export const ENGINE_KINDS = [...DOCKER_API_KINDS, EMBEDDED_KIND] as const;
export type EngineKind = (typeof ENGINE_KINDS)[number];

/** What kind of engine it is and what it can do. */
export interface EngineFacts {
  kind: EngineKind;
  version: string;
  apiVersion: string;
  /** names of its runtimes, sorted; only its own one where containers have no choice */
  runtimes: string[];
  /** whether a container can be made for a runtime other than the engine's own */
  choosesRuntime: boolean;
  rootless: boolean;
  selinux: boolean;
  architecture: string;
  /** health checks with an interval of their own while starting */
  startInterval: boolean;
  cdi: boolean;
  /** where it looks for CDI specifications; undefined where it does not say */
  cdiDirectories?: readonly string[];
  /** where it stores images on its machine; undefined where it does not say */
  dataDirectory?: string;
  /** whether a container can be given names of its own for other containers */
  links: boolean;
  /** names of limits that the engine sets on every container, whether this machine grants them or not */
  defaultLimits: readonly string[];
}
