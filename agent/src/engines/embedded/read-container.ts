import { fromLabels } from '../../domain/container-labels.ts';
import type { Container } from '../../engine-port/container.ts';
import { checkEvery, healthOf, probeOf } from './health.ts';
import type { ContainerRecord } from './record.ts';
import { CONTAINER_STATES, type CRI } from './wire/cri.ts';
import type { Of } from './wire/protobuf.ts';

export type CriStatus = NonNullable<Of<(typeof CRI)['containerStatus']['answer']>['status']>;

/** What containerd shows of the last start of a record. */
export interface ObservedRun {
  status?: CriStatus;
  /** 0 when it does not run */
  pid: number;
  paused: boolean;
}

const NS_PER_MS = 1e6;
const milliseconds = (nanoseconds: number) => Math.floor(nanoseconds / NS_PER_MS);

type Ended = NonNullable<ContainerRecord['run']['ended']>;

/** How a run of CRI has ended; `began` is when the agent had it started. Pure. */
export function endOf(status: CriStatus, began = Number.POSITIVE_INFINITY): Ended {
  const startedAt = Math.min(milliseconds(status.startedAt), began);
  const { reason, message, exitCode } = status;
  return {
    startedAt,
    finishedAt: Math.max(milliseconds(status.finishedAt), startedAt),
    exitCode,
    oomKilled: reason === 'OOMKilled',
    error: message,
    ...(reason && { reason }),
  };
}

const NEVER: Ended = { startedAt: 0, finishedAt: 0, exitCode: 0, oomKilled: false, error: '' };

/** A container from its record and what containerd shows. Pure. */
export function containerFrom(
  { id, spec, imageId, createdAt, run }: ContainerRecord,
  { status, pid, paused }: ObservedRun,
  { networkId, now }: { networkId: string | undefined; now: number },
): Container {
  const { labels, fields, ports } = spec;
  const hostNetwork = fields.hostNetworkMode === true;
  const isRunning = status?.state === CONTAINER_STATES.running;
  const hasRun = status !== undefined && status.startedAt > 0;
  const last = hasRun ? endOf(status, run.began) : (run.ended ?? NEVER);
  return {
    id,
    name: run.name,
    ...fromLabels(labels),
    createdAt,
    imageId,
    state: isRunning ? 'running' : last.startedAt > 0 ? 'exited' : 'created',
    ...(paused && { paused }),
    ...last,
    ...(isRunning && { finishedAt: 0, exitCode: 0, reason: undefined }),
    ...(isRunning && healthMembers(spec, run, last.startedAt, now)),
    hostNetwork,
    networkId: hostNetwork ? '' : (networkId ?? ''),
    ip: isRunning && !hostNetwork ? run.ip || undefined : undefined,
    ports: isRunning ? ports : [],
    pid: isRunning ? pid : 0,
    binds: spec.mounts.map(({ source, readOnly }) => ({ source, writable: !readOnly })),
    ...(run.sandboxId && { podId: run.sandboxId }),
  };
}

function healthMembers(
  { fields }: ContainerRecord['spec'],
  run: ContainerRecord['run'],
  startedAt: number,
  now: number,
): Pick<Container, 'health' | 'failedCheck' | 'checkEvery'> {
  const probe = probeOf(fields.healthCheck);
  if (!probe) return {};
  const health = healthOf(run);
  return {
    health: health.status,
    ...(health.failedCheck && { failedCheck: health.failedCheck }),
    checkEvery: checkEvery(probe, health, startedAt, now),
  };
}
