import { createHash, randomBytes } from 'node:crypto';
import { constants, machine } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { CONTAINER_LABELS } from '../../../../src/api/names.ts';
import { formatReference, parseReference, standIn } from '../../domain/reference.ts';
import type { EngineEvent } from '../../engine-port/connection.ts';
import type { Container } from '../../engine-port/container.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import { ALL_CAPABILITIES, type CompleteEngine } from '../../engine-port/engine.ts';
import { EngineError } from '../../engine-port/error.ts';
import type { ExecOptions, ExecProcess, StartedProgram } from '../../engine-port/exec.ts';
import { EMBEDDED_KIND, type EngineFacts } from '../../engine-port/facts.ts';
import type { ImageUse, LocalImage, PullRequest } from '../../engine-port/images.ts';
import type { LogLine, LogOptions } from '../../engine-port/logs.ts';
import type { EngineNetwork } from '../../engine-port/networks.ts';
import type { OtherAgentContainer } from '../../engine-port/ownership.ts';
import { readText } from '../../machine/disk.ts';
import { Containerd } from './client.ts';
import { cpusIn } from './cpus.ts';
import { isCode } from './errors.ts';
import { seenEvents } from './events.ts';
import { endContainerExec, startContainerExec } from './exec.ts';
import { HealthProbes } from './health-probes.ts';
import { ImageStore, inUse, sortedNames } from './image-store.ts';
import { importArchive } from './load-images.ts';
import { boundLog, readLogFiles } from './log-file.ts';
import type { StartedContainerd } from './machine/started.ts';
import { startedAt } from './machine/started.ts';
import { ensurePause } from './pause.ts';
import { type RecordPlaces, recordPlaces } from './places.ts';
import { containerdPull } from './pull-image.ts';
import { containerFrom, type ObservedRun } from './read-container.ts';
import { type ContainerRecord, ContainerRecords } from './record.ts';
import { RecordRuns } from './runs.ts';
import { Turns } from './turns.ts';
import { Unpacking } from './unpacking.ts';
import { CONTAINERD, TASK_STATES } from './wire/containerd.ts';
import { CONTAINER_STATES, CRI } from './wire/cri.ts';

export interface EmbeddedEngineOptions {
  /** `unix:///path` of a containerd that `prepareContainerd` has prepared */
  url: string;
  /** the agent's instance id */
  instance: string;
  bridgeCidr?: string | undefined;
  /** names the present boot of the machine, unless a test does */
  bootId?: string;
}

const MIB = 1024 * 1024;
/** MiB of each of the two files of a log, where the entry says nothing. */
const LOG_SIZE = 10;
/** ms between looks at the sizes of logs, and until CRI has noticed an end that containerd announced. */
const LOG_EVERY = 1000;
const NOTICED = 2000;
const LOOK_EVERY = 20;

/** The parts of the adapter that need a connection. */
interface Connected {
  started: StartedContainerd;
  places: RecordPlaces;
  images: ImageStore;
  runs: RecordRuns;
  health: HealthProbes;
  unpacking: Unpacking;
}

/**
 * The agent's own containerd as an engine: CRI makes sandboxes and containers, containerd's own services have the rest. Longer
 * than other files because the interface has two dozen calls; what they share stands in files of its own.
 */
export class EmbeddedEngine implements CompleteEngine {
  readonly url: string;
  readonly capabilities = ALL_CAPABILITIES;
  readonly #bridgeCidr: string | undefined;
  readonly #bootId: string;
  #instance: string;
  readonly #containerd: Containerd;
  readonly #records: ContainerRecords;
  readonly #creations = new Turns();
  #connected: Connected | undefined;
  /** records by the ids of their containers in CRI */
  #owners = new Map<string, string>();
  /** what CRI said of its containers: it does not change as long as their state does not */
  #statuses = new Map<string, NonNullable<ObservedRun['status']>>();
  /** the logs of containers that may grow */
  #logs: readonly ContainerRecord[] = [];

  constructor({ url, instance, bridgeCidr, bootId = presentBoot() }: EmbeddedEngineOptions) {
    this.url = url;
    this.#instance = instance;
    this.#bridgeCidr = bridgeCidr;
    this.#bootId = bootId;
    this.#containerd = new Containerd(url);
    this.#records = new ContainerRecords(this.#containerd);
  }

  async connect(signal?: AbortSignal): Promise<EngineFacts> {
    const { version } = await this.#containerd.call(CONTAINERD.version, {}, { signal });
    const { status } = await this.#containerd.call(CRI.status, {}, { signal });
    const bad = status?.conditions.find((condition) => condition.type === 'RuntimeReady' && !condition.status);
    if (bad)
      throw new EngineError('Unavailable', `the engine at ${this.url} is not ready: ${bad.reason} ${bad.message}`);
    const started = startedAt(this.url.replace(/^unix:\/\//, ''));
    if (!started) throw new EngineError('Unavailable', `the containerd at ${this.url} is not the agent's own`);
    const [containerd, records, places] = [this.#containerd, this.#records, recordPlaces(started)];
    const images = new ImageStore(containerd, imageArchitecture());
    const runs = new RecordRuns({ containerd, records, started, places });
    const unpacking =
      this.#connected?.unpacking ?? new Unpacking({ containerd, root: started.root, bootId: this.#bootId });
    await unpacking.recover(signal);
    await ensurePause(containerd, images, started.pauseImage, signal);
    await runs.removeOrphans();
    this.#statuses.clear();
    const health = new HealthProbes({ containerd, records, runs });
    this.#connected = { started, places, images, runs, health, unpacking };
    return {
      kind: EMBEDDED_KIND,
      version: version.replace(/^v/, ''),
      apiVersion: 'v1',
      runtimes: [...started.handlers].sort(),
      choosesRuntime: true,
      rootless: false,
      selinux: false,
      architecture: machine(),
      startInterval: true,
      cdi: started.cdi,
      ...(started.cdi && { cdiDirectories: ['/etc/cdi', '/var/run/cdi'] }),
      dataDirectory: started.root,
      links: true,
      defaultLimits: [],
    };
  }

  async #own(signal?: AbortSignal): Promise<ContainerRecord[]> {
    return (await this.#records.list(signal)).filter((record) => agentOf(record) === this.#instance);
  }

  async containers(signal?: AbortSignal): Promise<Container[]> {
    const { containers } = await this.#containerd.call(CRI.listContainers, {}, { signal });
    const { tasks } = await this.#containerd.call(CONTAINERD.listTasks, {}, { signal });
    const states = new Map(containers.map(({ id, state }) => [id, state]));
    for (const id of this.#statuses.keys()) if (!states.has(id)) this.#statuses.delete(id);
    const records = await this.#own(signal);
    const owners = records.flatMap(({ id, run }): [string, string][] =>
      run.containerId ? [[run.containerId, id]] : [],
    );
    this.#owners = new Map(owners);
    this.#logs = records;
    const network = await this.network();
    const found: Container[] = [];
    for (const record of records) {
      const { containerId = '' } = record.run;
      const task = tasks.find((each) => (each.id || each.containerId) === containerId);
      const state = states.get(containerId);
      const status = state === undefined ? undefined : await this.#observe(record, { containerId, state }, signal);
      const seen: ObservedRun = {
        ...(status && { status }),
        pid: task?.pid ?? 0,
        paused: task?.status === TASK_STATES.paused || task?.status === TASK_STATES.pausing,
      };
      found.push(containerFrom(record, seen, { networkId: network?.id, now: Date.now() }));
    }
    return found;
  }

  async #observe(
    record: ContainerRecord,
    { containerId, state }: { containerId: string; state: number },
    signal?: AbortSignal,
  ): Promise<ObservedRun['status']> {
    const known = this.#statuses.get(containerId);
    if (known?.state === state) return known;
    const status = await this.#at.runs.statusOf(containerId, signal);
    if (status) this.#statuses.set(containerId, status);
    if (status?.state === CONTAINER_STATES.exited) await this.#boundLog(record);
    return status;
  }

  async foreignContainers(signal?: AbortSignal): Promise<string[]> {
    const records = await this.#records.list(signal);
    return records
      .filter((record) => agentOf(record) !== this.#instance)
      .map(({ run }) => run.name)
      .sort();
  }

  async containersOfOtherAgents(signal?: AbortSignal): Promise<OtherAgentContainer[]> {
    const others: OtherAgentContainer[] = [];
    for (const record of await this.#records.list(signal)) {
      const instance = agentOf(record);
      if (instance === this.#instance) continue;
      const { labels, ports } = record.spec;
      const running = await this.#at.runs.isRunning(record, signal);
      others.push({
        ...{ id: record.id, name: record.run.name, instance, running, ports: running ? ports : [] },
        nodeUuid: labels[CONTAINER_LABELS.node] ?? '',
        application: labels[CONTAINER_LABELS.application] ?? '',
        microservice: labels[CONTAINER_LABELS.microservice] ?? '',
      });
    }
    return others.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async allBinds(signal?: AbortSignal): Promise<{ container: string; source: string }[]> {
    const records = await this.#records.list(signal);
    return records.flatMap(({ spec, run }) => spec.mounts.map(({ source }) => ({ container: run.name, source })));
  }

  become(instance: string): void {
    this.#instance = instance;
  }

  /** The network is containerd's own and is there as long as containerd is; its id is another one for each agent. */
  async network(): Promise<EngineNetwork | undefined> {
    const { name, subnet, gateway } = this.#at.started.network;
    const asked = this.#bridgeCidr;
    return {
      id: createHash('sha256').update(`${this.#instance} ${subnet}`).digest('hex'),
      name,
      gateway,
      ...(asked &&
        asked !== subnet && { problem: `bridgeCidr ${asked} has no effect: the network ${name} has ${subnet}` }),
    };
  }

  async ensureNetwork(): Promise<EngineNetwork> {
    const network = await this.network();
    if (!network) throw new EngineError('Failed', 'the engine has no network');
    return network;
  }

  /** The network goes with containerd. */
  async removeNetwork(): Promise<void> {}

  async image(reference: string, signal?: AbortSignal): Promise<string | undefined> {
    return (await this.#at.images.find(reference, signal))?.content.id;
  }

  pull(request: PullRequest, signal?: AbortSignal): Promise<string> {
    const { images, unpacking } = this.#at;
    return unpacking.during(() => containerdPull(this.#containerd, images, request, signal));
  }

  async removeImage(selector: string, signal?: AbortSignal): Promise<void> {
    const { images } = this.#at;
    const { names, lastOf } = await images.removalOf(selector, signal);
    const all = lastOf === undefined ? [] : await this.imageUses(signal);
    const users = all.filter(({ imageId }) => imageId === lastOf).map(({ container }) => container);
    if (users.length > 0) throw inUse(selector, users);
    for (const name of names) await images.unname(name, signal);
  }

  async imageBytes(id: string, signal?: AbortSignal): Promise<number | undefined> {
    const all = await this.#at.images.list(signal);
    const own = all.find(({ content }) => content.id === id);
    if (!own) return 0;
    const others = new Set(
      all.filter((each) => each !== own).flatMap(({ content }) => content.layers.map(({ chain }) => chain)),
    );
    return this.#at.images.bytesOf(
      own.content.layers.filter(({ chain }) => !others.has(chain)),
      signal,
    );
  }

  async tag(id: string, reference: string, signal?: AbortSignal): Promise<void> {
    const found = await this.#at.images.find(id, signal);
    if (!found) throw new EngineError('ImageMissing', `image ${id} is not there`);
    const name = formatReference(parseReference(standIn(reference) ?? reference));
    await this.#at.images.name(name, found.target, signal);
  }

  async imageNames(signal?: AbortSignal): Promise<string[]> {
    return (await this.listImages(signal)).flatMap(({ tags, digests }) => [...tags, ...digests]);
  }

  async listImages(signal?: AbortSignal): Promise<LocalImage[]> {
    const { images, started } = this.#at;
    const found: LocalImage[] = [];
    for (const { content, names } of await images.list(signal)) {
      // Without it no container could be started.
      if (names.includes(started.pauseImage)) continue;
      const { id, createdAt, layers } = content;
      found.push({
        id,
        ...sortedNames(names),
        ...(createdAt && { createdAt }),
        contentBytes: layers.reduce((sum, { size }) => sum + size, 0),
        diskBytes: await images.bytesOf(layers, signal),
      });
    }
    return found;
  }

  async imageUses(signal?: AbortSignal): Promise<ImageUse[]> {
    return (await this.#records.list(signal)).map(({ imageId, run }) => ({ imageId, container: run.name }));
  }

  loadImages(archive: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<void> {
    return importArchive(this.#containerd, this.#at.images, archive, signal);
  }

  create(spec: ContainerSpec, signal?: AbortSignal): Promise<{ id: string; imageId: string }> {
    return this.#creations.take(async () => {
      const { images, started } = this.#at;
      const { cpuSetCpus, runtime } = spec.fields;
      requireCpus(cpuSetCpus);
      if (runtime && !started.handlers.includes(runtime))
        throw new EngineError(
          'Invalid',
          `runtime ${runtime} is unknown; the engine has ${started.handlers.join(', ')}`,
        );
      await this.#requireFreeName(spec.name, signal);
      const image = await images.find(spec.imageId || spec.image, signal);
      if (!image) throw new EngineError('ImageMissing', `image ${spec.image} is not there`);
      const id = randomBytes(32).toString('hex');
      const imageId = image.content.id;
      const run = { name: spec.name, attempt: 0 };
      await this.#records.add({ id, spec, imageId, createdAt: Date.now(), run }, signal);
      return { id, imageId };
    });
  }

  async #requireFreeName(name: string, signal?: AbortSignal): Promise<void> {
    for (const { id, run } of await this.#records.list(signal))
      if (run.name === name) throw new EngineError('NameTaken', `container ${id.slice(0, 12)} has the name ${name}`);
  }

  async start(id: string, signal?: AbortSignal): Promise<void> {
    await this.#startUnpacked(id, signal);
    const record = await this.#records.get(id, signal);
    if (record.run.containerId) this.#owners.set(record.run.containerId, id);
    this.#logs = [...this.#logs.filter((each) => each.id !== id), record];
  }

  /** containerd unpacks at the start what no pull has unpacked, such as the images of an archive. */
  async #startUnpacked(id: string, signal?: AbortSignal): Promise<void> {
    const { images, started, runs, unpacking } = this.#at;
    const { imageId } = await this.#records.get(id, signal);
    for (const each of [imageId, started.pauseImage])
      if (!(await images.isUnpacked(each, signal))) return unpacking.during(() => runs.start(id, signal));
    await runs.start(id, signal);
  }

  async processOf(id: string, signal?: AbortSignal): Promise<number> {
    const { run } = await this.#records.get(id, signal);
    if (!run.containerId) return 0;
    const { tasks } = await this.#containerd.call(CONTAINERD.listTasks, {}, { signal });
    const task = tasks.find((each) => (each.id || each.containerId) === run.containerId);
    return task && task.status !== TASK_STATES.stopped ? task.pid : 0;
  }

  async stop(id: string, graceSeconds: number, signal?: AbortSignal): Promise<void> {
    await this.#at.runs.stop(id, graceSeconds, signal);
  }

  async resume(id: string, signal?: AbortSignal): Promise<void> {
    const record = await this.#records.get(id, signal);
    const { containerId } = record.run;
    if (containerId && (await this.#at.runs.isRunning(record, signal))) await this.#at.runs.resume(containerId, signal);
  }

  async kill(id: string, posixSignal: string, signal?: AbortSignal): Promise<void> {
    const containerId = await this.#runningContainer(id, signal);
    const number = constants.signals[posixSignal as NodeJS.Signals];
    if (number === undefined) throw new EngineError('Invalid', `${posixSignal} is no signal`);
    await this.#containerd.call(CONTAINERD.kill, { containerId, signal: number }, { signal });
  }

  async rename(id: string, name: string, signal?: AbortSignal): Promise<void> {
    await this.#creations.take(async () => {
      await this.#requireFreeName(name, signal);
      await this.#at.runs.change(id, (run) => ({ ...run, name }));
    });
  }

  async remove(id: string, signal?: AbortSignal): Promise<void> {
    await this.#at.runs.remove(id, signal);
    this.#at.health.forget(id);
  }

  checkHealth(id: string, _since: number, signal?: AbortSignal): Promise<void> {
    return this.#at.health.check(id, signal);
  }

  async *logs(id: string, options: LogOptions, signal?: AbortSignal): AsyncGenerator<LogLine> {
    await this.#records.get(id, signal);
    const isRunning = async () => {
      try {
        return await this.#at.runs.isRunning(await this.#records.get(id, signal), signal);
      } catch (error) {
        // A container that was removed writes no more.
        if (isCode(error, 'NotFound')) return false;
        throw error;
      }
    };
    yield* readLogFiles(this.#at.places.log(id), options, isRunning, signal);
  }

  async exec(id: string, options: ExecOptions, signal?: AbortSignal): Promise<ExecProcess> {
    const container = await this.#runningContainer(id, signal);
    const context = { containerd: this.#containerd, directory: this.#at.places.programs, container };
    return startContainerExec(context, options, (program) => options.made?.({ container: id, id: program }), signal);
  }

  async endProgram({ container, id }: StartedProgram): Promise<void> {
    try {
      const { containerId } = (await this.#records.get(container)).run;
      if (containerId) await endContainerExec(this.#containerd, { containerId, execId: id });
    } catch (error) {
      // The container was removed, and the program with it.
      if (!isCode(error, 'NotFound')) throw error;
    }
  }

  /** Throws EngineError NotFound, and Conflict where nothing runs. */
  async #runningContainer(id: string, signal?: AbortSignal): Promise<string> {
    const record = await this.#records.get(id, signal);
    const { containerId } = record.run;
    if (containerId && (await this.#at.runs.isRunning(record, signal))) return containerId;
    throw new EngineError('Conflict', `container ${record.run.name} does not run`);
  }

  async *events(signal: AbortSignal): AsyncGenerator<EngineEvent> {
    const timer = setInterval(() => void this.#boundLogs().catch(() => {}), LOG_EVERY);
    timer.unref();
    try {
      for await (const { id, isRecord, action } of seenEvents(this.#containerd, signal)) {
        if (id === '') yield { containerId: '', action };
        const containerId = isRecord ? id : await this.#ownerOf(id, signal);
        if (id === '' || containerId === undefined) continue;
        if (action === 'die') await this.#untilEnded(id, signal);
        yield { containerId, action };
      }
    } finally {
      clearInterval(timer);
    }
  }

  async #ownerOf(containerId: string, signal?: AbortSignal): Promise<string | undefined> {
    const known = this.#owners.get(containerId);
    if (known) return known;
    return (await this.#own(signal)).find(({ run }) => run.containerId === containerId)?.id;
  }

  /** containerd says that a process has ended before CRI shows it. */
  async #untilEnded(containerId: string, signal: AbortSignal): Promise<void> {
    for (let waited = 0; waited < NOTICED; waited += LOOK_EVERY) {
      const status = await this.#at.runs.statusOf(containerId, signal);
      if (status?.state !== CONTAINER_STATES.running) return;
      await sleep(LOOK_EVERY, undefined, { signal });
    }
  }

  async #boundLogs(): Promise<void> {
    for (const record of this.#logs) await this.#boundLog(record);
  }

  /** A log that cannot be bounded does not keep others from it: the next look tries again. */
  async #boundLog({ id, spec, run }: ContainerRecord): Promise<void> {
    const { containerId = '' } = run;
    await boundLog(this.#at.places.log(id), {
      bytes: (spec.fields.logSize || LOG_SIZE) * MIB,
      isRunning: this.#statuses.get(containerId)?.state === CONTAINER_STATES.running,
      // A container that has ended has no log to open again.
      reopen: async () => void (await this.#containerd.call(CRI.reopenLog, { containerId }).catch(() => {})),
    }).catch(() => {});
  }

  get #at(): Connected {
    if (!this.#connected) throw new EngineError('Unavailable', `the engine at ${this.url} is not connected`);
    return this.#connected;
  }
}

const presentBoot = () => (readText('/proc/sys/kernel/random/boot_id') ?? '').trim();

const agentOf = ({ spec }: ContainerRecord) => spec.labels[CONTAINER_LABELS.agent] ?? '';

const ARCHITECTURES: Readonly<Record<string, string>> = {
  x64: 'amd64',
  arm64: 'arm64',
  arm: 'arm',
  riscv64: 'riscv64',
};
const imageArchitecture = () => ARCHITECTURES[process.arch] ?? process.arch;

function requireCpus(list: string | undefined): void {
  if (!list) return;
  const present = new Set(cpusIn(readText('/sys/devices/system/cpu/online')?.trim() ?? ''));
  const missing = cpusIn(list).filter((cpu) => !present.has(cpu));
  if (present.size > 0 && missing.length > 0)
    throw new EngineError('LimitRefused', `cpuSetCpus ${list}: this machine has no CPU ${missing.join(', ')}`);
}
