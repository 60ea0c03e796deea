import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../../engine-port/error.ts';
import { readText } from '../../machine/disk.ts';
import { isPortTaken } from '../../machine/port-probe.ts';
import type { Containerd } from './client.ts';
import { containerOf } from './container-config.ts';
import { isCode } from './errors.ts';
import { hostsText, type Neighbour, resolversOf } from './hosts.ts';
import { refreshHostsFile } from './hosts-file.ts';
import type { StartedContainerd } from './machine/started.ts';
import { LOG_FILE, type RecordPlaces } from './places.ts';
import { type CriStatus, endOf } from './read-container.ts';
import type { ContainerRecord, ContainerRecords, Run } from './record.ts';
import { readSpec, specBytes, withOwnFields } from './runtime-spec.ts';
import { RECORD_LABEL, type SandboxConfig, sandboxOf } from './sandbox-config.ts';
import { Turns } from './turns.ts';
import { CONTAINERD, TASK_STATES } from './wire/containerd.ts';
import { CONTAINER_STATES, CRI } from './wire/cri.ts';

const SECOND = 1000;
/** ms until a sandbox is there, with its network; the plugins of the network are other programs */
const SANDBOX = 120 * SECOND;
/** ms until CRI knows an image that containerd has */
const IMAGE_KNOWN = 10 * SECOND;
const LOOK_EVERY = 25;

interface RecordRunsOptions {
  containerd: Containerd;
  records: ContainerRecords;
  started: StartedContainerd;
  places: RecordPlaces;
}

/**
 * Starts and ends records: a start makes a sandbox with a network and ports, and one container in it; an end keeps the container
 * for what CRI says of it, and frees network and ports.
 */
export class RecordRuns {
  readonly #options: RecordRunsOptions;
  readonly #changes = new Turns();
  readonly #hosts = new Turns();
  readonly #starts = new Turns();

  constructor(options: RecordRunsOptions) {
    this.#options = options;
  }

  /** Changes what a record says of its runs; one change at a time. */
  change(id: string, edit: (run: Run) => Run): Promise<Run> {
    const { records } = this.#options;
    return this.#changes.take(async () => {
      const record = await records.get(id);
      const run = edit(record.run);
      await records.setRun(record, run);
      return run;
    });
  }

  async statusOf(containerId: string | undefined, signal?: AbortSignal): Promise<CriStatus | undefined> {
    if (!containerId) return undefined;
    try {
      return (await this.#options.containerd.call(CRI.containerStatus, { containerId }, { signal })).status;
    } catch (error) {
      if (isCode(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  async isRunning({ run }: Pick<ContainerRecord, 'run'>, signal?: AbortSignal): Promise<boolean> {
    return (await this.statusOf(run.containerId, signal))?.state === CONTAINER_STATES.running;
  }

  /** Starts a record that does not run. One start at a time: two could want one port. */
  start(id: string, signal?: AbortSignal): Promise<void> {
    return this.#starts.take(async () => {
      const record = await this.#options.records.get(id, signal);
      const status = await this.statusOf(record.run.containerId, signal);
      if (status?.state === CONTAINER_STATES.running) return;
      await this.#freePorts(record, signal);
      const run = await this.change(id, ({ sandboxId: _s, containerId: _c, ip: _i, ...rest }) => ({
        ...rest,
        attempt: rest.attempt + 1,
        ...(status && status.startedAt > 0 && { ended: endOf(status, record.run.began) }),
      }));
      await this.removeSandboxes(id);
      try {
        await this.#run({ ...record, run }, signal);
      } catch (error) {
        await this.removeSandboxes(id).catch(() => {});
        await this.change(id, ({ sandboxId: _s, containerId: _c, ip: _i, ...rest }) => rest).catch(() => {});
        throw error;
      }
      await this.refreshHosts();
    });
  }

  async #run(record: ContainerRecord, signal?: AbortSignal): Promise<void> {
    const { containerd, places, started } = this.#options;
    const { id, spec } = record;
    const { attempt } = record.run;
    mkdirSync(places.logDirectory(id), { recursive: true, mode: 0o700 });
    const config = this.#sandbox(record);
    const handler = spec.fields.runtime ?? '';
    await this.#untilImageKnown(record.imageId, signal);
    const { sandboxId } = await containerd.call(CRI.runSandbox, { config, handler }, { signal, deadline: SANDBOX });
    const { status } = await containerd.call(CRI.sandboxStatus, { sandboxId }, { signal });
    const ip = status?.network?.ip ?? '';
    await this.change(id, (run) => ({ ...run, sandboxId, ip }));
    const own: Neighbour[] = ip ? [{ id, ip, aliases: spec.aliases }] : [];
    const gateway = started.network.gateway;
    writeFileSync(places.hosts(id), hostsText({ id, spec, gateway, neighbours: own }), { mode: 0o644 });
    const container = containerOf(record, { attempt, hostsFile: places.hosts(id), logFile: LOG_FILE });
    const request = { sandboxId, config: container, sandboxConfig: config };
    const { containerId } = await containerd.call(CRI.createContainer, request, { signal, deadline: SANDBOX });
    await this.#addOwnFields(containerId, record, signal);
    await this.change(id, (run) => ({ ...run, containerId, began: Date.now() }));
    await this.refreshHosts();
    await containerd.call(CRI.startContainer, { containerId }, { signal, deadline: SANDBOX });
  }

  #sandbox(record: ContainerRecord): SandboxConfig {
    const { places, started } = this.#options;
    const plain = resolversOf(readText('/etc/resolv.conf') ?? '');
    const resolvers =
      plain.nameServers.length > 0 ? plain : resolversOf(readText('/run/systemd/resolve/resolv.conf') ?? '');
    const { attempt } = record.run;
    const { cgroupParent } = started;
    return sandboxOf(record, { attempt, cgroupParent, logDirectory: places.logDirectory(record.id), ...resolvers });
  }

  /** Writes what CRI has no word for into the specification that CRI made, before the runtime reads it. */
  async #addOwnFields(containerId: string, { spec }: ContainerRecord, signal?: AbortSignal): Promise<void> {
    const { containerd } = this.#options;
    const { container } = await containerd.call(CONTAINERD.getContainer, { id: containerId }, { signal });
    if (!container?.spec)
      throw new EngineError('Failed', `the engine does not say how container ${containerId} is made`);
    const value = specBytes(withOwnFields(readSpec(container.spec.value), spec));
    const changed = { id: containerId, spec: { type: container.spec.type, value } };
    await containerd.call(CONTAINERD.updateContainer, { container: changed, mask: { paths: ['spec'] } }, { signal });
  }

  /** CRI learns of an image that it did not pull itself a moment after containerd has it. */
  async #untilImageKnown(image: string, signal?: AbortSignal): Promise<void> {
    for (let waited = 0; waited < IMAGE_KNOWN; waited += LOOK_EVERY) {
      const answer = await this.#options.containerd.call(CRI.imageStatus, { image: { image } }, { signal });
      if (answer.image) return;
      await sleep(LOOK_EVERY, undefined, { signal });
    }
    throw new EngineError('ImageMissing', `image ${image} is not there`);
  }

  /** The port is free when no program of the machine has it, and no record that runs; a record that has ended gives its ports back. */
  async #freePorts({ id, spec }: ContainerRecord, signal?: AbortSignal): Promise<void> {
    for (const port of spec.ports)
      if (await isPortTaken(port))
        throw new EngineError('PortTaken', `port ${port.external}/${port.protocol} is taken by another program`);
    for (const other of await this.#options.records.list(signal)) {
      const shared = other.spec.ports.find((theirs) =>
        spec.ports.some(({ external, protocol }) => external === theirs.external && protocol === theirs.protocol),
      );
      if (!shared || other.id === id || !other.run.sandboxId) continue;
      if (await this.isRunning(other, signal))
        throw new EngineError(
          'PortTaken',
          `container ${other.run.name} has port ${shared.external}/${shared.protocol}`,
        );
      await this.#stopSandbox(other.run.sandboxId, signal);
    }
  }

  async stop(id: string, graceSeconds: number, signal?: AbortSignal): Promise<void> {
    const { containerd, records } = this.#options;
    const { run } = await records.get(id, signal);
    const { containerId, sandboxId } = run;
    if (containerId && (await this.isRunning({ run }, signal))) {
      await this.resume(containerId, signal);
      const deadline = (graceSeconds + 60) * SECOND;
      await containerd.call(CRI.stopContainer, { containerId, timeout: graceSeconds }, { signal, deadline });
    }
    if (sandboxId) await this.#stopSandbox(sandboxId, signal);
    await this.refreshHosts();
  }

  /** A task that is not paused is no error. */
  async resume(containerId: string, signal?: AbortSignal): Promise<void> {
    const { containerd } = this.#options;
    const { process } = await containerd.call(CONTAINERD.getProcess, { containerId }, { signal });
    if (process?.status === TASK_STATES.paused) await containerd.call(CONTAINERD.resume, { containerId }, { signal });
  }

  async #stopSandbox(sandboxId: string, signal?: AbortSignal): Promise<void> {
    try {
      await this.#options.containerd.call(CRI.stopSandbox, { sandboxId }, { signal, deadline: SANDBOX });
    } catch (error) {
      if (!isCode(error, 'NotFound')) throw error;
    }
  }

  /** Throws EngineError NotFound, and Conflict for a record that runs. */
  async remove(id: string, signal?: AbortSignal): Promise<void> {
    const { records, places } = this.#options;
    const record = await records.get(id, signal);
    if (await this.isRunning(record, signal)) throw new EngineError('Conflict', `container ${record.run.name} runs`);
    await this.removeSandboxes(id);
    await records.remove(id, signal);
    rmSync(places.all(id), { recursive: true, force: true });
  }

  /** Removes the sandboxes of a record with their containers; an agent that was killed may have left a sandbox that no record names. */
  async removeSandboxes(id: string): Promise<void> {
    const { containerd } = this.#options;
    const labels = { [RECORD_LABEL]: id };
    for (const { id: sandboxId } of (await containerd.call(CRI.listSandboxes, { filter: { labels } })).items) {
      await this.#stopSandbox(sandboxId);
      await containerd.call(CRI.removeSandbox, { sandboxId }, { deadline: SANDBOX });
    }
  }

  /** Removes the sandboxes of records that are not there: an agent was killed when it removed them. */
  async removeOrphans(): Promise<void> {
    const { containerd, records } = this.#options;
    const { items } = await containerd.call(CRI.listSandboxes, {});
    const known = new Set((await records.list()).map(({ id }) => id));
    const ids = new Set(items.map(({ labels }) => labels[RECORD_LABEL] ?? ''));
    for (const id of ids) if (id !== '' && !known.has(id)) await this.removeSandboxes(id);
  }

  /** Writes the names of all containers that run into the hosts files of all of them. */
  refreshHosts(): Promise<void> {
    const { containerd, records, places, started } = this.#options;
    return this.#hosts.take(async () => {
      const { containers } = await containerd.call(CRI.listContainers, {});
      const alive = new Set(containers.filter(({ state }) => state !== CONTAINER_STATES.exited).map(({ id }) => id));
      const running = (await records.list()).filter(({ run }) => run.containerId && alive.has(run.containerId));
      const neighbours = running.flatMap(({ id, spec, run }): Neighbour[] =>
        run.ip ? [{ id, ip: run.ip, aliases: spec.aliases }] : [],
      );
      for (const { id, spec } of running) {
        const text = hostsText({ id, spec, gateway: started.network.gateway, neighbours });
        refreshHostsFile(places.hosts(id), text);
      }
    });
  }
}
