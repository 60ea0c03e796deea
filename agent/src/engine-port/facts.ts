/** The kinds of engine that are supported; the first is the default. */
export const ENGINE_KINDS = ['docker', 'podman', 'embedded'] as const;
export type EngineKind = (typeof ENGINE_KINDS)[number];
/** The agent's own engine, which the settings cannot name yet: not all of the contract holds on it. */
export const EMBEDDED_KIND = 'embedded';

/** What kind of engine it is and what it can do. */
export interface EngineFacts {
  kind: EngineKind | typeof EMBEDDED_KIND;
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
