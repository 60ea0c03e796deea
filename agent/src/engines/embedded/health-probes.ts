import type { Container } from '../../engine-port/container.ts';
import type { Containerd } from './client.ts';
import { afterCheck, checkEvery, healthOf, outputOf, type Probe, probeOf } from './health.ts';
import { endOf } from './read-container.ts';
import type { ContainerRecords, HealthRecord } from './record.ts';
import type { RecordRuns } from './runs.ts';
import { CONTAINER_STATES, CRI } from './wire/cri.ts';

const SECOND = 1000;
/** Part of an interval after which the next check may begin. */
const ALMOST = 0.75;

interface Last {
  attempt: number;
  /** ms, when it ended */
  at: number;
  health: HealthRecord;
}

/**
 * Carries out health checks by programs in containers. What they have found is in the record, for an agent that starts again;
 * how many have failed in a row is only there when the health changes, so that a check alone writes nothing.
 */
export class HealthProbes {
  readonly #options: { containerd: Containerd; records: ContainerRecords; runs: RecordRuns };
  readonly #last = new Map<string, Last>();

  constructor(options: { containerd: Containerd; records: ContainerRecords; runs: RecordRuns }) {
    this.#options = options;
  }

  /** Runs the check of a container, if one is due. */
  async check(id: string, signal?: AbortSignal): Promise<void> {
    const { records, runs } = this.#options;
    const { spec, run } = await records.get(id, signal);
    const probe = probeOf(spec.fields.healthCheck);
    const status = await runs.statusOf(run.containerId, signal);
    if (!probe || !run.containerId || status?.state !== CONTAINER_STATES.running) return;
    const { startedAt } = endOf(status, run.began);
    const last = this.#last.get(id);
    const isSame = last?.attempt === run.attempt;
    const before = isSame ? last.health : healthOf(run);
    const now = Date.now();
    if (isSame && now - last.at < ALMOST * checkEvery(probe, before, startedAt, now)) return;
    const found = await this.#probe(run.containerId, probe, signal);
    const health = afterCheck(probe, before, found, { startedAt, now: Date.now() });
    this.#last.set(id, { attempt: run.attempt, at: Date.now(), health });
    const isNews =
      health.status !== healthOf(run).status || health.failedCheck?.output !== healthOf(run).failedCheck?.output;
    if (isNews) await runs.change(id, (each) => (each.attempt === run.attempt ? { ...each, health } : each));
  }

  /** Drops the results of a record that was removed. */
  forget(id: string): void {
    this.#last.delete(id);
  }

  async #probe(
    containerId: string,
    { command, timeout }: Probe,
    signal?: AbortSignal,
  ): Promise<NonNullable<Container['failedCheck']>> {
    const request = { containerId, command, timeout: Math.ceil(timeout / SECOND) };
    const options = { signal, deadline: timeout + 10 * SECOND };
    try {
      const answer = await this.#options.containerd.call(CRI.execSync, request, options);
      return { exitCode: answer.exitCode, output: outputOf(answer) };
    } catch (error) {
      signal?.throwIfAborted();
      return { exitCode: -1, output: error instanceof Error ? error.message : String(error) };
    }
  }
}
