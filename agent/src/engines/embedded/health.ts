import type { Container } from '../../engine-port/container.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import type { HealthRecord, Run } from './record.ts';

const SECOND = 1000;
/** Characters of the output of a check that are kept. */
const OUTPUT_LENGTH = 1024;

type HealthCheck = NonNullable<ContainerSpec['fields']['healthCheck']>;

/** A health check as it is carried out; times in ms. */
export interface Probe {
  command: readonly string[];
  interval: number;
  timeout: number;
  startPeriod: number;
  startInterval: number;
  retries: number;
}

/** Undefined where a container has none. Pure. */
export function probeOf(check: HealthCheck | undefined): Probe | undefined {
  const [first, ...rest] = check?.test ?? [];
  if (!check || first === undefined || first === 'NONE') return undefined;
  const milliseconds = (seconds: number | undefined, otherwise: number) => (seconds || otherwise) * SECOND;
  return {
    command: first === 'CMD' ? rest : first === 'CMD-SHELL' ? ['/bin/sh', '-c', rest.join(' ')] : check.test,
    interval: milliseconds(check.interval, 30),
    timeout: milliseconds(check.timeout, 30),
    startPeriod: milliseconds(check.startPeriod, 0),
    startInterval: milliseconds(check.startInterval, 5),
    retries: check.retries || 3,
  };
}

/** The beginning of what a check printed, of which UTF-8 has at most four bytes for each character that is kept. Pure. */
export function outputOf({ stdout, stderr }: { stdout: Buffer; stderr: Buffer }): string {
  const beginning = [stdout, stderr].map((each) => each.subarray(0, 4 * OUTPUT_LENGTH));
  return Buffer.concat(beginning)
    .subarray(0, 4 * OUTPUT_LENGTH)
    .toString();
}

/** Whether a run still is in the time in which failures do not count. */
const isStarting = ({ startPeriod }: Probe, health: HealthRecord, startedAt: number, now: number) =>
  health.status === 'starting' && now < startedAt + startPeriod;

/** ms between checks: they are more frequent until the first success, where there is a start period. Pure. */
export function checkEvery(probe: Probe, health: HealthRecord, startedAt: number, now: number): number {
  return isStarting(probe, health, startedAt, now) ? Math.min(probe.startInterval, probe.interval) : probe.interval;
}

/** The health of the run of a record. */
export const healthOf = (run: Run): HealthRecord =>
  run.health?.attempt === run.attempt ? run.health : { attempt: run.attempt, status: 'starting', failures: 0 };

/** The health after a check. Pure. */
export function afterCheck(
  probe: Probe,
  health: HealthRecord,
  { exitCode, output }: NonNullable<Container['failedCheck']>,
  { startedAt, now }: { startedAt: number; now: number },
): HealthRecord {
  const { attempt } = health;
  if (exitCode === 0) return { attempt, status: 'healthy', failures: 0 };
  const failedCheck = { exitCode, output: output.slice(0, OUTPUT_LENGTH) };
  if (isStarting(probe, health, startedAt, now)) return { ...health, failedCheck };
  const failures = health.failures + 1;
  return { attempt, failures, failedCheck, status: failures >= probe.retries ? 'unhealthy' : health.status };
}
