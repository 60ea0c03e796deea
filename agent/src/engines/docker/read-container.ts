import { fromLabels } from '../../domain/container-labels.ts';
import type { Container } from '../../engine-port/container.ts';
import type { EngineNetwork } from '../../engine-port/networks.ts';
import type { Endpoint, InspectAnswer, ListItem } from './answers.ts';
import type { Dialect } from './dialect.ts';

const SECOND = 1000;

/** The API writes the names of containers with a slash before them. */
export const plainName = (name = ''): string => name.replace(/^\//, '');

/** A container as the list alone shows it. */
export function fromListItem(item: ListItem, network: EngineNetwork | undefined): Container {
  const endpoint = network && item.NetworkSettings?.Networks?.[network.name];
  const running = item.State === 'running' || item.State === 'paused';
  return {
    id: item.Id,
    name: plainName(item.Names[0]),
    ...fromLabels(item.Labels),
    createdAt: item.Created * SECOND,
    imageId: item.ImageID,
    ...(item.State === 'paused' && { paused: true }),
    state: running ? 'running' : item.State === 'created' ? 'created' : 'exited',
    startedAt: item.State === 'created' ? 0 : item.Created * SECOND,
    finishedAt: running ? 0 : item.Created * SECOND,
    exitCode: 0,
    oomKilled: false,
    error: '',
    hostNetwork: item.HostConfig?.NetworkMode === 'host',
    networkId: networkIdOf(endpoint, network),
    ip: endpoint?.IPAddress || undefined,
    ports: [],
    pid: 0,
  };
}

/** A container as its inspection shows it. */
export function toContainer(
  answer: InspectAnswer,
  network: EngineNetwork | undefined,
  { checksHealth }: Pick<Dialect, 'checksHealth'>,
): Container {
  const { State } = answer;
  const endpoint = network && answer.NetworkSettings?.Networks?.[network.name];
  return {
    id: answer.Id,
    name: plainName(answer.Name),
    ...fromLabels(answer.Config.Labels),
    createdAt: time(answer.Created ?? '') || undefined,
    imageId: answer.Image,
    state: stateOf(State),
    ...(State.Status === 'paused' && { paused: true }),
    startedAt: time(State.StartedAt),
    // Podman may note the start of a short life after its end.
    finishedAt: State.Running ? time(State.FinishedAt) : Math.max(time(State.FinishedAt), time(State.StartedAt)),
    exitCode: State.ExitCode,
    oomKilled: State.OOMKilled,
    error: State.Error ?? '',
    health: healthOf(State.Health?.Status),
    ...failedCheckOf(State.Health),
    ...(!checksHealth && checkEvery(answer.Config.Healthcheck)),
    hostNetwork: answer.HostConfig.NetworkMode === 'host',
    networkId: networkIdOf(endpoint, network),
    ip: endpoint?.IPAddress || undefined,
    ports: portsOf(answer.NetworkSettings?.Ports),
    pid: State.Pid ?? 0,
    binds: bindsOf(answer.Mounts),
  };
}

function bindsOf(mounts: InspectAnswer['Mounts']): Container['binds'] {
  return (mounts ?? []).flatMap(({ Type, Source, RW }) =>
    Type === 'bind' && Source ? [{ source: Source, writable: RW !== false }] : [],
  );
}

function stateOf({ Status, Running, Dead }: InspectAnswer['State']): Container['state'] {
  if (Dead || Status === 'dead') return 'dead';
  if (Running) return 'running';
  return Status === 'created' || Status === 'configured' ? 'created' : 'exited';
}

function healthOf(status: string | undefined): Container['health'] {
  return status === 'starting' || status === 'healthy' || status === 'unhealthy' ? status : undefined;
}

/** Characters of the output of a health check that are read. */
const OUTPUT_LENGTH = 1024;

function failedCheckOf(health: InspectAnswer['State']['Health']): Pick<Container, 'failedCheck'> | undefined {
  const { ExitCode = 0, Output = '' } = health?.Log?.at(-1) ?? {};
  return ExitCode === 0 ? undefined : { failedCheck: { exitCode: ExitCode, output: Output.slice(0, OUTPUT_LENGTH) } };
}

/** Podman names the network where the API wants its id; a network that is removed takes its containers with it there. */
function networkIdOf(endpoint: Endpoint | undefined, network: EngineNetwork | undefined): string {
  if (!endpoint?.NetworkID) return '';
  return endpoint.NetworkID === network?.name ? network.id : endpoint.NetworkID;
}

const DEFAULT_CHECK_INTERVAL = 30 * SECOND;

function checkEvery(check: InspectAnswer['Config']['Healthcheck']): Pick<Container, 'checkEvery'> | undefined {
  if (!check?.Test?.length || check.Test[0] === 'NONE') return undefined;
  return { checkEvery: check.Interval ? check.Interval / 1e6 : DEFAULT_CHECK_INTERVAL };
}

/** The engine lists a port once for each address family. */
function portsOf(ports: Record<string, { HostPort: string }[] | null> = {}): Container['ports'] {
  const found = new Map<string, Container['ports'][number]>();
  for (const [key, bindings] of Object.entries(ports)) {
    const [internal, protocol] = key.split('/');
    if (protocol !== 'tcp' && protocol !== 'udp') continue;
    for (const { HostPort } of bindings ?? [])
      found.set(`${HostPort}/${key}`, { internal: Number(internal), external: Number(HostPort), protocol });
  }
  return [...found.values()];
}

/** A time of the engine in Unix ms; 0 for none. */
export function time(text: string): number {
  const value = Date.parse(text);
  return Number.isNaN(value) || value < 0 ? 0 : value;
}
