import { expect, test } from 'vitest';
import type { MicroserviceStatus } from '../../../../src/wire/agent.ts';
import type { Entry, RunEntry } from '../../domain/entry.ts';
import { type Failure, type MicroserviceRecord, newRecord } from '../../domain/record.ts';
import type { BareStep } from '../../domain/step.ts';
import type { Container } from '../../engine-port/container.ts';
import { runKey } from '../../engine-port/container.ts';
import { imageOf, makeContainer, makeEntry, makeHold, makeRecord, UUID } from './_util.ts';
import { targetKey } from './serves.ts';
import { type StatusInput, statusOf, unknownStatus } from './status.ts';

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
  rebuildCount: 0,
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
  'a microservice that is new is QUEUED': { containers: [], want: { status: 'QUEUED', errorMessage: '' } },
  'a microservice whose image is pulled is PULLING, with the progress': {
    containers: [],
    step: image,
    percentage: 40,
    want: { status: 'PULLING', percentage: 40 },
  },
  'a microservice whose container is started is STARTING': {
    containers: [makeContainer(v1, { state: 'created' })],
    step: doing('start', 'New'),
    want: { status: 'STARTING' },
  },
  'a container that was paused on the machine is FAILED': {
    containers: [makeContainer(v1, { paused: true })],
    want: {
      status: 'FAILED',
      reason: 'Paused',
      errorMessage: 'the container is paused on its machine',
      containerId: up.id,
    },
  },
  'a container that serves its entry is RUNNING': {
    containers: [up],
    want: {
      status: 'RUNNING',
      revision: 'r-1',
      imageId: imageOf('example/app:1'),
      image: 'example/app:1',
      containerId: up.id,
      startTime: 1000,
      rebuildCount: 0,
    },
  },
  'a container reports the later revision that asks for the same container': {
    entry: makeEntry({ revision: 'r-later', schedule: 3 }),
    containers: [up],
    want: { revision: 'r-later' },
  },
  'a container whose image came from another registry reports the revision that it was made for': {
    entry: makeEntry({ registryId: 7, revision: 'r-7' }, 'mirror.example/example/app:1'),
    containers: [up],
    row: { image: makeRecord(makeEntry({}, 'example/app:1')).image, failure, lastGood: v1.view },
    want: { status: 'RUNNING', reason: 'ImageNotFound', revision: 'r-1' },
  },
  'an old container that still runs is RUNNING, with the reason why its successor does not': {
    entry: v2,
    containers: [up],
    row: { failure: failureOf(v2), lastGood: { ...v1.view, revision: 'r-served' } },
    want: {
      status: 'RUNNING',
      reason: 'ImageNotFound',
      errorMessage: 'no such image',
      revision: 'r-served',
      image: 'example/app:1',
    },
  },
  'an old container is RUNNING while the new image is pulled': {
    entry: v2,
    containers: [up],
    step: image,
    percentage: 10,
    want: { status: 'RUNNING', percentage: 10, revision: 'r-1', image: undefined },
  },
  'an old container that is stopped for its successor is UPDATING': {
    entry: v2,
    containers: [up],
    step: doing('stop', 'Replacing'),
    want: { status: 'UPDATING' },
  },
  'a microservice whose image cannot be pulled is FAILED': {
    containers: [],
    row: { failure },
    want: { status: 'FAILED', reason: 'ImageNotFound', errorMessage: 'no such image' },
  },
  'a failure of an older entry is not reported': {
    entry: v2,
    containers: [up],
    row: { failure, error: { message: failure.message, at: 0 } },
    want: { status: 'RUNNING', reason: undefined, errorMessage: '' },
  },
  'a crash of an older entry is not reported': {
    entry: v2,
    containers: [up],
    row: crash(9),
    want: { status: 'RUNNING', reason: undefined },
  },
  'a microservice whose image could not be pulled stays FAILED while it is pulled again': {
    containers: [],
    row: { failure },
    step: image,
    want: { status: 'FAILED' },
  },
  'a microservice that crashed and waits is RESTARTING': {
    containers: [down],
    row: crash(1),
    wait: { uuid: UUID, why: 'CrashBackoff', until: 0 },
    want: { status: 'RESTARTING', reason: 'Crashed' },
  },
  'a microservice that crashed often and waits is STUCK_IN_RESTART': {
    containers: [down],
    row: crash(5),
    wait: { uuid: UUID, why: 'CrashBackoff', until: 0 },
    want: { status: 'STUCK_IN_RESTART', reason: 'Crashed' },
  },
  'a microservice that crashed often and has just started is STUCK_IN_RESTART': {
    containers: [up],
    row: { ...crash(5), live: since(5_000) },
    want: { status: 'STUCK_IN_RESTART' },
  },
  'a microservice that crashed often and has run for a while is RUNNING': {
    containers: [up],
    row: { ...crash(5), live: since(31_000) },
    want: { status: 'RUNNING' },
  },
  'a microservice that was stopped on the machine is STOPPED': {
    containers: [down],
    row: { stoppedLocally: { revision: 'r-1', rebuildCount: 0 } },
    want: { status: 'STOPPED', reason: 'StoppedLocally' },
  },
  'a microservice that is restarted on the machine is RESTARTING': {
    containers: [up],
    row: { live: { restart: { key: runKey(up) } } },
    want: { status: 'RESTARTING' },
  },
  'a container whose entry is on hold is RUNNING, with the reason of the hold': {
    entry: makeHold(),
    containers: [up],
    want: { status: 'RUNNING', reason: 'RegistryNotFound', errorMessage: 'registry 7 is gone' },
  },
  'a microservice on hold that never ran is QUEUED': {
    entry: makeHold(),
    containers: [],
    want: { status: 'QUEUED', reason: 'RegistryNotFound' },
  },
  'a microservice that the policy of the machine refuses is FAILED': {
    entry: makeHold(UUID, 'PolicyRefused'),
    containers: [],
    want: { status: 'FAILED', reason: 'PolicyRefused' },
  },
  'a microservice that waits for others to start is QUEUED': {
    containers: [down],
    wait: { uuid: UUID, why: 'Order', until: 0 },
    want: { status: 'QUEUED', reason: 'WaitingForOrder' },
  },
  'a microservice that waits for a network which the engine cannot make is QUEUED': {
    containers: [],
    networkProblem: 'no free address range',
    want: { status: 'QUEUED', reason: 'NetworkFailed', errorMessage: 'no free address range' },
  },
  'a microservice whose image is pulled is PULLING, also without a network': {
    containers: [],
    step: image,
    networkProblem: 'no free address range',
    want: { status: 'PULLING', errorMessage: '' },
  },
  'a microservice on the host network does not wait for the network': {
    entry: makeEntry({ hostNetworkMode: true }),
    containers: [],
    networkProblem: 'no free address range',
    want: { status: 'QUEUED', reason: undefined, errorMessage: '' },
  },
  'a microservice that needs a port of another one is QUEUED': {
    containers: [down],
    wait: { uuid: UUID, why: 'Port', until: 0, message: 'port 80/tcp is held by shop.db of this node' },
    want: { status: 'QUEUED', reason: 'PortTaken', errorMessage: 'port 80/tcp is held by shop.db of this node' },
  },
  'an old container whose successor needs a port of another microservice is RUNNING': {
    containers: [up],
    wait: { uuid: UUID, why: 'Port', until: 0, message: 'port 80/tcp is held by shop.db of this node' },
    want: { status: 'RUNNING', reason: 'PortTaken', errorMessage: 'port 80/tcp is held by shop.db of this node' },
  },
  'a microservice that is no longer wanted and runs is STOPPING': {
    entry: undefined,
    isUnwanted: true,
    containers: [up],
    want: { status: 'STOPPING' },
  },
  'a microservice that is no longer wanted and has stopped is DELETING': {
    entry: undefined,
    isUnwanted: true,
    containers: [down],
    want: { status: 'DELETING' },
  },
  'a microservice that is no longer wanted and has no container is STOPPED': {
    entry: undefined,
    containers: [],
    row: { gone: true },
    want: { status: 'STOPPED' },
  },
  'a container is RUNNING while it is not known what is wanted': {
    entry: undefined,
    containers: [up],
    want: { status: 'RUNNING' },
  },
};

for (const [name, { want, row, containers = [], ...input }] of Object.entries(cases))
  test(name, () => {
    const status = statusOf({
      entry: v1,
      isUnwanted: false,
      snapshot: { containers, networkId: 'n1' },
      now: NOW,
      ...input,
      record: makeRecord(v1, row),
      containers,
    });
    expect(status).toMatchObject(want);
  });

test('an entry on hold keeps its name while the engine cannot be read', () => {
  const hold = { ...makeHold(), application: 'shop', name: 'db' };
  expect(unknownStatus(newRecord(UUID), hold, 'no answer')).toMatchObject({
    ...{ application: 'shop', name: 'db', status: 'UNKNOWN', errorMessage: 'no answer' },
  });
});
