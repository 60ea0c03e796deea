import { expect, test } from 'vitest';
import type { Entry, RunEntry } from '../../domain/entry.ts';
import type { Failure, MicroserviceRecord } from '../../domain/record.ts';
import type { Plan } from '../../domain/step.ts';
import type { Container } from '../../engine-port/container.ts';
import { imageOf, makeContainer, makeDesired, makeEntry, makeHold, makePlanInput, makeRecord, UUID } from './_util.ts';
import { plan } from './plan.ts';
import { targetKey } from './serves.ts';

/** What a case does not name is as in `USUAL`. */
interface Case {
  /** undefined: the desired state is unknown */
  desired?: Entry[] | undefined;
  containers?: Container[];
  records?: MicroserviceRecord[];
  networkId?: string | null;
  now?: number;
  want: string[];
}

const v1 = makeEntry();
const USUAL = { desired: [v1], containers: [], records: [makeRecord(v1)], networkId: 'n1', now: 0 };
const v2 = makeEntry({ imageId: 'example/app:2' });
const old = makeContainer(v1);
const fresh = (change: Partial<Container> = {}) =>
  makeContainer(v2, { generation: 2, name: `skerry-${UUID}-g2`, state: 'created', ...change });
const onV2 = (change: Partial<MicroserviceRecord> = {}) => makeRecord(v2, { lastGood: v1.view, ...change });
const exited = (entry: RunEntry, change: Partial<Container> = {}) =>
  makeContainer(entry, { state: 'exited', exitCode: 1, ...change });
const crashed = (notBefore: number): Partial<MicroserviceRecord> => ({
  exit: { key: 'x', cause: 'Crash' },
  crash: { target: targetKey(v1), count: 1, at: 0, notBefore },
});
const failure = (entry: Entry, step: Failure['step'], notBefore: number, containerId?: string): Failure => ({
  step,
  target: targetKey(entry),
  containerId,
  count: 1,
  at: 0,
  notBefore,
  reason: 'X',
  message: 'x',
});
/** v1 from another registry: the same container digest, another pull reference. */
const hub = makeEntry({}, 'example/app:1');
const moved = makeEntry({ registryId: 7 }, 'mirror.example/example/app:1');
const imageOfMoved = { ...makeRecord(moved).image, outdatedGeneration: 1 } as MicroserviceRecord['image'];
const low = makeEntry({ uuid: '22222222-2222-4222-8222-222222222222', schedule: 1 });
const high = makeEntry({ uuid: '33333333-3333-4333-8333-333333333333', schedule: 90 });

const cases: Record<string, Case> = {
  'a new microservice: its image is looked up and pulled only if missing': {
    records: [makeRecord(v1, { image: undefined, generation: 0 })],
    want: ['image example/app:1 ifMissing'],
  },
  'a new microservice whose image is there: the network comes first': {
    records: [makeRecord(v1, { generation: 0 })],
    networkId: null,
    want: ['network'],
  },
  'a new microservice with image and network: its container is created': {
    records: [makeRecord(v1, { generation: 0 })],
    want: [`create skerry-${UUID} New`],
  },
  'a network that was lost is made before anything is started': {
    containers: [exited(v1)],
    networkId: null,
    want: ['network'],
  },
  'a stopped container that knows another network is made again': {
    containers: [exited(v1, { networkId: 'n0' })],
    want: [`create skerry-${UUID}-g2 NetworkChanged`],
  },
  'a new microservice on the host network needs no network': {
    desired: [makeEntry({ hostNetworkMode: true })],
    records: [makeRecord(v1, { generation: 0 })],
    networkId: null,
    want: [`create skerry-${UUID} New`],
  },
  'a container that was paused on the machine is resumed': {
    containers: [makeContainer(v1, { paused: true })],
    want: ['resume 1111 Paused'],
  },
  'a container that was paused on the machine is resumed before it is stopped, so that it receives the signal': {
    desired: [],
    containers: [makeContainer(v1, { paused: true })],
    want: ['resume 1111 Paused'],
  },
  'a container that was paused on the machine is resumed before a local stop': {
    containers: [makeContainer(v1, { paused: true })],
    records: [makeRecord(v1, { stoppedLocally: { revision: 'r-1', rebuildCount: 0 } })],
    want: ['resume 1111 Paused'],
  },
  'a container that was made is started': {
    containers: [makeContainer(v1, { state: 'created' })],
    want: ['start 1111 New'],
  },
  'a container that serves its entry is left alone': { containers: [old], want: [] },
  'the local registry never pulls': {
    desired: [makeEntry({ registryId: 2 })],
    records: [makeRecord(v1, { image: undefined })],
    want: ['image example/app:1 never'],
  },

  'a changed image is pulled while the old container runs': {
    desired: [v2],
    containers: [old],
    want: ['image example/app:2 preferFresh'],
  },
  'a changed image whose old container died in the meantime: the old one is started during the pull': {
    desired: [v2],
    containers: [exited(v1)],
    records: [makeRecord(v1, { exit: { key: 'x', cause: 'Reboot' } })],
    want: ['image example/app:2 preferFresh', 'start 1111 Returned'],
  },
  'when the new image is there, the new container is made under a name of its own': {
    desired: [v2],
    containers: [old],
    records: [onV2()],
    want: [`create skerry-${UUID}-g2 SpecChanged`],
  },
  'when the new container is made, the old one is stopped': {
    desired: [v2],
    containers: [old, fresh()],
    records: [onV2()],
    want: ['stop 1111 Replacing'],
  },
  'when the old container has stopped, the new one starts': {
    desired: [v2],
    containers: [exited(v1), fresh()],
    records: [onV2()],
    want: ['start 2222 Replacement'],
  },
  'when the new container runs, the old one is removed': {
    desired: [v2],
    containers: [exited(v1), fresh({ state: 'running', startedAt: 9 })],
    records: [onV2()],
    want: ['remove 1111 Replaced'],
  },
  'when the new container is the only one, it is renamed': {
    desired: [v2],
    containers: [fresh({ state: 'running', startedAt: 9 })],
    records: [onV2()],
    want: [`rename 2222 skerry-${UUID}`],
  },
  'a new container that ran and then crashed is not rolled back': {
    desired: [v2],
    containers: [exited(v1), fresh({ state: 'exited', startedAt: 9 })],
    records: [onV2(crashed(99))],
    want: ['remove 1111 Replaced'],
  },

  'a failed pull leaves the old one running and is tried later': {
    desired: [v2],
    containers: [old],
    records: [makeRecord(v1, { failure: failure(v2, 'image', 100) })],
    want: ['wait RetryBackoff 100'],
  },
  'a failed pull is tried again when its time has come': {
    desired: [v2],
    containers: [old],
    records: [makeRecord(v1, { failure: failure(v2, 'image', 100) })],
    now: 100,
    want: ['image example/app:2 preferFresh'],
  },
  'a failed pull does not keep an old container that died from being started': {
    desired: [v2],
    containers: [exited(v1)],
    records: [makeRecord(v1, { failure: failure(v2, 'image', 100), exit: { key: 'x', cause: 'Engine' } })],
    want: ['wait RetryBackoff 100', 'start 1111 Returned'],
  },
  'a failed create leaves the old one running': {
    desired: [v2],
    containers: [old],
    records: [onV2({ failure: failure(v2, 'create', 100) })],
    want: ['wait RetryBackoff 100'],
  },
  'a failed start of the new container starts the old one': {
    desired: [v2],
    containers: [exited(v1), fresh()],
    records: [onV2({ failure: failure(v2, 'start', 100, fresh().id) })],
    want: ['start 1111 Returned'],
  },
  'when the old container runs again, the one that failed is removed': {
    desired: [v2],
    containers: [old, fresh()],
    records: [onV2({ failure: failure(v2, 'start', 100, fresh().id) })],
    want: ['remove 2222 FailedToStart'],
  },
  'when the container that failed is removed, the old one runs until the next attempt is due': {
    desired: [v2],
    containers: [old],
    records: [onV2({ failure: failure(v2, 'start', 100, 'gone') })],
    want: ['wait RetryBackoff 100'],
  },
  'when the old container cannot be started either, both wait': {
    desired: [v2],
    containers: [exited(v1), fresh()],
    records: [onV2({ failure: failure(v2, 'start', 100, old.id) })],
    want: ['wait RetryBackoff 100'],
  },
  'a failed start of the only container is tried again later': {
    containers: [makeContainer(v1, { state: 'created' })],
    records: [makeRecord(v1, { failure: failure(v1, 'start', 100, old.id) })],
    want: ['wait RetryBackoff 100'],
  },
  'a candidate for a revision that is no longer wanted is removed': {
    containers: [old, fresh()],
    want: ['remove 2222 Replaced'],
  },
  'back to the old revision in the middle of a replacement: the candidate goes before the old one is started': {
    containers: [exited(v1), fresh()],
    records: [makeRecord(v1, { exit: { key: 'x', cause: 'Stopped' } })],
    want: ['remove 2222 Leftover'],
  },

  'a crashed container waits for its back-off': {
    containers: [exited(v1)],
    records: [makeRecord(v1, crashed(100))],
    now: 99,
    want: ['wait CrashBackoff 100'],
  },
  'a crashed container is started when its time has come': {
    containers: [exited(v1)],
    records: [makeRecord(v1, crashed(100))],
    now: 100,
    want: ['start 1111 Crashed'],
  },
  'a container that a reboot ended is started at once': {
    containers: [exited(v1)],
    records: [makeRecord(v1, { exit: { key: 'x', cause: 'Reboot' } })],
    want: ['start 1111 MachineRebooted'],
  },
  'a container that a restart of the engine ended is started at once': {
    containers: [exited(v1)],
    records: [makeRecord(v1, { exit: { key: 'x', cause: 'Engine' } })],
    want: ['start 1111 EngineRestarted'],
  },
  'a local start does not wait for back-off': {
    containers: [exited(v1)],
    records: [makeRecord(v1, { ...crashed(100), live: { startedLocally: true } })],
    want: ['start 1111 StartedLocally'],
  },

  'a container of another digest, or without its network, is replaced': {
    containers: [makeContainer(v1, { networkId: '' })],
    want: [`create skerry-${UUID}-g2 NetworkChanged`],
  },
  'a stopped container whose network is not known is not replaced': {
    containers: [exited(v1, { networkId: '' })],
    want: ['start 1111 FoundStopped'],
  },
  'another image behind the same reference replaces the container': {
    containers: [makeContainer(v1, { imageId: imageOf('other') })],
    want: [`create skerry-${UUID}-g2 ImageChanged`],
  },
  'an image whose registry is another one is pulled from there while the old container runs': {
    desired: [moved],
    containers: [old],
    records: [makeRecord(hub)],
    want: ['image example/app:1 preferFresh'],
  },
  'a failed pull from another registry leaves the old one running and is tried later': {
    desired: [moved],
    containers: [old],
    records: [makeRecord(hub, { failure: failure(moved, 'image', 100) })],
    want: ['wait RetryBackoff 100'],
  },
  'an image that was pulled from another registry replaces the container even when it is the same image': {
    desired: [moved],
    containers: [old],
    records: [makeRecord(hub, { image: imageOfMoved })],
    want: [`create skerry-${UUID}-g2 RegistryChanged`],
  },
  'a container that was made of the image from another registry is left alone': {
    desired: [moved],
    containers: [makeContainer(moved, { generation: 2 })],
    records: [makeRecord(hub, { image: imageOfMoved, generation: 2 })],
    want: [],
  },
  'an image that was lost after its pull from another registry is looked up again, and the old container does not stand for it':
    {
      desired: [moved],
      containers: [old],
      records: [makeRecord(hub, { image: imageOfMoved && { ...imageOfMoved, id: '' } })],
      want: ['image example/app:1 preferFresh'],
    },
  'a registry that is not known replaces no container': {
    desired: [makeEntry({ registryId: 7 })],
    containers: [old],
    records: [makeRecord(hub)],
    want: [],
  },
  'a container without a generation is not replaced for its registry': {
    desired: [hub],
    containers: [makeContainer(hub, { generation: 0 })],
    records: [makeRecord(hub)],
    want: [],
  },
  'a rebuild pulls again': {
    desired: [makeEntry({ rebuildCount: 1 })],
    containers: [old],
    want: ['image example/app:1 fresh'],
  },
  'a rebuild whose pull was done makes a new container even from the same image': {
    desired: [makeEntry({ rebuildCount: 1 })],
    containers: [old],
    records: [makeRecord(makeEntry({ rebuildCount: 1 }))],
    want: [`create skerry-${UUID}-g2 RebuildRequested`],
  },
  'a container that another program removed is made again': {
    records: [makeRecord(v1, { lastGood: v1.view, generation: 4 })],
    want: [`create skerry-${UUID} Vanished`],
  },
  'a rebuild count below that of the container causes no rebuild': {
    containers: [makeContainer(makeEntry({ rebuildCount: 3 }))],
    records: [makeRecord(makeEntry({ rebuildCount: 3 }))],
    want: [],
  },

  'a hold keeps what runs': { desired: [makeHold()], containers: [old], records: [makeRecord()], want: [] },
  'a hold starts a container that died': {
    desired: [makeHold()],
    containers: [exited(v1)],
    records: [makeRecord(v1, { ...crashed(0), lastGood: v1.view })],
    now: 1,
    want: ['start 1111 Crashed'],
  },
  'a hold waits for the back-off': {
    desired: [makeHold()],
    containers: [exited(v1)],
    records: [makeRecord(v1, crashed(100))],
    want: ['wait CrashBackoff 100'],
  },
  'a hold starts no container that never ran': {
    desired: [makeHold()],
    containers: [makeContainer(v1, { state: 'created' })],
    want: [],
  },
  'a hold in the middle of a replacement starts the last good container': {
    desired: [makeHold()],
    containers: [exited(v1), fresh()],
    records: [onV2({ exit: { key: 'x', cause: 'Stopped' } })],
    want: ['start 1111 FoundStopped'],
  },
  'a hold makes no container of a microservice that never ran': {
    desired: [makeHold()],
    records: [makeRecord(v1, { generation: 0 })],
    want: [],
  },
  'a hold makes the container of the last good revision again when another program removed it': {
    desired: [makeHold()],
    records: [makeRecord(v1, { lastGood: v1.view })],
    want: [`create skerry-${UUID} Vanished`],
  },

  'a local stop stops the container': {
    containers: [old],
    records: [makeRecord(v1, { stoppedLocally: { revision: 'r-1', rebuildCount: 0 } })],
    want: ['stop 1111 StoppedLocally'],
  },
  'a container that was stopped locally stays stopped': {
    containers: [exited(v1)],
    records: [makeRecord(v1, { stoppedLocally: { revision: 'r-1', rebuildCount: 0 } })],
    want: [],
  },
  'a local restart stops the run that it was asked for': {
    containers: [old],
    records: [makeRecord(v1, { live: { restart: { key: `${old.id.slice(0, 12)}@1000` } } })],
    want: ['stop 1111 RestartingLocally'],
  },
  'a local restart does not stop the next run': {
    containers: [makeContainer(v1, { startedAt: 2000 })],
    records: [makeRecord(v1, { live: { restart: { key: `${old.id.slice(0, 12)}@1000` } } })],
    want: [],
  },

  'a microservice that is no longer wanted is stopped': {
    desired: [],
    containers: [old],
    want: ['stop 1111 NoLongerWanted'],
  },
  'a microservice that is no longer wanted and has stopped is removed': {
    desired: [],
    containers: [exited(v1)],
    want: ['remove 1111 NoLongerWanted'],
  },
  'nothing is removed while it is not known what is wanted': {
    desired: undefined,
    containers: [old, makeContainer(low)],
    records: [makeRecord(), makeRecord(low)],
    want: [],
  },
  'a container that died is started again while it is not known what is wanted': {
    desired: undefined,
    containers: [exited(v1)],
    records: [makeRecord(v1, { exit: { key: 'x', cause: 'Reboot' } })],
    want: ['start 1111 MachineRebooted'],
  },
  'of microservices that are no longer wanted, the one that starts last ends first': {
    desired: [],
    containers: [makeContainer(low), makeContainer(high)],
    records: [makeRecord(low, { live: { unwantedSince: 0 } }), makeRecord(high, { live: { unwantedSince: 0 } })],
    want: ['wait Order 60000', 'stop 1111 NoLongerWanted 3333'],
  },

  'two running containers of one microservice: the older one is stopped': {
    desired: [v2],
    containers: [old, fresh({ state: 'running', startedAt: 9 })],
    records: [onV2()],
    want: ['stop 1111 Duplicate'],
  },
  'a container that the engine lost is removed': {
    containers: [makeContainer(v1, { state: 'dead' })],
    want: ['remove 1111 Dead'],
  },

  'a start waits for those with a lower schedule that are down': {
    desired: [low, high],
    containers: [exited(low), exited(high)],
    records: [makeRecord(low, { live: { downSince: 0 } }), makeRecord(high, { live: { downSince: 0 } })],
    want: ['start 1111 FoundStopped 2222', 'wait Order 60000'],
  },
  'a start does not wait for a microservice that failed': {
    desired: [low, high],
    containers: [exited(high)],
    records: [
      makeRecord(low, { live: { downSince: 0 }, failure: failure(low, 'image', 100) }),
      makeRecord(high, { live: { downSince: 0 } }),
    ],
    want: ['wait RetryBackoff 100', 'start 1111 FoundStopped 3333'],
  },
  'a start waits for others no longer than a minute': {
    desired: [low, high],
    containers: [exited(low), exited(high)],
    records: [
      makeRecord(low, { live: { downSince: 0 }, ...crashed(999999) }),
      makeRecord(high, { live: { downSince: 0 } }),
    ],
    now: 60_000,
    want: ['wait CrashBackoff 999999', 'start 1111 FoundStopped 3333'],
  },
  'a start does not wait for a microservice that was stopped on the machine': {
    desired: [low, high],
    containers: [exited(low), exited(high)],
    records: [
      makeRecord(low, { live: { downSince: 0 }, stoppedLocally: { revision: 'r-1', rebuildCount: 0 } }),
      makeRecord(high, { live: { downSince: 0 } }),
    ],
    want: ['start 1111 FoundStopped 3333'],
  },
  'a system microservice goes before any other': {
    desired: [low, makeEntry({ uuid: high.uuid, schedule: 90, isSystem: true })],
    containers: [exited(low), exited(high)],
    records: [
      makeRecord(low, { live: { downSince: 0 } }),
      makeRecord(high, { isSystem: true, live: { downSince: 0 } }),
    ],
    want: ['wait Order 60000', 'start 1111 FoundStopped 3333'],
  },
  'a replacement that must wait for its turn leaves the old one running': {
    desired: [low, { ...v2 }],
    containers: [exited(low), old, fresh()],
    records: [makeRecord(low, { live: { downSince: 0 } }), onV2()],
    want: ['start 1111 FoundStopped 2222', 'wait Order 60000'],
  },
};

for (const [name, row] of Object.entries(cases))
  test(name, () => {
    const { desired, containers, records, networkId, now, want } = { ...USUAL, ...row };
    const snapshot = { containers, networkId: networkId ?? undefined };
    const byUuid = new Map(records.map((record) => [record.uuid, record]));
    const { steps, waits } = plan(makePlanInput({ desired: makeDesired(desired), snapshot, records: byUuid, now }));
    expect(textOf({ steps, waits }, (desired?.length ?? 0) > 1 || records.length > 1).sort()).toEqual([...want].sort());
  });

/** A plan as short texts: container ids by their first four digits, with the microservice where there are several. */
function textOf({ steps, waits }: Plan, several: boolean): string[] {
  const words = steps.map((step) => {
    const who = several && step.kind !== 'network' && step.uuid !== UUID ? ` ${step.uuid.slice(0, 4)}` : '';
    switch (step.kind) {
      case 'network':
        return 'network';
      case 'image':
        return `image ${step.reference} ${step.policy}`;
      case 'create':
        return `create ${step.name} ${step.reason}`;
      case 'rename':
        return `rename ${step.containerId.slice(0, 4)} ${step.name}`;
      default:
        return `${step.kind} ${step.containerId.slice(0, 4)} ${step.reason}${who}`;
    }
  });
  return [...words, ...waits.map(({ why, until }) => `wait ${why} ${until}`)];
}
