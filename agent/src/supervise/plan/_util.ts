import { type MicroserviceView, microserviceViewSchema } from '../../../../src/wire/agent.ts';
import { containerDigest } from '../../domain/digest.ts';
import type { Entry, HoldEntry, RunEntry } from '../../domain/entry.ts';
import { OPEN_POLICY } from '../../domain/policy.ts';
import type { MicroserviceRecord } from '../../domain/record.ts';
import { newRecord } from '../../domain/record.ts';
import { type Desired, NOTHING_KNOWN } from '../../domain/wanted.ts';
import type { Container } from '../../engine-port/container.ts';
import type { PlanInput } from './context.ts';

/** Builders for tests; what a test does not name is a sensible default. */

export const UUID = '11111111-1111-4111-8111-111111111111';

export function makeView(change: Partial<MicroserviceView> = {}): MicroserviceView {
  const uuid = change.uuid ?? UUID;
  return microserviceViewSchema.parse({
    uuid,
    name: `m${uuid.slice(0, 2)}`,
    application: 'app',
    imageId: 'example/app:1',
    registryId: 1,
    revision: change.imageId ? `r-${change.imageId}` : 'r-1',
    ...change,
  });
}

export function makeEntry(change: Partial<MicroserviceView> = {}, pullReference?: string): RunEntry {
  const view = makeView(change);
  return { kind: 'run', uuid: view.uuid, view, digest: containerDigest(view), pullReference };
}

export function makeHold(uuid = UUID, reason = 'RegistryNotFound'): HoldEntry {
  return { kind: 'hold', uuid, reason, message: 'registry 7 is gone' };
}

/** What a machine is to run that has these entries; undefined: the list of its controller is not known. */
export function makeDesired(entries: readonly Entry[] | undefined): Desired {
  return entries ? { entries, removed: new Set(), isListKnown: true } : NOTHING_KNOWN;
}

/** The image id that makeContainer and makeRow give a reference. */
export function imageOf(reference: string): string {
  return `sha256:${reference}`;
}

export function makeContainer(entry: RunEntry = makeEntry(), change: Partial<Container> = {}): Container {
  const running = (change.state ?? 'running') === 'running';
  return {
    id: `${change.generation ?? 1}`.repeat(4) + entry.uuid.slice(0, 8),
    name: `skerry-${entry.uuid}`,
    uuid: entry.uuid,
    application: entry.view.application,
    microservice: entry.view.name,
    digest: entry.digest,
    revision: entry.view.revision,
    rebuildCount: entry.view.rebuildCount,
    generation: 1,
    imageId: imageOf(entry.view.imageId),
    state: 'running',
    startedAt: change.state === 'created' ? 0 : 1000,
    finishedAt: running ? 0 : 5000,
    exitCode: 0,
    oomKilled: false,
    error: '',
    hostNetwork: false,
    networkId: 'n1',
    ports: [],
    pid: running ? 42 : 0,
    ...change,
  };
}

export function makeRecord(
  entry: RunEntry = makeEntry(),
  change: Partial<MicroserviceRecord> = {},
): MicroserviceRecord {
  const { application, name, schedule, isSystem, imageId, rebuildCount } = entry.view;
  return {
    ...newRecord(entry.uuid),
    application,
    name,
    schedule,
    isSystem,
    generation: 1,
    image: { reference: imageId, id: imageOf(imageId), rebuildCount, pullReference: entry.pullReference },
    ...change,
  };
}

/** The input of a plan on a machine that allows everything. */
export function makePlanInput(change: Partial<PlanInput> = {}): PlanInput {
  return {
    desired: makeDesired([]),
    snapshot: { containers: [], networkId: 'n1' },
    records: new Map(),
    now: 0,
    machine: {
      instance: 'i',
      nodeUuid: 'n',
      scopeOf: () => 'managed',
      volumesDirectory: '/v',
      timeZone: '',
      facts: {
        kind: 'docker',
        version: '28.0.0',
        apiVersion: '1.48',
        runtimes: [],
        choosesRuntime: true,
        rootless: false,
        selinux: false,
        architecture: 'amd64',
        startInterval: true,
        cdi: true,
        links: true,
        defaultLimits: [],
      },
      limits: { mayRaise: true, hard: {} },
    },
    registries: new Map(),
    views: new Map(),
    policy: OPEN_POLICY,
    artifactWait: () => undefined,
    underWay: [],
    ...change,
  };
}
