import { spawnSync } from 'node:child_process';
import { inject } from 'vitest';
import { callEngine } from '../../../hack/engine-api.ts';
import type {} from '../../../hack/testing/provided.ts';
import type { CompleteEngine } from '../engine-port/engine.ts';
import { DockerEngine } from './docker/engine.ts';
import { Containerd } from './embedded/client.ts';
import { EmbeddedEngine } from './embedded/engine.ts';
import { ImageStore } from './embedded/image-store.ts';
import { startedAt } from './embedded/machine/started.ts';
import { recordPlaces } from './embedded/places.ts';
import { ContainerRecords } from './embedded/record.ts';
import { CONTAINERD } from './embedded/wire/containerd.ts';
import { CRI } from './embedded/wire/cri.ts';

/** An engine of a test run: which one it is, and where. */
export interface TestEngine {
  kind: 'docker' | 'podman' | 'embedded';
  url: string;
}

/** The engines of suites whose promises the contract represents by day: the agent's own is among them at night, or alone. */
export const suiteEngines = (): TestEngine[] => {
  const { SKERRY_NIGHTLY, SKERRY_ENGINE } = process.env;
  const withOwn = SKERRY_NIGHTLY || SKERRY_ENGINE === 'embedded';
  return inject('everyEngine').filter(({ kind }) => kind !== 'embedded' || withOwn);
};

/** The adapter of an engine. */
export const openTestEngine = ({ kind, url }: TestEngine, instance: string): CompleteEngine =>
  kind === 'embedded' ? new EmbeddedEngine({ url, instance }) : new DockerEngine({ url, instance });

/** An engine as another program of the machine uses it, without the adapter. */
export interface Outside {
  pause(id: string): Promise<void>;
  /** also a container that runs */
  remove(id: string): Promise<void>;
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
  Config: { Labels: Record<string, string> };
  State: unknown;
  NetworkSettings: unknown;
  LogPath?: string;
}

function outsideOfDocker(url: string): Outside {
  const inspect = (id: string) => callEngine<Inspection>(url, 'GET', `/v1.41/containers/${id}/json`);
  return {
    async pause(id) {
      await callEngine(url, 'POST', `/v1.41/containers/${id}/pause`);
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

function outsideOfContainerd(url: string): Outside {
  const containerd = new Containerd(url);
  const records = new ContainerRecords(containerd);
  const started = startedAt(url.replace('unix://', ''));
  if (!started) throw new Error(`no containerd was prepared at ${url}`);
  return {
    async pause(id) {
      const { containerId = '' } = (await records.get(id)).run;
      await containerd.call(CONTAINERD.pause, { containerId });
    },
    async remove(id) {
      const { sandboxId = '' } = (await records.get(id)).run;
      await records.remove(id);
      await containerd.call(CRI.removeSandbox, { sandboxId });
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

const rules = () => (spawnSync('iptables-save', ['-t', 'nat'], { encoding: 'utf8' }).stdout ?? '').split('\n');
