import { setTimeout as sleep } from 'node:timers/promises';
import { CONTAINER_LABELS } from '../../../../src/api/names.ts';
import { NETWORK_NAME } from '../../domain/names.ts';
import { isPinned, parseReference, standIn } from '../../domain/reference.ts';
import type { EngineEvent } from '../../engine-port/connection.ts';
import type { Container } from '../../engine-port/container.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import { ALL_CAPABILITIES, type CompleteEngine } from '../../engine-port/engine.ts';
import { EngineError } from '../../engine-port/error.ts';
import type { ExecOptions, ExecProcess, StartedProgram } from '../../engine-port/exec.ts';
import type { EngineFacts } from '../../engine-port/facts.ts';
import type { ImageUse, LocalImage, PullRequest } from '../../engine-port/images.ts';
import type { LogLine, LogOptions } from '../../engine-port/logs.ts';
import type { EngineNetwork } from '../../engine-port/networks.ts';
import type { OtherAgentContainer } from '../../engine-port/ownership.ts';
import { lines } from '../../machine/http.ts';
import {
  type ImageAnswer,
  type ImageItem,
  type InfoAnswer,
  type InspectAnswer,
  type ListItem,
  type NetworkItem,
  parseAnswer,
} from './answers.ts';
import { compareApiVersions, DockerApi, type DockerCallOptions, readTextOf } from './api.ts';
import { otherAddresses, takenBy } from './bridge-addresses.ts';
import { createBody } from './create-body.ts';
import { type Dialect, dialectOf } from './dialect.ts';
import { eachOnce } from './each-once.ts';
import { cutOff, errorOf } from './errors.ts';
import { endExec, startExec } from './exec.ts';
import { cdiOf, runtimesOf } from './facts.ts';
import { followLog } from './follow-log.ts';
import { countedBytes, type KnownLayers, layeredBytes } from './image-bytes.ts';
import { engineLoad } from './load-images.ts';
import { fullImageId, toLocalImage } from './local-image.ts';
import { readLogFrames } from './log-frames.ts';
import { logQuery } from './log-query.ts';
import { enginePull } from './pull-image.ts';
import { fromListItem, plainName, time, toContainer } from './read-container.ts';

const SECOND = 1000;
export interface DockerEngineOptions {
  /** `unix:///path` or `tcp://host:port` */
  url: string;
  /** the agent's instance id: containers that do not carry it do not exist for this adapter */
  instance: string;
  /** id of the container that the agent itself runs in */
  self?: string | undefined;
  /** addresses of the network of containers, when it is made; absent: the engine chooses them */
  bridgeCidr?: string | undefined;
}

/**
 * The engine over the Docker API: the calls of the engine interface, each a few lines. Longer than other files because the
 * interface has two dozen calls; what they share stands in files of its own.
 */
export class DockerEngine implements CompleteEngine {
  readonly url: string;
  readonly capabilities = ALL_CAPABILITIES;
  readonly #self: string | undefined;
  readonly #bridgeCidr: string | undefined;
  #instance: string;
  readonly #api: DockerApi;
  #dialect: Dialect = dialectOf();
  #network: EngineNetwork | undefined;
  /** inspected containers; the key tells whether the list shows the same state as when they were inspected */
  #inspected = new Map<string, { key: string; container: Container }>();
  /** the agent that an image claims to be of, by its id */
  #claims = new Map<string, string | undefined>();
  readonly #layers: KnownLayers = new Map();

  constructor({ url, instance, self, bridgeCidr }: DockerEngineOptions) {
    this.url = url;
    this.#bridgeCidr = bridgeCidr;
    this.#self = self;
    this.#instance = instance;
    this.#api = new DockerApi(url);
  }

  async connect(signal?: AbortSignal): Promise<EngineFacts> {
    this.#network = undefined;
    this.#inspected.clear();
    const { answer, version } = await this.#api.agree(signal);
    const info = await this.#api.call<InfoAnswer>('GET', '/info', { signal });
    this.#dialect = dialectOf(answer.Components);
    return {
      kind: this.#dialect.kind,
      version: answer.Version,
      apiVersion: version.join('.'),
      runtimes: runtimesOf(info, this.#dialect),
      choosesRuntime: this.#dialect.choosesRuntime,
      rootless: (info.SecurityOptions ?? []).some((option) => option.includes('name=rootless')),
      selinux: (info.SecurityOptions ?? []).some((option) => option.includes('name=selinux')),
      architecture: info.Architecture ?? '',
      startInterval: compareApiVersions(version, [1, 44]) >= 0,
      ...cdiOf(info, answer.Version, this.#dialect),
      ...(info.DockerRootDir && { dataDirectory: info.DockerRootDir }),
      links: this.#dialect.links,
      defaultLimits: this.#dialect.defaultLimits,
    };
  }

  async containers(signal?: AbortSignal): Promise<Container[]> {
    const query = { all: '1', filters: JSON.stringify({ label: [this.#ownLabel()] }) };
    if (!this.#network) await this.network(signal);
    const items = await this.#api.call<ListItem[]>('GET', '/containers/json', { query, signal });
    const listed = new Set(items.map(({ Id }) => Id));
    for (const id of this.#inspected.keys()) if (!listed.has(id)) this.#inspected.delete(id);
    const containers: Container[] = [];
    for (const item of items) {
      const container = await this.#inspect(item, signal);
      if (container) containers.push(container);
    }
    return containers;
  }

  async foreignContainers(signal?: AbortSignal): Promise<string[]> {
    const items = await this.#api.call<ListItem[]>('GET', '/containers/json', { query: { all: '1' }, signal });
    const others: string[] = [];
    for (const { Id, Labels, Names, ImageID, HostConfig } of items) {
      // In the network of another container the agent has that one's id; then its own container is one of those in it.
      if (Id === this.#self || (this.#self && HostConfig?.NetworkMode === `container:${this.#self}`)) continue;
      const isOurs =
        Labels?.[CONTAINER_LABELS.agent] === this.#instance && !(await this.#claimsToBeUs(ImageID, signal));
      if (!isOurs) others.push(plainName(Names[0]));
    }
    return others.sort();
  }

  async containersOfOtherAgents(signal?: AbortSignal): Promise<OtherAgentContainer[]> {
    const query = { all: '1', filters: JSON.stringify({ label: [CONTAINER_LABELS.agent] }) };
    const items = await this.#api.call<ListItem[]>('GET', '/containers/json', { query, signal });
    const others: OtherAgentContainer[] = [];
    for (const { Id, Labels = {}, Names, ImageID, State, Ports } of items) {
      const instance = Labels[CONTAINER_LABELS.agent] ?? '';
      if (instance === this.#instance || (await this.#agentOfImage(ImageID, signal)) !== undefined) continue;
      others.push({
        id: Id,
        name: plainName(Names[0]),
        instance,
        nodeUuid: Labels[CONTAINER_LABELS.node] ?? '',
        application: Labels[CONTAINER_LABELS.application] ?? '',
        microservice: Labels[CONTAINER_LABELS.microservice] ?? '',
        running: State === 'running',
        ports: publishedPorts(Ports),
      });
    }
    return others.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async allBinds(signal?: AbortSignal): Promise<{ container: string; source: string }[]> {
    const items = await this.#api.call<ListItem[]>('GET', '/containers/json', { query: { all: '1' }, signal });
    const binds: { container: string; source: string }[] = [];
    for (const { Id } of items) {
      // A container that went away between the two calls binds nothing.
      const answer = await this.#api.call<InspectAnswer | undefined>('GET', `/containers/${Id}/json`, {
        ...{ signal, tolerate: [404] },
      });
      for (const { Source } of answer?.Mounts ?? [])
        if (Source) binds.push({ container: plainName(answer?.Name), source: Source });
    }
    return binds;
  }

  become(instance: string): void {
    this.#instance = instance;
    this.#network = undefined;
    this.#inspected.clear();
  }

  /** Inspects what the list shows as changed; most of the time that is nothing. */
  async #inspect(item: ListItem, signal?: AbortSignal): Promise<Container | undefined> {
    const health = /\((healthy|unhealthy|health: starting)\)/.exec(item.Status)?.[1] ?? '';
    const networks = Object.values(item.NetworkSettings?.Networks ?? {}).map((network) => network?.NetworkID);
    const key = [item.State, health, item.Names[0], ...networks].join('|');
    const known = this.#inspected.get(item.Id);
    // The list does not show what a check that fails says.
    if (known?.key === key && (health === '' || health === 'healthy')) return known.container;
    try {
      const answer = await this.#api.call<InspectAnswer>('GET', `/containers/${item.Id}/json`, { signal });
      if (await this.#claimsToBeUs(answer.Image, signal)) return undefined;
      const container = toContainer(answer, this.#network, this.#dialect);
      this.#inspected.set(item.Id, { key, container });
      return container;
    } catch (error) {
      // It went away between the two calls.
      if (error instanceof EngineError && error.code === 'NotFound') return undefined;
      if (error instanceof EngineError && error.code === 'Unavailable') throw error;
      // A container that cannot be inspected must not stop the supervision of the others.
      return fromListItem(item, this.#network);
    }
  }

  async network(signal?: AbortSignal): Promise<EngineNetwork | undefined> {
    const query = { filters: JSON.stringify({ label: [this.#ownLabel()] }) };
    const [own] = await this.#api.call<NetworkItem[]>('GET', '/networks', { query, signal, newConnection: true });
    // Inspections depend on the id of the network at that time.
    if (own?.Id !== this.#network?.id) {
      this.#inspected.clear();
      this.#network = own && {
        id: own.Id,
        name: own.Name,
        gateway: own.IPAM?.Config?.[0]?.Gateway?.split('/')[0],
        problem: otherAddresses(own, this.#bridgeCidr) ?? (await this.#troubleOf(own.Name, signal)),
      };
    }
    return this.#network;
  }

  /** The problem of a network without DNS names, on which microservices cannot find each other. */
  async #troubleOf(name: string, signal?: AbortSignal): Promise<string | undefined> {
    const { namesNeed } = this.#dialect;
    if (!namesNeed) return undefined;
    const answer = await this.#api.call<{ dns_enabled?: boolean }>('GET', `/libpod/networks/${name}/json`, { signal });
    return answer.dns_enabled ? undefined : `microservices do not find each other by name: ${namesNeed}`;
  }

  async ensureNetwork(signal?: AbortSignal): Promise<EngineNetwork> {
    const own = await this.network(signal);
    if (own) return own;
    // Not the plain name: of several agents of a machine, each lists no such network before each makes it, and a name that docker has twice can be used by none.
    const name = `${NETWORK_NAME}-${this.#instance.slice(0, 8)}`;
    if (this.#bridgeCidr) {
      const others = await this.#api.call<NetworkItem[]>('GET', '/networks', { signal });
      const conflict = takenBy(this.#bridgeCidr, others);
      if (conflict)
        throw new EngineError('Invalid', `bridgeCidr ${this.#bridgeCidr} has addresses of ${conflict}; choose others`);
    }
    const body = {
      Name: name,
      CheckDuplicate: true,
      Driver: 'bridge',
      Labels: { [CONTAINER_LABELS.agent]: this.#instance },
      ...(this.#bridgeCidr && { IPAM: { Driver: 'default', Config: [{ Subnet: this.#bridgeCidr }] } }),
    };
    await this.#api.call('POST', '/networks/create', { body, signal });
    const made = await this.network(signal);
    if (!made) throw new EngineError('Failed', `the network ${name} was made and is not there`);
    return made;
  }

  async removeNetwork(signal?: AbortSignal): Promise<void> {
    const own = await this.network(signal);
    if (own) await this.#api.call('DELETE', `/networks/${own.id}`, { signal, tolerate: [404] });
    this.#network = undefined;
  }

  async image(reference: string, signal?: AbortSignal): Promise<string | undefined> {
    return (await this.#findImage(reference, signal))?.id;
  }

  /** An image, and the name under which the engine knows it: a stand-in where a reference by digest was given to it. */
  async #findImage(reference: string, signal?: AbortSignal): Promise<{ id: string; name: string } | undefined> {
    for (const name of [reference, standIn(reference)]) {
      if (name === undefined) continue;
      const path = `/images/${encodeURI(name)}/json`;
      const answer = await this.#api.call<{ Id: string } | undefined>('GET', path, { signal, tolerate: [404] });
      if (answer) return { id: answer.Id, name };
    }
    return undefined;
  }

  async tag(id: string, reference: string, signal?: AbortSignal): Promise<void> {
    const { host, repository, tag } = parseReference(standIn(reference) ?? reference);
    const query = { repo: `${host}/${repository}`, tag: tag || 'latest' };
    await this.#api.call('POST', `/images/${encodeURI(id)}/tag`, { query, signal });
  }

  async imageNames(signal?: AbortSignal): Promise<string[]> {
    const images = await this.#api.call<ImageItem[]>('GET', '/images/json', { signal });
    return images.flatMap(({ RepoTags, RepoDigests }) => [...(RepoTags ?? []), ...(RepoDigests ?? [])]);
  }

  async listImages(signal?: AbortSignal): Promise<LocalImage[]> {
    return (await this.#api.call<ImageItem[]>('GET', '/images/json', { signal })).map(toLocalImage);
  }

  async imageUses(signal?: AbortSignal): Promise<ImageUse[]> {
    const items = await this.#api.call<ListItem[]>('GET', '/containers/json', { query: { all: '1' }, signal });
    return items.map(({ ImageID, Names }) => ({ imageId: fullImageId(ImageID), container: plainName(Names[0]) }));
  }

  loadImages(archive: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<void> {
    return engineLoad(this.#api, archive, signal);
  }

  async pull(request: PullRequest, signal?: AbortSignal): Promise<string> {
    const { reference } = request;
    await enginePull(this.#api, request, this.#dialect.kind, signal);
    const id = await this.image(reference, signal);
    if (!id)
      throw new EngineError('ImagePullFailed', `pull ${reference}: the engine says it is done, but has no such image`);
    return id;
  }

  async removeImage(id: string, signal?: AbortSignal): Promise<void> {
    await this.#api.call('DELETE', `/images/${encodeURI(id)}`, { signal, tolerate: [404] });
  }

  imageBytes(id: string, signal?: AbortSignal): Promise<number | undefined> {
    return this.#dialect.countsShared
      ? countedBytes(this.#api, id, signal)
      : layeredBytes(this.#api, id, this.#layers, signal);
  }

  /**
   * Labels of an image become labels of its containers. An image with our own instance id was built with the id read from
   * a container of ours: its containers are not ours, and we create none from it.
   */
  async #claimsToBeUs(imageId: string, signal?: AbortSignal): Promise<boolean> {
    return (await this.#agentOfImage(imageId, signal)) === this.#instance;
  }

  async #agentOfImage(imageId: string, signal?: AbortSignal): Promise<string | undefined> {
    if (this.#claims.has(imageId)) return this.#claims.get(imageId);
    const path = `/images/${encodeURI(imageId)}/json`;
    const image = await this.#api.call<ImageAnswer | undefined>('GET', path, { signal, tolerate: [404] });
    const claims = image?.Config?.Labels?.[CONTAINER_LABELS.agent];
    if (image) this.#claims.set(imageId, claims);
    return claims;
  }

  async create(spec: ContainerSpec, signal?: AbortSignal): Promise<{ id: string; imageId: string }> {
    if (await this.#claimsToBeUs(spec.imageId || spec.image, signal))
      throw new EngineError('Invalid', `image ${spec.image} carries this agent's own ${CONTAINER_LABELS.agent} label`);
    const network = spec.fields.hostNetworkMode ? undefined : (this.#network ?? (await this.ensureNetwork(signal)));
    const image = isPinned(spec.image) ? (await this.#findImage(spec.image, signal))?.name : undefined;
    const extraHosts = spec.extraHosts.map((host) =>
      host.address === HOST_GATEWAY ? { ...host, address: machineOn(network) } : host,
    );
    const body = createBody({ ...spec, image: image ?? spec.image, extraHosts }, network?.name ?? '', this.#dialect);
    const { platform } = spec.fields;
    const query = { name: spec.name, ...(platform && { platform }) };
    const { Id } = await this.#api.call<{ Id: string }>('POST', '/containers/create', { query, body, signal });
    const { Image } = await this.#api.call<InspectAnswer>('GET', `/containers/${Id}/json`, { signal });
    return { id: Id, imageId: Image };
  }

  async start(id: string, signal?: AbortSignal): Promise<void> {
    await this.#act('POST', id, '/start', { signal, deadline: 120 * SECOND });
  }

  async processOf(id: string, signal?: AbortSignal): Promise<number> {
    const { State } = await this.#api.call<InspectAnswer>('GET', `/containers/${id}/json`, { signal });
    return State.Running ? State.Pid : 0;
  }

  async stop(id: string, graceSeconds: number, signal?: AbortSignal): Promise<void> {
    const deadline = (graceSeconds + 60) * SECOND;
    await this.#act('POST', id, '/stop', { query: { t: String(graceSeconds) }, signal, deadline });
  }

  async resume(id: string, signal?: AbortSignal): Promise<void> {
    try {
      await this.#act('POST', id, '/unpause', { signal });
    } catch (error) {
      if (!(error instanceof EngineError && error.code === 'Conflict')) throw error;
    }
  }

  async kill(id: string, posixSignal: string, signal?: AbortSignal): Promise<void> {
    await this.#act('POST', id, '/kill', { query: { signal: posixSignal }, signal });
  }

  async rename(id: string, name: string, signal?: AbortSignal): Promise<void> {
    await this.#act('POST', id, '/rename', { query: { name }, signal });
  }

  async remove(id: string, signal?: AbortSignal): Promise<void> {
    try {
      await this.#act('DELETE', id, '', { query: { v: '1' }, signal, deadline: 120 * SECOND });
    } catch (error) {
      if (!(error instanceof EngineError && error.code === 'Conflict' && /already in progress/.test(error.message)))
        throw error;
      // Another client is removing it; the call returns when it no longer exists.
      await this.#gone(id, signal);
    }
  }

  async #gone(id: string, signal?: AbortSignal): Promise<void> {
    for (let waited = 0; waited < 60 * SECOND; waited += 250) {
      const left = await this.#api.call<unknown>('GET', `/containers/${id}/json`, { signal, tolerate: [404] });
      if (left === undefined) return;
      await sleep(250, undefined, { signal });
    }
  }

  async checkHealth(id: string, since: number, signal?: AbortSignal): Promise<void> {
    const { State, Config } = await this.#api.call<InspectAnswer>('GET', `/containers/${id}/json`, { signal });
    const last = State.Health?.Log?.at(-1)?.End;
    if (!State.Running || (last && time(last) > since)) return;
    // A check that takes longer is aborted, and the engine counts it as failed.
    const deadline = (Config.Healthcheck?.Timeout || 30e9) / 1e6 + SECOND;
    try {
      // The Docker API has no such call; this one is podman's own, in the form of its oldest version that is supported.
      await this.#api.call('GET', `/libpod/containers/${id}/healthcheck`, { signal, deadline, tolerate: [409] });
    } finally {
      this.#inspected.delete(id);
    }
  }

  async *logs(id: string, options: LogOptions, signal?: AbortSignal): AsyncGenerator<LogLine> {
    const read = (asked: LogOptions, stop?: AbortSignal) =>
      this.#readLog(id, asked, stop && signal ? AbortSignal.any([stop, signal]) : (stop ?? signal));
    if (!options.follow) yield* read(options);
    else yield* this.#dialect.losesLines ? followLog(read, options) : eachOnce(read(options));
  }

  async *#readLog(id: string, options: LogOptions, signal?: AbortSignal): AsyncGenerator<LogLine> {
    const { query, choose } = logQuery(options, { now: Date.now(), losesLines: this.#dialect.losesLines });
    const incoming = await this.#api.open('GET', `/containers/${id}/logs`, { query, signal, deadline: 30 * SECOND });
    if (incoming.statusCode !== 200)
      throw errorOf('GET', '/logs', incoming.statusCode ?? 0, await readTextOf(incoming));
    yield* choose(readLogFrames(incoming));
  }

  exec(id: string, options: ExecOptions, signal?: AbortSignal): Promise<ExecProcess> {
    return startExec(this.#api, id, options, signal);
  }

  endProgram(program: StartedProgram): Promise<void> {
    return endExec(this.#api, program);
  }

  async *events(signal: AbortSignal): AsyncGenerator<EngineEvent> {
    const { eventNames } = this.#dialect;
    const event = EVENTS.map((name) => eventNames[name] ?? name);
    const ours = new Map(Object.entries(eventNames).map(([name, theirs]) => [theirs, name]));
    const filters = { type: ['container'], label: [this.#ownLabel()], event };
    const query = { filters: JSON.stringify(filters) };
    const incoming = await this.#api.open('GET', '/events', { query, signal, deadline: 30 * SECOND });
    if (incoming.statusCode !== 200)
      throw errorOf('GET', '/events', incoming.statusCode ?? 0, await readTextOf(incoming));
    try {
      yield { containerId: '', action: 'connected' };
      for await (const line of lines(incoming, 256 * 1024)) {
        const { Actor, id, Action, status } = parseAnswer(line) as Record<string, string> & { Actor?: { ID?: string } };
        const containerId = Actor?.ID ?? id ?? '';
        this.#inspected.delete(containerId);
        const action = Action ?? status ?? '';
        yield { containerId, action: ours.get(action) ?? action };
      }
    } catch (error) {
      throw cutOff(error, this.url);
    } finally {
      // Events between two connections are lost.
      this.#inspected.clear();
      incoming.destroy();
    }
  }

  #ownLabel(): string {
    return `${CONTAINER_LABELS.agent}=${this.#instance}`;
  }

  async #act(method: string, id: string, path: string, options: DockerCallOptions): Promise<void> {
    this.#inspected.delete(id);
    try {
      await this.#api.call(method, `/containers/${id}${path}`, { ...options, tolerate: [304] });
    } finally {
      this.#inspected.delete(id);
    }
  }
}

/** The events that say something about a container's life; health checks alone cause several others each time. */
const EVENTS = [
  'create',
  'start',
  'die',
  'oom',
  'destroy',
  'rename',
  'health_status',
  'pause',
  'unpause',
  'stop',
  'kill',
];

/** The word for the machine itself, which not every engine knows. */
const HOST_GATEWAY = 'host-gateway';

/** The machine as a container on a network finds it; without a network of ours it is where the container is. */
function machineOn(network: EngineNetwork | undefined): string {
  return network ? (network.gateway ?? HOST_GATEWAY) : '127.0.0.1';
}

/** The ports of the machine that a container has, each once: the list has a row for each address. */
function publishedPorts(ports: ListItem['Ports']): NonNullable<OtherAgentContainer['ports']> {
  const found = new Map<string, { external: number; protocol: 'tcp' | 'udp' }>();
  for (const { PublicPort, Type } of ports ?? [])
    if (PublicPort && (Type === 'tcp' || Type === 'udp'))
      found.set(`${PublicPort}/${Type}`, { external: PublicPort, protocol: Type });
  return [...found.values()];
}
