import { Agent, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { CONTAINER_LABELS } from '../../../../src/api/names.ts';
import { exchange, lines, open, readAll, type Target, TransportError } from '../../http.ts';
import { LABEL_REBUILD_ORDER, NETWORK_NAME } from '../../names.ts';
import type { Container } from '../../plan/model.ts';
import { isPinned, parseReference, standIn } from '../../registries/reference.ts';
import {
  type ContainerSpec,
  type Engine,
  EngineError,
  type EngineErrorCode,
  type EngineEvent,
  type EngineFacts,
  type EngineNetwork,
  type LogLine,
  type LogOptions,
  type PullRequest,
} from '../port.ts';
import { createBody } from './create-body.ts';
import { type Dialect, dialectOf } from './dialect.ts';
import { readLogFrames } from './log-frames.ts';
import { pullCall } from './pull-call.ts';
import { PullProgress } from './pull-progress.ts';

const SECOND = 1000;
/** The newest version of the API that this adapter was written for, and the oldest it can use. */
const NEWEST_API = [1, 47] as const;
const OLDEST_API = [1, 40] as const;
/** Of podman's own API, which every podman since 4.0 speaks. */
const LIBPOD_VERSION = '/v4.0.0';
const BODY_LIMIT = 16 * 1024 * 1024;

export interface DockerEngineOptions {
  /** `unix:///path` or `tcp://host:port` */
  url: string;
  /** the agent's instance id: containers that do not carry it do not exist for this adapter */
  instance: string;
}

/** The engine port over the Docker API. */
export class DockerEngine implements Engine {
  readonly url: string;
  readonly #instance: string;
  readonly #target: Target;
  readonly #connections: Agent;
  #version = '';
  #dialect: Dialect = dialectOf();
  #network: EngineNetwork | undefined;
  /** inspected containers; the key tells whether the list shows the same state as when they were inspected */
  #inspected = new Map<string, { key: string; container: Container }>();
  /** whether an image claims to be this agent, by its id */
  #claims = new Map<string, boolean>();

  constructor({ url, instance }: DockerEngineOptions) {
    this.url = url;
    this.#instance = instance;
    this.#target = engineTarget(url);
    this.#connections = new Agent({ keepAlive: true, maxSockets: 8 });
  }

  async connect(signal?: AbortSignal): Promise<EngineFacts> {
    this.#version = '';
    this.#network = undefined;
    this.#inspected.clear();
    const version = await this.#call<VersionAnswer>('GET', '/version', { signal });
    const api = lower(parseVersion(version.ApiVersion), NEWEST_API);
    if (compare(api, OLDEST_API) < 0)
      throw new EngineError(
        'Failed',
        `the engine at ${this.url} speaks API ${version.ApiVersion}, at least 1.40 is needed`,
      );
    this.#version = `/v${api.join('.')}`;
    const info = await this.#call<InfoAnswer>('GET', '/info', { signal });
    this.#dialect = dialectOf(version.Components);
    return {
      kind: this.#dialect.kind,
      version: version.Version,
      apiVersion: api.join('.'),
      runtimes: this.#dialect.choosesRuntime ? Object.keys(info.Runtimes ?? {}).sort() : [],
      rootless: (info.SecurityOptions ?? []).some((option) => option.includes('name=rootless')),
      selinux: (info.SecurityOptions ?? []).some((option) => option.includes('name=selinux')),
      architecture: info.Architecture ?? '',
      startInterval: compare(api, [1, 44]) >= 0,
      cdi: (info.CDISpecDirs ?? []).length > 0,
      links: this.#dialect.links,
      defaultLimits: this.#dialect.defaultLimits,
    };
  }

  async containers(signal?: AbortSignal): Promise<Container[]> {
    const query = { all: '1', filters: JSON.stringify({ label: [this.#ownLabel()] }) };
    if (!this.#network) await this.network(signal);
    const items = await this.#call<ListItem[]>('GET', '/containers/json', { query, signal });
    const listed = new Set(items.map(({ Id }) => Id));
    for (const id of this.#inspected.keys()) if (!listed.has(id)) this.#inspected.delete(id);
    const containers: Container[] = [];
    for (const item of items) {
      const container = await this.#inspect(item, signal);
      if (container) containers.push(container);
    }
    return containers;
  }

  async strangers(signal?: AbortSignal): Promise<string[]> {
    const items = await this.#call<ListItem[]>('GET', '/containers/json', { query: { all: '1' }, signal });
    const others: string[] = [];
    for (const { Labels, Names, ImageID } of items) {
      const isOurs =
        Labels?.[CONTAINER_LABELS.agent] === this.#instance && !(await this.#claimsToBeUs(ImageID, signal));
      if (!isOurs) others.push((Names[0] ?? '').replace(/^\//, ''));
    }
    return others.sort();
  }

  /** Inspects what the list shows as changed; most of the time that is nothing. */
  async #inspect(item: ListItem, signal?: AbortSignal): Promise<Container | undefined> {
    const health = /\((healthy|unhealthy|health: starting)\)/.exec(item.Status)?.[1] ?? '';
    const networks = Object.values(item.NetworkSettings?.Networks ?? {}).map((network) => network?.NetworkID);
    const key = [item.State, health, item.Names[0], ...networks].join('|');
    const known = this.#inspected.get(item.Id);
    if (known?.key === key) return known.container;
    try {
      const answer = await this.#call<InspectAnswer>('GET', `/containers/${item.Id}/json`, { signal });
      if (await this.#claimsToBeUs(answer.Image, signal)) return undefined;
      const container = toContainer(answer, this.#network, this.#dialect);
      this.#inspected.set(item.Id, { key, container });
      return container;
    } catch (error) {
      // It went away between the two calls.
      if (error instanceof EngineError && error.code === 'NotFound') return undefined;
      if (error instanceof EngineError && error.code === 'Unavailable') throw error;
      // One that cannot be inspected must not keep the others from being looked after.
      return fromListItem(item, this.#network);
    }
  }

  async network(signal?: AbortSignal): Promise<EngineNetwork | undefined> {
    const query = { filters: JSON.stringify({ label: [this.#ownLabel()] }) };
    const [own] = await this.#call<NetworkItem[]>('GET', '/networks', { query, signal });
    // What was inspected was read with the eyes of the network of that time.
    if (own?.Id !== this.#network?.id) {
      this.#inspected.clear();
      this.#network = own && {
        id: own.Id,
        name: own.Name,
        gateway: own.IPAM?.Config?.[0]?.Gateway?.split('/')[0],
        trouble: await this.#troubleOf(own.Name, signal),
      };
    }
    return this.#network;
  }

  /** A network without names is one on which microservices do not find each other. */
  async #troubleOf(name: string, signal?: AbortSignal): Promise<string | undefined> {
    const { namesNeed } = this.#dialect;
    if (!namesNeed) return undefined;
    const answer = await this.#call<{ dns_enabled?: boolean }>('GET', `/libpod/networks/${name}/json`, { signal });
    return answer.dns_enabled ? undefined : `microservices do not find each other by name: ${namesNeed}`;
  }

  async ensureNetwork(signal?: AbortSignal): Promise<EngineNetwork> {
    const own = await this.network(signal);
    if (own) return own;
    const all = await this.#call<NetworkItem[]>('GET', '/networks', { signal });
    // Another agent of this machine may have the plain name.
    const taken = all.some(({ Name }) => Name === NETWORK_NAME);
    const name = taken ? `${NETWORK_NAME}-${this.#instance.slice(0, 8)}` : NETWORK_NAME;
    const body = {
      Name: name,
      CheckDuplicate: true,
      Driver: 'bridge',
      Labels: { [CONTAINER_LABELS.agent]: this.#instance },
    };
    await this.#call('POST', '/networks/create', { body, signal });
    const made = await this.network(signal);
    if (!made) throw new EngineError('Failed', `the network ${name} was made and is not there`);
    return made;
  }

  async removeNetwork(signal?: AbortSignal): Promise<void> {
    const own = await this.network(signal);
    if (own) await this.#call('DELETE', `/networks/${own.id}`, { signal, tolerate: [404] });
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
      const answer = await this.#call<{ Id: string } | undefined>('GET', path, { signal, tolerate: [404] });
      if (answer) return { id: answer.Id, name };
    }
    return undefined;
  }

  async tag(id: string, reference: string, signal?: AbortSignal): Promise<void> {
    const { host, repository, tag } = parseReference(standIn(reference) ?? reference);
    const query = { repo: `${host}/${repository}`, tag: tag || 'latest' };
    await this.#call('POST', `/images/${encodeURI(id)}/tag`, { query, signal });
  }

  async imageNames(signal?: AbortSignal): Promise<string[]> {
    const images = await this.#call<ImageItem[]>('GET', '/images/json', { signal });
    return images.flatMap(({ RepoTags, RepoDigests }) => [...(RepoTags ?? []), ...(RepoDigests ?? [])]);
  }

  async pull(request: PullRequest, signal?: AbortSignal): Promise<string> {
    const { reference, onProgress } = request;
    const { path, query, headers, quiet } = pullCall(request, this.#dialect.kind);
    const incoming = await this.#open('POST', path, { query, headers, signal, deadline: 120 * SECOND });
    if (incoming.statusCode !== 200) throw pullError(reference, messageOf(await read(incoming)));
    const progress = new PullProgress();
    const watchdog = new Watchdog(quiet, () => incoming.destroy());
    try {
      for await (const line of lines(incoming, 64 * 1024)) {
        watchdog.reset();
        const event = parse(line) as { error?: string; errorDetail?: { message?: string } };
        if (event.error) throw pullError(reference, event.errorDetail?.message ?? event.error);
        const percentage = progress.add(event);
        if (percentage !== undefined) onProgress?.(percentage);
      }
      if (progress.finish()) onProgress?.(100);
    } catch (error) {
      if (error instanceof EngineError || signal?.aborted) throw error;
      throw new EngineError('ImagePullFailed', `pull ${reference}: the engine ended the connection`, { cause: error });
    } finally {
      watchdog.stop();
    }
    const id = await this.image(reference, signal);
    if (!id)
      throw new EngineError('ImagePullFailed', `pull ${reference}: the engine says it is done, but has no such image`);
    return id;
  }

  async removeImage(id: string, signal?: AbortSignal): Promise<void> {
    await this.#call('DELETE', `/images/${encodeURI(id)}`, { signal, tolerate: [404] });
  }

  /**
   * Labels of an image become labels of its containers. An image that carries our own id was made by somebody who read
   * it from a container of ours: what was made of it is not ours, and we make nothing of it.
   */
  async #claimsToBeUs(imageId: string, signal?: AbortSignal): Promise<boolean> {
    const known = this.#claims.get(imageId);
    if (known !== undefined) return known;
    const path = `/images/${encodeURI(imageId)}/json`;
    const image = await this.#call<ImageAnswer | undefined>('GET', path, { signal, tolerate: [404] });
    const claims = image?.Config?.Labels?.[CONTAINER_LABELS.agent] === this.#instance;
    if (image) this.#claims.set(imageId, claims);
    return claims;
  }

  async create(spec: ContainerSpec, signal?: AbortSignal): Promise<{ id: string; imageId: string }> {
    if (await this.#claimsToBeUs(spec.imageId || spec.image, signal))
      throw new EngineError('Invalid', `image ${spec.image} carries this agent's own ${CONTAINER_LABELS.agent} label`);
    const network = spec.hostNetwork ? undefined : (this.#network ?? (await this.ensureNetwork(signal)));
    const image = isPinned(spec.image) ? (await this.#findImage(spec.image, signal))?.name : undefined;
    const extraHosts = spec.extraHosts.map((host) =>
      host.address === HOST_GATEWAY ? { ...host, address: machineOn(network) } : host,
    );
    const body = createBody({ ...spec, image: image ?? spec.image, extraHosts }, network?.name ?? '', this.#dialect);
    const query = { name: spec.name, ...(spec.platform && { platform: spec.platform }) };
    const { Id } = await this.#call<{ Id: string }>('POST', '/containers/create', { query, body, signal });
    const { Image } = await this.#call<InspectAnswer>('GET', `/containers/${Id}/json`, { signal });
    return { id: Id, imageId: Image };
  }

  async start(id: string, signal?: AbortSignal): Promise<void> {
    await this.#act('POST', id, '/start', { signal, deadline: 120 * SECOND });
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
      // Somebody else removes it; done is done when it is gone.
      await this.#gone(id, signal);
    }
  }

  async #gone(id: string, signal?: AbortSignal): Promise<void> {
    for (let waited = 0; waited < 60 * SECOND; waited += 250) {
      const left = await this.#call<unknown>('GET', `/containers/${id}/json`, { signal, tolerate: [404] });
      if (left === undefined) return;
      await sleep(250, undefined, { signal });
    }
  }

  async checkHealth(id: string, since: number, signal?: AbortSignal): Promise<void> {
    const { State, Config } = await this.#call<InspectAnswer>('GET', `/containers/${id}/json`, { signal });
    const last = State.Health?.Log?.at(-1)?.End;
    if (!State.Running || (last && time(last) > since)) return;
    // What is not over by then is given up, and the engine counts it as failed.
    const deadline = (Config.Healthcheck?.Timeout || 30e9) / 1e6 + SECOND;
    try {
      // The Docker API has no such call; this one is podman's own, in the form of its oldest version that is supported.
      await this.#call('GET', `/libpod/containers/${id}/healthcheck`, { signal, deadline, tolerate: [409] });
    } finally {
      this.#inspected.delete(id);
    }
  }

  async *logs(id: string, options: LogOptions, signal?: AbortSignal): AsyncGenerator<LogLine> {
    const query = {
      stdout: '1',
      stderr: '1',
      timestamps: '1',
      tail: String(options.tail),
      ...(options.follow && { follow: '1' }),
      ...(options.since !== undefined && { since: (options.since / 1000).toFixed(3) }),
      ...(options.until !== undefined && { until: (options.until / 1000).toFixed(3) }),
    };
    const incoming = await this.#open('GET', `/containers/${id}/logs`, { query, signal, deadline: 30 * SECOND });
    if (incoming.statusCode !== 200) throw errorOf('GET', '/logs', incoming.statusCode ?? 0, await read(incoming));
    yield* readLogFrames(incoming);
  }

  async *events(signal: AbortSignal): AsyncGenerator<EngineEvent> {
    const { eventNames } = this.#dialect;
    const event = EVENTS.map((name) => eventNames[name] ?? name);
    const ours = new Map(Object.entries(eventNames).map(([name, theirs]) => [theirs, name]));
    const filters = { type: ['container'], label: [this.#ownLabel()], event };
    const query = { filters: JSON.stringify(filters) };
    const incoming = await this.#open('GET', '/events', { query, signal, deadline: 30 * SECOND });
    if (incoming.statusCode !== 200) throw errorOf('GET', '/events', incoming.statusCode ?? 0, await read(incoming));
    try {
      yield { containerId: '', action: 'connected' };
      for await (const line of lines(incoming, 256 * 1024)) {
        const { Actor, id, Action, status } = parse(line) as Record<string, string> & { Actor?: { ID?: string } };
        const containerId = Actor?.ID ?? id ?? '';
        this.#inspected.delete(containerId);
        const action = Action ?? status ?? '';
        yield { containerId, action: ours.get(action) ?? action };
      }
    } finally {
      // What happened while nobody listened is not known from here.
      this.#inspected.clear();
      incoming.destroy();
    }
  }

  #ownLabel(): string {
    return `${CONTAINER_LABELS.agent}=${this.#instance}`;
  }

  async #act(method: string, id: string, path: string, options: CallOptions): Promise<void> {
    this.#inspected.delete(id);
    try {
      await this.#call(method, `/containers/${id}${path}`, { ...options, tolerate: [304] });
    } finally {
      this.#inspected.delete(id);
    }
  }

  async #call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
    const { body, tolerate = [] } = options;
    try {
      const { status, body: text } = await exchange(
        {
          target: this.#target,
          method,
          path: this.#path(path, options.query),
          headers: { ...options.headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
          body: body === undefined ? undefined : JSON.stringify(body),
          deadline: options.deadline ?? 30 * SECOND,
          signal: options.signal,
          connections: this.#connections,
        },
        BODY_LIMIT,
      );
      if (tolerate.includes(status)) return undefined as T;
      if (status >= 400 || status < 200) throw errorOf(method, path, status, text);
      return (text ? parse(text) : undefined) as T;
    } catch (error) {
      throw unavailable(error, this.url);
    }
  }

  async #open(method: string, path: string, options: CallOptions): Promise<IncomingMessage> {
    try {
      return await open({
        target: this.#target,
        method,
        path: this.#path(path, options.query),
        headers: options.headers,
        deadline: options.deadline ?? 30 * SECOND,
        signal: options.signal,
      });
    } catch (error) {
      throw unavailable(error, this.url);
    }
  }

  #path(path: string, query: Record<string, string> = {}): string {
    const parameters = new URLSearchParams(query).toString();
    const version = path.startsWith('/libpod/') ? LIBPOD_VERSION : this.#version;
    return `${version}${path}${parameters && `?${parameters}`}`;
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

interface CallOptions {
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: unknown;
  deadline?: number;
  signal?: AbortSignal;
  /** statuses that are an empty answer rather than an error */
  tolerate?: readonly number[];
}

interface VersionAnswer {
  Version: string;
  ApiVersion: string;
  Components?: { Name: string }[];
}

interface InfoAnswer {
  Runtimes?: Record<string, unknown>;
  SecurityOptions?: string[];
  Architecture?: string;
  CDISpecDirs?: string[] | null;
}

interface ImageItem {
  RepoTags?: string[] | null;
  RepoDigests?: string[] | null;
}

interface ImageAnswer {
  Config?: { Labels?: Record<string, string> | null };
}

interface NetworkItem {
  Id: string;
  Name: string;
  IPAM?: { Config?: { Gateway?: string }[] };
}

interface Endpoint {
  NetworkID?: string;
  IPAddress?: string;
}

interface ListItem {
  Id: string;
  Names: string[];
  ImageID: string;
  /** Unix seconds */
  Created: number;
  Labels?: Record<string, string>;
  HostConfig?: { NetworkMode?: string };
  State: string;
  Status: string;
  NetworkSettings?: { Networks?: Record<string, Endpoint | undefined> };
}

interface InspectAnswer {
  Id: string;
  Name: string;
  Image: string;
  /** times in nanoseconds */
  Config: { Labels?: Record<string, string>; Healthcheck?: { Test?: string[]; Interval?: number; Timeout?: number } };
  HostConfig: { NetworkMode?: string };
  State: {
    Status: string;
    Running: boolean;
    OOMKilled: boolean;
    Dead: boolean;
    Pid: number;
    ExitCode: number;
    Error: string;
    StartedAt: string;
    FinishedAt: string;
    Health?: { Status?: string; Log?: { End?: string }[] | null };
  };
  NetworkSettings?: {
    Networks?: Record<string, Endpoint | undefined>;
    Ports?: Record<string, { HostPort: string }[] | null>;
  };
}

/** What the labels say of a container; the agent set them when it made it. */
function fromLabels(labels: Record<string, string> = {}) {
  return {
    uuid: labels[CONTAINER_LABELS.uuid] ?? '',
    application: labels[CONTAINER_LABELS.application] ?? '',
    microservice: labels[CONTAINER_LABELS.microservice] ?? '',
    digest: labels[CONTAINER_LABELS.digest] ?? '',
    revision: labels[CONTAINER_LABELS.revision] ?? '',
    rebuildOrder: Number(labels[LABEL_REBUILD_ORDER]) || 0,
    generation: Number(labels[CONTAINER_LABELS.generation]) || 0,
  };
}

/** A container as the list alone shows it. */
function fromListItem(item: ListItem, network: EngineNetwork | undefined): Container {
  const endpoint = network && item.NetworkSettings?.Networks?.[network.name];
  const running = item.State === 'running' || item.State === 'paused';
  return {
    id: item.Id,
    name: (item.Names[0] ?? '').replace(/^\//, ''),
    ...fromLabels(item.Labels),
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

function toContainer(
  answer: InspectAnswer,
  network: EngineNetwork | undefined,
  { checksHealth }: Pick<Dialect, 'checksHealth'>,
): Container {
  const { State } = answer;
  const endpoint = network && answer.NetworkSettings?.Networks?.[network.name];
  return {
    id: answer.Id,
    name: answer.Name.replace(/^\//, ''),
    ...fromLabels(answer.Config.Labels),
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
    ...(!checksHealth && checkEvery(answer.Config.Healthcheck)),
    hostNetwork: answer.HostConfig.NetworkMode === 'host',
    networkId: networkIdOf(endpoint, network),
    ip: endpoint?.IPAddress || undefined,
    ports: portsOf(answer.NetworkSettings?.Ports),
    pid: State.Pid ?? 0,
  };
}

function stateOf({ Status, Running, Dead }: InspectAnswer['State']): Container['state'] {
  if (Dead || Status === 'dead') return 'dead';
  if (Running) return 'running';
  return Status === 'created' || Status === 'configured' ? 'created' : 'exited';
}

function healthOf(status: string | undefined): Container['health'] {
  return status === 'starting' || status === 'healthy' || status === 'unhealthy' ? status : undefined;
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

/** The word for the machine itself, which not every engine knows. */
const HOST_GATEWAY = 'host-gateway';

/** The machine as a container on a network finds it; without a network of ours it is where the container is. */
function machineOn(network: EngineNetwork | undefined): string {
  return network ? (network.gateway ?? HOST_GATEWAY) : '127.0.0.1';
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

function time(text: string): number {
  const value = Date.parse(text);
  return Number.isNaN(value) || value < 0 ? 0 : value;
}

/** Where an engine URL points. */
export function engineTarget(url: string): Target {
  if (url.startsWith('unix://')) return { socketPath: url.slice('unix://'.length) };
  const origin = new URL(url.replace(/^tcp:/, 'http:'));
  if (!origin.port && origin.protocol === 'http:') origin.port = '2375';
  return { origin };
}

function unavailable(error: unknown, url: string): unknown {
  if (!(error instanceof TransportError)) return error;
  return new EngineError('Unavailable', `the engine at ${url} does not answer: ${error.message}`, { cause: error });
}

function errorOf(method: string, path: string, status: number, text: string): EngineError {
  const message = messageOf(text) || `${method} ${path}: status ${status}`;
  return new EngineError(codeOf(status, message), message);
}

/** Read from the text where the status says too little; the API has no codes. */
const TEXTS: readonly [RegExp, EngineErrorCode][] = [
  [/no such image|image .*not known|unable to find image/i, 'ImageMissing'],
  [/name .* is already in use/i, 'NameTaken'],
  [/port is already allocated|address already in use/i, 'PortTaken'],
  [/no space left on device/i, 'DiskFull'],
  [/container state improper|is not paused/i, 'Conflict'],
];

function codeOf(status: number, message: string): EngineErrorCode {
  for (const [pattern, code] of TEXTS) if (pattern.test(message)) return code;
  if (status === 404) return 'NotFound';
  if (status === 409) return 'Conflict';
  return status === 400 ? 'Invalid' : 'Failed';
}

function pullError(reference: string, message: string): EngineError {
  const text = `pull ${reference}: ${message}`;
  if (/no space left on device/i.test(message)) return new EngineError('DiskFull', text);
  if (/manifest unknown|not found|does not exist/i.test(message) && !/no such host/i.test(message))
    return new EngineError('ImageNotFound', text);
  if (/unauthorized|denied|authentication required|no basic auth/i.test(message))
    return new EngineError('ImageUnauthorized', text);
  const hint = HINTS.find(([pattern]) => pattern.test(message))?.[1];
  return new EngineError('ImagePullFailed', hint ? `${text}; ${hint}` : text);
}

/** What would help, where the engine's words do not say so. */
const HINTS: readonly [RegExp, string][] = [
  [/x509: certificate signed by unknown authority/, 'the authority may be named as `ca` of the registry'],
  [/HTTP response to HTTPS client/, 'only `insecure` of the registry allows plain HTTP'],
];

function messageOf(text: string): string {
  const value = parse(text) as { message?: unknown; cause?: unknown };
  return typeof value?.message === 'string' ? value.message : text.slice(0, 1024).trim();
}

async function read(incoming: IncomingMessage): Promise<string> {
  return (await readAll(incoming, 1024 * 1024, 30 * SECOND)).toString('utf8');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

type Version = readonly [number, number];

function parseVersion(text: string): Version {
  const [major = 0, minor = 0] = text.split('.').map(Number);
  return [major, minor];
}

function compare(a: Version, b: Version): number {
  return a[0] - b[0] || a[1] - b[1];
}

function lower(a: Version, b: Version): Version {
  return compare(a, b) <= 0 ? a : b;
}

/** Calls back when nothing has happened for a while. */
class Watchdog {
  readonly #after: number;
  readonly #bark: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(after: number, bark: () => void) {
    this.#after = after;
    this.#bark = bark;
    this.reset();
  }

  reset(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#bark, this.#after);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
