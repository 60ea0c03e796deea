import type { DockerApiKind } from '../../engine-port/facts.ts';

/**
 * Where engines that speak the Docker API differ in what they mean by it. Everything else of the adapter holds for all
 * of them; docs/engines.md has the outcome, field by field.
 */
export interface Dialect {
  kind: DockerApiKind;
  /** the engine's word for an event, where it is another than the API's; filters take the engine's words */
  eventNames: Readonly<Record<string, string>>;
  /** Log driver and its options for a log of a number of MiB. */
  log(mib: number): { Type: string; Config: Record<string, string> };
  /** whether a log that is followed lacks some of its lines */
  losesLines: boolean;
  /** whether a container can be given names of its own for others on the network */
  links: boolean;
  /** what the engine needs for names on a network, where that is no part of it */
  namesNeed?: string;
  /** whether the engine says of an image how much of it other images have too */
  countsShared: boolean;
  /** whether the engine carries health checks out in any case; if not, the agent sees to it that they are */
  checksHealth: boolean;
  /** whether a container can be made for a runtime other than the engine's own */
  choosesRuntime: boolean;
  /** the first version that gives containers CDI devices without saying so in its facts */
  cdiSince?: readonly [number, number];
  /** limits that the engine sets on every container, whether this machine grants them or not */
  defaultLimits: readonly string[];
}

const DIALECTS: Readonly<Record<DockerApiKind, Dialect>> = {
  docker: {
    kind: 'docker',
    eventNames: {},
    // Two files, since a single one would be emptied whenever it is full.
    log: (mib) => ({ Type: 'json-file', Config: { 'max-size': `${mib}m`, 'max-file': '2' } }),
    losesLines: false,
    links: true,
    countsShared: true,
    checksHealth: true,
    choosesRuntime: true,
    defaultLimits: [],
  },
  podman: {
    kind: 'podman',
    eventNames: { die: 'died', destroy: 'remove' },
    log: (mib) => ({ Type: 'k8s-file', Config: { 'max-size': `${mib}m` } }),
    losesLines: true,
    links: false,
    countsShared: false,
    namesNeed: 'podman needs netavark and aardvark-dns, and a network that was made with them',
    // Its timers are systemd's.
    checksHealth: false,
    choosesRuntime: false,
    cdiSince: [5, 4],
    defaultLimits: ['nofile', 'nproc'],
  },
};

/** The dialect of an engine, from the components that it names in its version. */
export function dialectOf(components: readonly { Name: string }[] = []): Dialect {
  return DIALECTS[components.some(({ Name }) => /podman/i.test(Name)) ? 'podman' : 'docker'];
}
