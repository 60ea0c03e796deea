import { describe, expect, it } from 'vitest';
import { CONTAINER_FIELD_NAMES, fieldRow } from '../../api/container/index.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { MicroserviceEntry, ObservedMicroservice } from '../../api/v3/index.ts';
import type { MicroserviceStatus } from '../../wire/index.ts';
import { makeApplication, makeEntry, makeLookups, makeNode, makeObserved, NODE_UUID, NOW } from '../_util.ts';
import type { Liveness } from '../inputs.ts';
import { entryUuid, volumeMappingId } from '../names.ts';
import { entryFromFlat, patchEntry } from './flat.ts';
import { normalEntry } from './normal-form.ts';
import { type MicroserviceFacts, microserviceRead, microserviceState, removedRead } from './read.ts';

interface Given {
  state?: string;
  live?: Partial<MicroserviceStatus>;
  liveness?: Liveness;
  entry?: Partial<MicroserviceEntry>;
  application?: Parameters<typeof makeApplication>[0];
  observed?: Partial<ObservedMicroservice>;
  noNode?: true;
}

function factsOf({ state, live, liveness = 'live', entry, application, observed, noNode }: Given): MicroserviceFacts {
  return {
    application: makeApplication({ spec: { id: 12 }, ...application }),
    entry: makeEntry(entry),
    ...(!noNode && { node: makeNode() }),
    liveness,
    ...((state || observed) && { observed: makeObserved({ ...(state && { state }), ...observed }) }),
    ...(live && { live: { id: 'x', status: 'RUNNING', ...live } }),
  };
}

const stopped = { spec: { isActivated: false } };

describe('microserviceState', () => {
  const CASES: Record<string, [Given, string]> = {
    'what the node says': [{ state: 'PULLING' }, 'PULLING'],
    'what it said last counts more than what is stored': [{ state: 'PULLING', live: { status: 'RUNNING' } }, 'RUNNING'],
    'queued until the node says anything': [{}, 'QUEUED'],
    'queued without a node': [{ noNode: true }, 'QUEUED'],
    'unknown on a silent node': [{ state: 'RUNNING', liveness: 'silent' }, 'UNKNOWN'],
    'queued on a silent node that never said anything of it': [{ liveness: 'silent' }, 'QUEUED'],
    'stopping as soon as it is stopped': [{ state: 'RUNNING', entry: { isActivated: false } }, 'STOPPING'],
    'stopping as soon as its application is': [{ state: 'RUNNING', application: stopped }, 'STOPPING'],
    'stopped once the node says so': [{ state: 'STOPPED', application: stopped }, 'STOPPED'],
    'stopped when it never ran': [{ application: stopped }, 'STOPPED'],
    'stopped, and nobody can tell': [{ state: 'UNKNOWN', application: stopped }, 'STOPPED'],
    'stopped before the node fell silent': [{ state: 'STOPPED', application: stopped, liveness: 'silent' }, 'STOPPED'],
    'nobody knows whether a silent node stopped it': [
      { state: 'RUNNING', application: stopped, liveness: 'silent' },
      'UNKNOWN',
    ],
    'deleting with its application': [{ state: 'RUNNING', application: { deletionTimestamp: NOW } }, 'DELETING'],
    'a crash loop stays one': [{ state: 'STUCK_IN_RESTART' }, 'STUCK_IN_RESTART'],
  };
  it.each(Object.entries(CASES))('%s', (_, [given, want]) => expect(microserviceState(factsOf(given))).toBe(want));
});

describe('microserviceRead', () => {
  it('shows to which address each extra host resolves now', () => {
    const extraHosts = [
      { name: 'db', address: '192.0.2.7' },
      { name: 'gw', address: '${Agents.gw-1}' },
      { name: 'lost', address: '${Agents.nowhere}' },
    ];
    const hosts = makeLookups({ nodes: [makeNode({ spec: { host: '10.0.0.1' } })] });
    const read = microserviceRead({ ...factsOf({ entry: { container: { extraHosts } } }), hosts });
    expect(read.extraHosts).toEqual([
      { ...extraHosts[0], value: '192.0.2.7' },
      { ...extraHosts[1], value: '10.0.0.1' },
      { ...extraHosts[2], value: '' },
    ]);
  });

  it('has every field of the documents', () => {
    const read = microserviceRead(factsOf({ live: {}, entry: { container: { memoryLimit: 5, cpus: 1 } } }));
    const FIELDS = `uuid name application applicationId flowId nodeUuid isActivated config annotations images registryId
      schedule ports volumeMappings env extraHosts commands entrypoint cdiDevices capAdd capDrop devices tmpfs sysctls
      ulimits healthCheck hostNetworkMode isPrivileged readOnlyRootFilesystem pidMode ipcMode cpuSetCpus runAsUser platform runtime logSize
      memoryLimit cpus busConfig busAccess serviceAccount rebuild delete deleteWithCleanup status execStatus`;
    const shown = CONTAINER_FIELD_NAMES.map(fieldRow).flatMap((row) => (row.shown === undefined ? [] : [row.flatName]));
    expect(Object.keys(read).sort()).toEqual([...new Set([...FIELDS.split(/\s+/), ...shown])].sort());
    expect(read).toMatchObject({
      applicationId: 12,
      flowId: 12,
      nodeUuid: NODE_UUID,
      registryId: 1,
      busConfig: { busAccess: false, busRule: null },
      busAccess: false,
      readOnlyRootFilesystem: false,
      logSize: 10,
      config: '{}',
      rebuild: false,
      delete: false,
      deleteWithCleanup: false,
      execStatus: { status: 'INACTIVE', execSessionId: '' },
    });
  });

  it('names the node by uuid when it exists, else as the entry does', () => {
    expect(microserviceRead(factsOf({}))).not.toHaveProperty('agentName');
    expect(microserviceRead(factsOf({ noNode: true }))).toMatchObject({ agentName: 'gw-1' });
  });

  it('gives volume mappings their ids', () => {
    const volumes = [
      {
        hostDestination: '/a',
        containerDestination: '/b',
        accessMode: 'ro' as const,
        type: 'bind' as const,
        scope: 'private' as const,
      },
    ];
    expect(microserviceRead(factsOf({ entry: { container: { volumes } } })).volumeMappings).toEqual([
      { id: volumeMappingId('/b'), ...volumes[0] },
    ]);
  });

  it('shows measurements only while it runs', () => {
    const live = { cpuUsage: 5, memoryUsage: 6, operatingDuration: 7, startTime: 8 };
    expect(microserviceRead(factsOf({ live })).status).toMatchObject(live);
    const zero = { cpuUsage: 0, memoryUsage: 0, operatingDuration: 0, startTime: 0 };
    expect(microserviceRead(factsOf({ live: { ...live, status: 'FAILED' } })).status).toMatchObject(zero);
    expect(microserviceRead(factsOf({ live, liveness: 'silent' })).status).toMatchObject(zero);
  });

  it('says for how long it runs, by our own clock', () => {
    const read = microserviceRead({ ...factsOf({ live: {}, observed: { startTime: 1000 } }), now: 61_000 });
    expect(read.status).toMatchObject({ operatingDuration: 60_000 });
  });

  it.each([
    [0, 0, false],
    [1, 0, true],
    [2, 1, true],
    [2, 2, false],
  ])('of %i ordered rebuilds %i were carried out: due %s', (ordered, done, due) => {
    const facts = factsOf({ observed: { rebuildOrder: done } });
    const { metadata } = facts.application;
    const annotations = { [ANNOTATIONS.rebuild]: JSON.stringify({ [facts.entry.name]: ordered }) };
    const application = { ...facts.application, metadata: { ...metadata, annotations } };
    expect(microserviceRead({ ...facts, application }).rebuild).toBe(due);
  });

  it('takes the start by our own clock', () => {
    const read = microserviceRead(factsOf({ live: { startTime: 8 }, observed: { startTime: 1000 } }));
    expect(read.status).toMatchObject({ startTime: 1000 });
  });

  it('keeps the last error, and says that there was none', () => {
    const none = microserviceRead(factsOf({})).status;
    expect(none).toMatchObject({ lastError: '', lastErrorAt: 0, restartCount: 0, errorMessage: '' });
    expect(none).not.toHaveProperty('podId');
    const read = microserviceRead(factsOf({ observed: { lastError: 'exit 1', lastErrorAt: 5, restartCount: 2 } }));
    expect(read.status).toMatchObject({ lastError: 'exit 1', lastErrorAt: 5, restartCount: 2 });
  });

  it('never shows the value behind a reference to a Secret', () => {
    const env = [{ key: 'P', valueFromSecret: 'db/p' }];
    expect(microserviceRead(factsOf({ entry: { container: { env } } })).env).toEqual(env);
  });

  it('can be sent back, to create and to change', () => {
    const entry = makeEntry({
      config: { a: 1 },
      schedule: 7,
      container: { commands: ['x'], volumes: [], healthCheck: { test: ['CMD', 'true'] } },
      busConfig: { busAccess: true },
    });
    const facts = { ...factsOf({}), entry };
    const read = JSON.parse(JSON.stringify(microserviceRead(facts)));
    const uuid = entryUuid(facts.application, entry);
    const want = { ...normalEntry(entry), agent: { uuid: NODE_UUID } };
    expect(normalEntry(patchEntry(entry, read, { application: 'plant-a', uuid }).entry)).toMatchObject(want);
    expect(normalEntry(entryFromFlat(read).entry)).toMatchObject({ ...want, uuid });
  });
});

describe('removedRead', () => {
  const read = (observed: Partial<ObservedMicroservice>, liveness: Liveness = 'live') =>
    removedRead({ application: makeApplication(), node: makeNode(), observed: makeObserved(observed), liveness });

  it('has delete: true and the name it had', () => {
    expect(read({})).toMatchObject({
      name: 'reader',
      application: 'plant-a',
      delete: true,
      deleteWithCleanup: false,
      rebuild: false,
      isActivated: false,
    });
  });
  it.each([
    ['is being deleted on a live node', {}, 'live', 'DELETING'],
    ['is deleted when it stopped', { state: 'STOPPED' }, 'live', 'DELETED'],
    ['is unknown on a silent node', {}, 'silent', 'UNKNOWN'],
  ] as const)('%s', (_, observed, liveness, want) => {
    expect(read(observed, liveness).status).toMatchObject({ status: want });
  });
  it('still shows the ports that it holds', () => {
    const ports = [{ internal: 1, external: 2, protocol: 'tcp' as const }];
    expect(read({ ports })).toMatchObject({ ports });
  });
});
