import { expect, test } from 'vitest';
import type { MicroserviceStatus } from '../../../src/wire/agent.ts';
import type { Container } from '../domain/container.ts';
import { runKey } from '../domain/container.ts';
import type { Entry, RunEntry } from '../domain/entry.ts';
import type { Failure, MicroserviceRecord } from '../domain/record.ts';
import type { BareStep } from '../domain/step.ts';
import { imageOf, makeContainer, makeEntry, makeHold, makeRecord, UUID } from './_util.ts';
import { targetKey } from './serves.ts';
import { type StatusInput, statusOf } from './status.ts';

const v1 = makeEntry();
const v2 = makeEntry({ imageId: 'example/app:2' });
const NOW = 1_000_000;
const up = makeContainer(v1);
const down = makeContainer(v1, { state: 'exited' });
const since = (milliseconds: number) => ({ running: { key: runKey(up), since: NOW - milliseconds } });
const failureOf = (entry: RunEntry): Failure => ({
  step: 'image',
  target: targetKey(entry),
  count: 1,
  at: 0,
  notBefore: 0,
  reason: 'ImageNotFound',
  message: 'no such image',
});
const failure = failureOf(v1);
const crash = (count: number): Partial<MicroserviceRecord> => ({
  exit: { key: 'x', cause: 'Crash' },
  crash: { target: targetKey(v1), count, at: 0, notBefore: 0 },
});
const image: BareStep = {
  kind: 'image',
  uuid: UUID,
  target: '',
  reference: '',
  registryId: 1,
  platform: '',
  rebuildOrder: 0,
  policy: 'fresh',
};
const doing = (kind: 'start' | 'stop', reason: string) =>
  ({ kind, uuid: UUID, target: '', containerId: up.id, reason }) as BareStep;

interface Case extends Partial<Omit<StatusInput, 'record'>> {
  entry?: Entry;
  row?: Partial<MicroserviceRecord>;
  containers?: Container[];
  want: Partial<MicroserviceStatus>;
}

const cases: Record<string, Case> = {
  'just heard of': { containers: [], want: { status: 'QUEUED', errorMessage: '' } },
  'its image is being pulled': {
    containers: [],
    step: image,
    percentage: 40,
    want: { status: 'PULLING', percentage: 40 },
  },
  'its container is being started': {
    containers: [makeContainer(v1, { state: 'created' })],
    step: doing('start', 'New'),
    want: { status: 'STARTING' },
  },
  'frozen by somebody on the machine': {
    containers: [makeContainer(v1, { paused: true })],
    want: {
      status: 'FAILED',
      reason: 'Paused',
      errorMessage: 'the container is paused on its machine',
      containerId: up.id,
    },
  },
  'running as it should': {
    containers: [up],
    want: {
      status: 'RUNNING',
      revision: 'r-1',
      imageId: imageOf('example/app:1'),
      containerId: up.id,
      startTime: 1000,
      rebuildOrder: 0,
    },
  },
  'running, with a revision that asks for the same container': {
    entry: makeEntry({ revision: 'r-later', schedule: 3 }),
    containers: [up],
    want: { revision: 'r-later' },
  },
  'an old container that runs on because the new image cannot be had': {
    entry: v2,
    containers: [up],
    row: { failure: failureOf(v2), lastGood: { ...v1.view, revision: 'r-served' } },
    want: { status: 'RUNNING', reason: 'ImageNotFound', errorMessage: 'no such image', revision: 'r-served' },
  },
  'an old container while the new image is pulled': {
    entry: v2,
    containers: [up],
    step: image,
    percentage: 10,
    want: { status: 'RUNNING', percentage: 10, revision: 'r-1' },
  },
  'an old container that makes way': {
    entry: v2,
    containers: [up],
    step: doing('stop', 'Replacing'),
    want: { status: 'UPDATING' },
  },
  'nothing there, and the image cannot be had': {
    containers: [],
    row: { failure },
    want: { status: 'FAILED', reason: 'ImageNotFound', errorMessage: 'no such image' },
  },
  'what failed is no longer wanted': {
    entry: v2,
    containers: [up],
    row: { failure, error: { message: failure.message, at: 0 } },
    want: { status: 'RUNNING', reason: undefined, errorMessage: '' },
  },
  'what crashed is no longer wanted': {
    entry: v2,
    containers: [up],
    row: crash(9),
    want: { status: 'RUNNING', reason: undefined },
  },
  'the same while it is tried again': { containers: [], row: { failure }, step: image, want: { status: 'FAILED' } },
  'crashed, waiting': {
    containers: [down],
    row: crash(1),
    wait: { uuid: UUID, why: 'CrashBackoff', until: 0 },
    want: { status: 'RESTARTING', reason: 'Crashed' },
  },
  'crashed often, waiting': {
    containers: [down],
    row: crash(5),
    wait: { uuid: UUID, why: 'CrashBackoff', until: 0 },
    want: { status: 'STUCK_IN_RESTART', reason: 'Crashed' },
  },
  'crashed often, and running for a moment': {
    containers: [up],
    row: { ...crash(5), live: since(5_000) },
    want: { status: 'STUCK_IN_RESTART' },
  },
  'crashed often, and running for a while': {
    containers: [up],
    row: { ...crash(5), live: since(31_000) },
    want: { status: 'RUNNING' },
  },
  'stopped on the machine': {
    containers: [down],
    row: { stoppedLocally: { revision: 'r-1', rebuildOrder: 0 } },
    want: { status: 'STOPPED', reason: 'StoppedLocally' },
  },
  'restarted on the machine': {
    containers: [up],
    row: { live: { restart: { key: runKey(up) } } },
    want: { status: 'RESTARTING' },
  },
  'held, running': {
    entry: makeHold(),
    containers: [up],
    want: { status: 'RUNNING', reason: 'RegistryNotFound', errorMessage: 'registry 7 is gone' },
  },
  'held, never run': { entry: makeHold(), containers: [], want: { status: 'QUEUED', reason: 'RegistryNotFound' } },
  'refused by the machine': {
    entry: makeHold(UUID, 'PolicyRefused'),
    containers: [],
    want: { status: 'FAILED', reason: 'PolicyRefused' },
  },
  'waiting for its turn': {
    containers: [down],
    wait: { uuid: UUID, why: 'Order', until: 0 },
    want: { status: 'QUEUED', reason: 'WaitingForOrder' },
  },
  'waiting for a network that the engine cannot make': {
    containers: [],
    networkProblem: 'no free address range',
    want: { status: 'QUEUED', reason: 'NetworkFailed', errorMessage: 'no free address range' },
  },
  'its image is pulled while there is no network': {
    containers: [],
    step: image,
    networkProblem: 'no free address range',
    want: { status: 'PULLING', errorMessage: '' },
  },
  'in need of no network': {
    entry: makeEntry({ hostNetworkMode: true }),
    containers: [],
    networkProblem: 'no free address range',
    want: { status: 'QUEUED', reason: undefined, errorMessage: '' },
  },
  'waiting for a port of a neighbour': {
    containers: [down],
    wait: { uuid: UUID, why: 'Port', until: 0, message: 'port 80/tcp is held by shop.db of this node' },
    want: { status: 'QUEUED', reason: 'PortTaken', errorMessage: 'port 80/tcp is held by shop.db of this node' },
  },
  'running on, since its successor needs a port of a neighbour': {
    containers: [up],
    wait: { uuid: UUID, why: 'Port', until: 0, message: 'port 80/tcp is held by shop.db of this node' },
    want: { status: 'RUNNING', reason: 'PortTaken', errorMessage: 'port 80/tcp is held by shop.db of this node' },
  },
  'no longer wanted, running': { entry: undefined, containers: [up], want: { status: 'STOPPING' } },
  'no longer wanted, stopped': { entry: undefined, containers: [down], want: { status: 'DELETING' } },
  'no longer wanted, gone': {
    entry: undefined,
    containers: [],
    row: { gone: true },
    want: { status: 'STOPPED' },
  },
  'nothing known of what is wanted': {
    entry: undefined,
    desiredKnown: false,
    containers: [up],
    want: { status: 'RUNNING' },
  },
};

for (const [name, { want, row, containers = [], ...input }] of Object.entries(cases))
  test(name, () => {
    const status = statusOf({
      uuid: UUID,
      entry: v1,
      desiredKnown: true,
      snapshot: { containers, networkId: 'n1' },
      now: NOW,
      ...input,
      record: makeRecord(v1, row),
      containers,
    });
    expect(status).toMatchObject(want);
  });
