import { spawnSync } from 'node:child_process';
import { readdirSync, readlinkSync } from 'node:fs';
import { constants } from 'node:os';
import { inject } from 'vitest';
import { callEngine, pullInsecure } from '../../../hack/engine-api.ts';
import type {} from '../../../hack/testing/provided.ts';
import { CONTAINER_LABELS } from '../../../src/api/names.ts';
import type { CompleteEngine } from '../engine-port/engine.ts';
import { readText } from '../machine/disk.ts';
import { makeSpec } from './_contract.ts';
import { DockerEngine } from './docker/engine.ts';
import { Containerd } from './embedded/client.ts';
import { EmbeddedEngine } from './embedded/engine.ts';
import { ImageStore } from './embedded/image-store.ts';
import { startedAt } from './embedded/machine/started.ts';
import { recordPlaces } from './embedded/places.ts';
import { ContainerRecords } from './embedded/record.ts';
import { CONTAINERD } from './embedded/wire/containerd.ts';
import { CONTAINER_STATES, CRI } from './embedded/wire/cri.ts';

/** An engine of a test run: which one it is, and where. */
export interface TestEngine {
  kind: 'docker' | 'podman' | 'embedded';
  url: string;
}

/** Whether other tests represent the promises on an engine: by day the contract represents them on the agent's own. */
export const isRepresented = ({ kind }: Pick<TestEngine, 'kind'>): boolean => {
  const { SKERRY_NIGHTLY, SKERRY_ENGINE } = process.env;
  return kind === 'embedded' && !SKERRY_NIGHTLY && SKERRY_ENGINE !== 'embedded';
};

/** The engines of suites that run on the agent's own only by night, or alone. */
export const suiteEngines = (): TestEngine[] => inject('everyEngine').filter((each) => !isRepresented(each));

/** The adapter of an engine. */
export const openTestEngine = ({ kind, url }: TestEngine, instance: string): CompleteEngine =>
  kind === 'embedded' ? new EmbeddedEngine({ url, instance }) : new DockerEngine({ url, instance });

/** The engine of suites that need one: the first of the run. */
export function firstEngine(): TestEngine {
  const [first] = inject('everyEngine');
  if (!first) throw new Error('the run has no engine');
  return first;
}

/** A container that another program makes. */
export interface ForeignContainer {
  name: string;
  image: string;
  labels?: Record<string, string>;
  /** a directory of the machine that it binds */
  source?: string;
}

/** A container of any program. */
export interface SeenContainer {
  id: string;
  name: string;
  image: string;
  state: string;
  labels: Record<string, string>;
}

/** An engine as another program of the machine uses it, without the adapter. The agent's own has no other programs than other agents. */
export interface Outside {
  pull(reference: string): Promise<void>;
  all(): Promise<SeenContainer[]>;
  /** the command lines of what runs in a container */
  programsOf(id: string): Promise<string[]>;
  /** Makes a container, and returns its id. */
  make(container: ForeignContainer): Promise<string>;
  run(id: string): Promise<void>;
  pause(id: string): Promise<void>;
  stop(id: string): Promise<void>;
  kill(id: string): Promise<void>;
  rename(id: string, name: string): Promise<void>;
  /** also a container that runs */
  remove(id: string): Promise<void>;
  /** what would change if somebody touched a container */
  look(id: string): Promise<string>;
  labelsOf(id: string): Promise<Record<string, string>>;
  /** where the log of a container stands on this machine */
  logFileOf(id: string): Promise<string>;
  architectureOf(image: string): Promise<string>;
  /** for people: what tells a container that ended from a port that the engine did not publish */
  describe(id: string): Promise<string>;
}

export const outsideOf = ({ kind, url }: TestEngine): Outside =>
  kind === 'embedded' ? outsideOfContainerd(url) : outsideOfDocker(url);

interface Inspection {
  Name: string;
  Image: string;
  HostConfig: unknown;
  Config: { Labels: Record<string, string> };
  State: unknown;
  NetworkSettings: unknown;
  LogPath?: string;
}

function outsideOfDocker(url: string): Outside {
  const inspect = (id: string) => callEngine<Inspection>(url, 'GET', `/v1.41/containers/${id}/json`);
  const act = async (id: string, path: string) => {
    await callEngine(url, 'POST', `/v1.41/containers/${id}/${path}`);
  };
  return {
    pull: (reference) => pullInsecure(url, reference),
    async all() {
      type Listed = { Id: string; Names: string[]; Image: string; State: string; Labels: Record<string, string> };
      const list = await callEngine<Listed[]>(url, 'GET', '/v1.41/containers/json?all=true');
      return list.map(({ Id, Names, Image, State, Labels }) => ({
        ...{ id: Id, name: Names[0]?.slice(1) ?? '', image: Image, state: State, labels: Labels },
      }));
    },
    async programsOf(id) {
      const top = await callEngine<{ Processes: string[][] }>(url, 'GET', `/v1.41/containers/${id}/top`);
      return top.Processes.map((fields) => fields.at(-1) ?? '');
    },
    async make({ name, image: Image, labels: Labels = {}, source }) {
      const HostConfig = {
        // podman cannot start a container where the machine grants less than its own limits.
        Ulimits: [{ Name: 'nofile', Soft: 1024, Hard: 1024 }],
        ...(source && { Binds: [`${source}:/data`] }),
      };
      const body = { Image, Labels, HostConfig };
      return (await callEngine<{ Id: string }>(url, 'POST', `/v1.41/containers/create?name=${name}`, body)).Id;
    },
    run: (id) => act(id, 'start'),
    pause: (id) => act(id, 'pause'),
    stop: (id) => act(id, 'stop?t=0'),
    kill: (id) => act(id, 'kill?signal=KILL'),
    rename: (id, name) => act(id, `rename?name=${name}`),
    async look(id) {
      const { Name, Image, State, HostConfig, NetworkSettings } = await inspect(id);
      return JSON.stringify({ Name, Image, State, HostConfig, NetworkSettings });
    },
    async remove(id) {
      await callEngine(url, 'DELETE', `/v1.41/containers/${id}?force=true`);
    },
    labelsOf: async (id) => (await inspect(id)).Config.Labels,
    async logFileOf(id) {
      const { LogPath } = await inspect(id);
      if (LogPath) return LogPath;
      type Answer = { HostConfig: { LogConfig: { Path: string } } };
      const answer = await callEngine<Answer>(url, 'GET', `/v4.0.0/libpod/containers/${id}/json`);
      return answer.HostConfig.LogConfig.Path;
    },
    async architectureOf(image) {
      return (await callEngine<{ Architecture: string }>(url, 'GET', `/v1.41/images/${image}/json`)).Architecture;
    },
    async describe(id) {
      const { State, NetworkSettings } = await inspect(id);
      return JSON.stringify({ State, NetworkSettings, rules: rules() });
    },
  };
}

const ANOTHER_AGENT = 'f'.repeat(32);

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

function outsideOfContainerd(url: string): Outside {
  const containerd = new Containerd(url);
  const records = new ContainerRecords(containerd);
  const started = startedAt(url.replace('unix://', ''));
  if (!started) throw new Error(`no containerd was prepared at ${url}`);
  const other = new EmbeddedEngine({ url, instance: ANOTHER_AGENT });
  const connected = once(() => other.connect());
  const containerOf = async (id: string) => {
    const { containerId = '' } = (await records.get(id)).run;
    return { containerId };
  };
  return {
    async pull(reference) {
      await connected();
      await other.pull({ reference, platform: '' });
    },
    async all() {
      const { containers } = await containerd.call(CRI.listContainers, {});
      const states = new Map(containers.map(({ id, state }) => [id, state]));
      return (await records.list()).map(({ id, spec, run }) => {
        const isRunning = states.get(run.containerId ?? '') === CONTAINER_STATES.running;
        return { id, name: run.name, image: spec.image, state: isRunning ? 'running' : 'exited', labels: spec.labels };
      });
    },
    async programsOf(id) {
      const { process } = await containerd.call(CONTAINERD.getProcess, await containerOf(id));
      const namespace = readlinkSync(`/proc/${process?.pid}/ns/pid`);
      return processesIn(namespace).map((pid) => (readText(`/proc/${pid}/cmdline`) ?? '').replaceAll('\0', ' ').trim());
    },
    async make({ name, image, labels = {}, source }) {
      const spec = makeSpec({ facts: await connected(), instance: ANOTHER_AGENT, name, view: { imageId: image } });
      const mounts = source ? [{ source, target: '/data', readOnly: false, relabel: false }] : [];
      const owner = { [CONTAINER_LABELS.agent]: ANOTHER_AGENT };
      return (await other.create({ ...spec, labels: { ...owner, ...labels }, mounts })).id;
    },
    async run(id) {
      await connected();
      await other.start(id);
    },
    async pause(id) {
      await containerd.call(CONTAINERD.pause, await containerOf(id));
    },
    async stop(id) {
      await containerd.call(CRI.stopContainer, { ...(await containerOf(id)), timeout: 0 });
    },
    async kill(id) {
      await containerd.call(CONTAINERD.kill, { ...(await containerOf(id)), signal: constants.signals.SIGKILL });
    },
    async rename(id, name) {
      const record = await records.get(id);
      await records.setRun(record, { ...record.run, name });
    },
    async look(id) {
      const { status } = await containerd.call(CRI.containerStatus, await containerOf(id));
      return JSON.stringify([await records.get(id), status]);
    },
    async remove(id) {
      const { sandboxId } = (await records.get(id)).run;
      await records.remove(id);
      if (sandboxId) await containerd.call(CRI.removeSandbox, { sandboxId });
    },
    labelsOf: async (id) => (await records.get(id)).spec.labels,
    logFileOf: async (id) => recordPlaces(started).log(id),
    async architectureOf(image) {
      return (await new ImageStore(containerd, 'amd64').find(image))?.content.architecture ?? '';
    },
    async describe(id) {
      return JSON.stringify({ run: (await records.get(id)).run, rules: rules() });
    },
  };
}

/** The processes of the machine in a namespace of processes. A zombie has ended: no process waits for it. */
export function processesIn(namespace: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      try {
        if (!Number.isInteger(pid) || readlinkSync(`/proc/${pid}/ns/pid`) !== namespace) return false;
        return !/\) Z /.test(readText(`/proc/${pid}/stat`) ?? '');
      } catch {
        return false;
      }
    });
}

const rules = () => (spawnSync('iptables-save', ['-t', 'nat'], { encoding: 'utf8' }).stdout ?? '').split('\n');
