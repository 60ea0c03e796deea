import { describe, expect, it } from 'vitest';
import { makeBusLookups, makeLookups, NOW } from '../../../../../testing/inputs.ts';
import { CONTAINER_FIELD_NAMES, fieldRow } from '../../../../api/container/index.ts';
import { ANNOTATIONS } from '../../../../api/names.ts';
import type { MicroserviceEntry, ObservedMicroservice } from '../../../../api/v3/index.ts';
import type { Liveness } from '../../../../rules/inputs.ts';
import { entryUuid, volumeMappingId } from '../../../../rules/names.ts';
import { normalEntry } from '../../../../rules/normal-entry.ts';
import type { MicroserviceStatus } from '../../../../wire/agent.ts';
import { makeNode, NODE_UUID } from '../../../nodes/_make.ts';
import { makeApplication, makeEntry, observedReader } from '../../_make.ts';
import { entryFromFlat, patchEntry } from '../entry/flat.ts';
import { type MicroserviceFacts, microserviceRead, microserviceState, removedRead } from './microservice-read.ts';

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
    ...((state || observed) && { observed: observedReader({ ...(state && { state }), ...observed }) }),
    ...(live && { live: { id: 'x', status: 'RUNNING', ...live } }),
  };
}

const stopped = { spec: { isActivated: false } };

describe('microserviceState', () => {
  const CASES: Record<string, [Given, string]> = {
    'the state is what the node reported': [{ state: 'PULLING' }, 'PULLING'],
    'the latest report precedes the stored status': [{ state: 'PULLING', live: { status: 'RUNNING' } }, 'RUNNING'],
    'without a report it is QUEUED': [{}, 'QUEUED'],
    'without a node it is QUEUED': [{ noNode: true }, 'QUEUED'],
    'on a silent node it is UNKNOWN': [{ state: 'RUNNING', liveness: 'silent' }, 'UNKNOWN'],
    'on a silent node that never reported it, it is QUEUED': [{ liveness: 'silent' }, 'QUEUED'],
    'it is STOPPING as soon as its entry is deactivated': [
      { state: 'RUNNING', entry: { isActivated: false } },
      'STOPPING',
    ],
    'it is STOPPING as soon as its application is deactivated': [
      { state: 'RUNNING', application: stopped },
      'STOPPING',
    ],
    'it is STOPPED once the node reports that': [{ state: 'STOPPED', application: stopped }, 'STOPPED'],
    'it is STOPPED when it should not run and never did': [{ application: stopped }, 'STOPPED'],
    'it is STOPPED when it should not run and its state is unknown': [
      { state: 'UNKNOWN', application: stopped },
      'STOPPED',
    ],
    'it is STOPPED when it stopped as asked before its node fell silent': [
      { state: 'STOPPED', application: stopped, liveness: 'silent' },
      'STOPPED',
    ],
    'it is UNKNOWN when it should stop on a silent node': [
      { state: 'RUNNING', application: stopped, liveness: 'silent' },
      'UNKNOWN',
    ],
    'it is DELETING with its application': [{ state: 'RUNNING', application: { deletionTimestamp: NOW } }, 'DELETING'],
    'it is STUCK_IN_RESTART as reported': [{ state: 'STUCK_IN_RESTART' }, 'STUCK_IN_RESTART'],
  };
  it.each(Object.entries(CASES))('%s', (_, [given, want]) => expect(microserviceState(factsOf(given))).toBe(want));
});

describe('microserviceRead', () => {
  it('a read shows the address that each extra host resolves to', () => {
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

  it('a read has every field of the REST specification', () => {
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

  it('a read names the node by uuid when it exists, else as the entry does', () => {
    expect(microserviceRead(factsOf({}))).not.toHaveProperty('agentName');
    expect(microserviceRead(factsOf({ noNode: true }))).toMatchObject({ agentName: 'gw-1' });
  });

  it('volume mappings have ids', () => {
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

  it('measurements are shown only while the container runs', () => {
    const live = { cpuUsage: 5, memoryUsage: 6, operatingDuration: 7, startTime: 8 };
    expect(microserviceRead(factsOf({ live })).status).toMatchObject(live);
    const zero = { cpuUsage: 0, memoryUsage: 0, operatingDuration: 0, startTime: 0 };
    expect(microserviceRead(factsOf({ live: { ...live, status: 'FAILED' } })).status).toMatchObject(zero);
    expect(microserviceRead(factsOf({ live, liveness: 'silent' })).status).toMatchObject(zero);
  });

  it('operatingDuration is measured with the clock of the controller', () => {
    const read = microserviceRead({ ...factsOf({ live: {}, observed: { startTime: 1000 } }), now: 61_000 });
    expect(read.status).toMatchObject({ operatingDuration: 60_000 });
  });

  it.each([
    [0, 0, false],
    [1, 0, true],
    [2, 1, true],
    [2, 2, false],
  ])('with %i rebuilds requested and %i carried out, rebuild is %s', (requested, done, due) => {
    const facts = factsOf({ observed: { rebuildCount: done } });
    const { metadata } = facts.application;
    const annotations = { [ANNOTATIONS.rebuild]: JSON.stringify({ [facts.entry.name]: requested }) };
    const application = { ...facts.application, metadata: { ...metadata, annotations } };
    expect(microserviceRead({ ...facts, application }).rebuild).toBe(due);
  });

  it('startTime is that of the status, which has the clock of the controller', () => {
    const read = microserviceRead(factsOf({ live: { startTime: 8 }, observed: { startTime: 1000 } }));
    expect(read.status).toMatchObject({ startTime: 1000 });
  });

  it('a read has the last error, or empty values', () => {
    const none = microserviceRead(factsOf({})).status;
    expect(none).toMatchObject({ lastError: '', lastErrorAt: 0, restartCount: 0, errorMessage: '' });
    expect(none).not.toHaveProperty('podId');
    const read = microserviceRead(factsOf({ observed: { lastError: 'exit 1', lastErrorAt: 5, restartCount: 2 } }));
    expect(read.status).toMatchObject({ lastError: 'exit 1', lastErrorAt: 5, restartCount: 2 });
  });

  it.each<[string, Parameters<typeof factsOf>[0], string]>([
    [
      'fails',
      { observed: { healthStatus: 'unhealthy', healthMessage: 'exit code 2: no' } },
      'health check: exit code 2: no',
    ],
    [
      'fails, in a report',
      { live: { healthStatus: 'unhealthy', healthMessage: 'a\u001bb' } },
      'health check: a\\u001bb',
    ],
    ['succeeds', { live: { healthStatus: 'healthy', healthMessage: 'old' } }, ''],
    [
      'fails beside another error',
      { observed: { healthStatus: 'unhealthy', healthMessage: 'no', errorMessage: 'pull failed' } },
      'pull failed',
    ],
  ])(
    'a read of a microservice whose health check %s has it in errorMessage where nothing else is',
    (_, given, errorMessage) => {
      expect(microserviceRead(factsOf({ state: 'RUNNING', ...given })).status).toMatchObject({ errorMessage });
    },
  );

  it('a read has the value of a reference where its reader may see it, and is accepted as a body all the same', () => {
    const env = [
      { key: 'P', valueFromSecret: 'db/p' },
      { key: 'S', valueFromConfigMap: 'site/a' },
      { key: 'V', value: 'v' },
    ];
    const facts = factsOf({ entry: { container: { env } } });
    expect(microserviceRead(facts).env).toEqual(env);
    const seen = microserviceRead({
      ...facts,
      referredValue: ({ valueFromConfigMap }) => (valueFromConfigMap ? 'yard' : undefined),
    });
    expect(seen.env).toEqual([env[0], { ...env[1], value: 'yard' }, env[2]]);
    expect(patchEntry(facts.entry, { env: seen.env }).entry.container?.env).toEqual(env);
  });

  it('a read is accepted as the body of a POST and of a PATCH', () => {
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
    removedRead({ application: makeApplication(), node: makeNode(), observed: observedReader(observed), liveness });

  it('the read of a removed microservice has delete: true and its former name', () => {
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
  it('the read of a removed microservice has the ports that it still uses', () => {
    const ports = [{ internal: 1, external: 2, protocol: 'tcp' as const }];
    expect(read({ ports })).toMatchObject({ ports });
  });
});

describe('the read of a microservice with access to the message bus', () => {
  const access = { busConfig: { busAccess: true } };
  const entry = { ...access, container: { env: [{ key: 'MODE', value: 'fast' }] } };
  const facts = { ...factsOf({ entry, application: { spec: access } }), bus: makeBusLookups() };
  const read = microserviceRead(facts);

  it('shows what its container has of the bus beside what the entry has', () => {
    expect(read.env).toEqual([
      { key: 'MODE', value: 'fast' },
      { key: 'BUS_CREDS_PATH', value: '/etc/bus/creds/plant-a/reader.creds' },
      { key: 'BUS_SERVER_URL', value: 'nats://bus.default.svc.bridge.local:4222' },
    ]);
    expect(read.volumeMappings).toMatchObject([
      {
        id: volumeMappingId('/etc/bus/creds'),
        type: 'volumeMount',
        hostDestination: 'bus-creds-plant-a-reader',
        containerDestination: '/etc/bus/creds',
        accessMode: 'ro',
      },
    ]);
  });

  it('is accepted as a body, and stores nothing of it', () => {
    const { env, volumes } = patchEntry(facts.entry, read).entry.container ?? {};
    expect({ env, volumes }).toEqual({ env: entry.container.env, volumes: undefined });
  });

  it('shows nothing of it while the bus is off', () => {
    const { env, volumeMappings } = microserviceRead(factsOf({ entry, application: { spec: access } }));
    expect({ env, volumeMappings }).toEqual({ env: entry.container.env, volumeMappings: [] });
  });
});
