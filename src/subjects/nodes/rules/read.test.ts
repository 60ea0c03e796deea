import { describe, expect, it, test } from 'vitest';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { EdgeNode, EdgeNodeSpec } from '../../../api/v3/index.ts';
import type { DomainError } from '../../../rules/errors.ts';
import type { Observation } from '../../../rules/inputs.ts';
import { at, MINUTE, makeItem, makeNode, makeObservation, T0 } from '../_make.ts';
import { type LiveNode, matches, type NodeFilter, nodeRead, readFilters } from './read.ts';

const live = (observation?: Partial<Observation>): LiveNode => ({
  liveness: 'live',
  ...(observation && { observation: makeObservation(observation) }),
});
const never: LiveNode = { liveness: 'never' };
const readOf = (node: EdgeNode, of: LiveNode, options: { platformStatus?: boolean } = {}) =>
  nodeRead(node, of, { isBusOn: false, ...options });

/** Node read fields (docs/spec/rest-v3.md#node-read), by type. */
const FIELDS = {
  number: `lastActive daemonOperatingDuration daemonLastStart repositoryCount systemTime lastStatusTime lastCommandTime
    logFileCount latitude longitude memoryUsage diskUsage cpuUsage systemAvailableDisk systemAvailableMemory
    systemTotalCpu systemCpus systemTotalMemory systemTotalDisk diskLimit memoryLimit cpuLimit logLimit statusFrequency
    changeFrequency pruningFrequency availableDiskThreshold routerId createAt updatedAt archId messagingPort
    busServerPort busLeafPort busClusterPort busMqttPort busHttpPort activeModels modelLastUpdate activeKnowledge
    knowledgeLastUpdate activeVolumeMounts volumeMountLastUpdate`,
  string: `uuid name location gpsMode description daemonStatus systemOs systemOsVersion systemKernelVersion
    catalogItemStatus repositoryStatus ipAddress ipAddressExternal networkInterface containerEngineUrl containerEngine
    deploymentType diskDirectory logDirectory version tunnel logLevel runtimeClasses availableCdiDevices modelStatus
    knowledgeStatus jsStorageSize jsMemoryStoreSize routerMode busMode host warningMessage securityStatus
    securityViolationInfo gpsStatus gpsDevice timeZone tunnelStatus`,
  boolean: `memoryViolation diskViolation cpuViolation isReadyToUpgrade isReadyToRollback watchdogEnabled isSystem`,
  array: 'availableRuntimes upstreamRouters upstreamBusServers tags volumeMounts',
  object: 'arch platformStatus',
};

describe('the read of a node', () => {
  it.each(Object.entries(FIELDS))(
    'has all documented fields of type %s, even of a node without an agent',
    (type, names) => {
      const read = readOf(makeNode(), never);
      const typeOf = (value: unknown) => (Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value);
      const wrong = names.split(/\s+/).filter((name) => typeOf(read[name]) !== type);
      expect(wrong).toEqual([]);
    },
  );

  test.each<[string, EdgeNodeSpec, Record<string, unknown>, string, unknown]>([
    ['an unset setting is the documented default', {}, {}, 'diskLimit', 50],
    ['the setting of the machine precedes the default', {}, { diskLimit: 20 }, 'diskLimit', 20],
    ['the setting of the spec precedes all others', { diskLimit: 10 }, { diskLimit: 20 }, 'diskLimit', 10],
    ['a zero of the spec is a value', { pruningFrequency: 0 }, { pruningFrequency: 5 }, 'pruningFrequency', 0],
    ['a false of the machine is a value', {}, { watchdogEnabled: false }, 'watchdogEnabled', false],
    ['an engine is shown by its own name', { containerEngine: 'engine_b' }, {}, 'containerEngine', 'podman'],
  ])('of settings: %s', (_, spec, config, field, want) => {
    expect(readOf(makeNode({ spec, status: { config } }), never)[field]).toBe(want);
  });

  it('shows architecture and engine of a provisioning at once, and until the first report', () => {
    const provisioned = { archId: 2, containerEngine: 'podman' };
    const shown = { archId: 2, containerEngine: 'podman' };
    expect(readOf(makeNode(), { ...never, provisioned })).toMatchObject(shown);
    expect(readOf(makeNode({ status: shown }), never)).toMatchObject(shown);
    const config = { containerEngine: 'docker' };
    expect(readOf(makeNode({ status: { config } }), { ...never, provisioned }).containerEngine).toBe('docker');
  });

  test.each(
    Object.entries({
      containerEngine: 'docker',
      deploymentType: 'native',
      diskLimit: 50,
      memoryLimit: 4096,
      cpuLimit: 80,
      logLimit: 10,
      logFileCount: 10,
      statusFrequency: 10,
      changeFrequency: 20,
      watchdogEnabled: true,
      logLevel: 'info',
      routerMode: 'edge',
      messagingPort: 5671,
      busServerPort: 4222,
      busClusterPort: 6222,
      busLeafPort: 7422,
      busMqttPort: 8883,
      busHttpPort: 8222,
      jsStorageSize: '10g',
      jsMemoryStoreSize: '1g',
    }),
  )('the documented default of %s is %j', (field, want) => {
    expect(readOf(makeNode(), never)[field]).toBe(want);
  });

  test.each<[EdgeNodeSpec['routerMode'], string[], string[]]>([
    ['interior', ['interRouterPort', 'edgeRouterPort'], ['networkRouter']],
    ['edge', [], ['interRouterPort', 'edgeRouterPort', 'networkRouter']],
    ['none', ['networkRouter'], ['interRouterPort', 'edgeRouterPort']],
  ])('of router mode %s shows the settings of that mode only', (routerMode, shown, hidden) => {
    const read = readOf(makeNode({ spec: { routerMode } }), never);
    expect(shown.filter((field) => field in read)).toEqual(shown);
    expect(hidden.filter((field) => field in read)).toEqual([]);
  });

  it('shows measurements and times of the report', () => {
    const report = {
      memoryUsage: 1,
      cpuUsage: 2,
      diskUsage: 3,
      systemAvailableMemory: 4,
      systemAvailableDisk: 5,
      systemTotalCpu: 6,
      daemonOperatingDuration: 7,
      systemTime: 8,
      memoryViolation: true,
      repositoryCount: 9,
    };
    const read = readOf(makeNode(), live({ report, contactAt: T0 + MINUTE }));
    expect(read).toMatchObject({ ...report, lastActive: T0 + MINUTE, lastStatusTime: T0 });
  });

  it('shows the stored values of the machine while this replica has no observation', () => {
    const status = {
      lastSeenTime: at(T0),
      version: '0.1.0',
      ipAddress: '10.0.0.7',
      systemOs: 'linux',
      systemCpus: 4,
      availableRuntimes: ['runc'],
      isReadyToUpgrade: true,
      daemonStatus: 'RUNNING',
    };
    const { lastSeenTime, ...shown } = status;
    expect(readOf(makeNode({ status }), live())).toMatchObject({ ...shown, lastActive: T0 });
  });

  it('shows lists as JSON text where the specification demands it', () => {
    const read = readOf(
      makeNode(),
      live({ report: { availableCdiDevices: ['a/b=0'], repositoryStatus: [{ id: 1 }] } }),
    );
    expect(read).toMatchObject({
      availableCdiDevices: '["a/b=0"]',
      repositoryStatus: '[{"id":1}]',
      runtimeClasses: '[]',
      modelStatus: '[]',
      knowledgeStatus: '[]',
    });
  });

  test.each([
    ['a live node has its reported state', 'live', 'RUNNING'],
    ['a silent node is UNKNOWN before the leader has written it', 'silent', 'UNKNOWN'],
    ['a node without an agent is NOT_PROVISIONED', 'never', 'NOT_PROVISIONED'],
  ] as const)('daemonStatus: %s', (_, liveness, want) => {
    const observation = liveness === 'never' ? undefined : makeObservation();
    expect(readOf(makeNode(), { liveness, observation }).daemonStatus).toBe(want);
  });

  test.each([
    ['is the reported one, which precedes that of the spec', { archId: 1 }, 2, { id: 2, name: 'arm64' }],
    ['is that of the spec until one is reported', { archId: 1 }, undefined, { id: 1, name: 'amd64' }],
    ['is auto when neither is known', {}, undefined, { id: 0, name: 'auto' }],
  ])('the architecture %s', (_, spec, archId, arch) => {
    expect(readOf(makeNode({ spec: { archId: undefined, ...spec }, status: { archId } }), never)).toMatchObject({
      archId: arch.id,
      arch,
    });
  });

  test.each([
    ['is that of the spec', { host: 'gw.example' }, '10.0.0.7', 'gw.example'],
    ['is the address of the machine when the spec has none', {}, '10.0.0.7', '10.0.0.7'],
    ['is empty when the agent reports the address 0.0.0.0', {}, '0.0.0.0', ''],
  ])('the host %s', (_, spec, ipAddress, want) => {
    expect(readOf(makeNode({ spec, status: { ipAddress } }), never).host).toBe(want);
  });

  it('has the name and the uuid of the v3 API', () => {
    const node = makeNode({ spec: { name: 'Gate 1', uuid: 'u' } });
    expect(readOf(node, never)).toMatchObject({ name: 'Gate 1', uuid: 'u' });
    expect(readOf(makeNode({ uuid: 'node-uid' }), never)).toMatchObject({ name: 'gw-1', uuid: 'node-uid' });
  });

  it('lists the microservices of the report, as text', () => {
    const read = readOf(makeNode(), live({ report: { microserviceStatus: [makeItem()] } }));
    expect(JSON.parse(String(read.microserviceStatus))).toEqual([makeItem()]);
  });
});

describe('platformStatus of a read', () => {
  const done = { phase: 'Ready', generation: 1, observedGeneration: 1, lastTransitionAt: at(T0) } as const;
  const phaseOf = (overrides: Parameters<typeof makeNode>[0]) =>
    (readOf(makeNode(overrides), never).platformStatus as { phase: string }).phase;
  test.each<[string, Parameters<typeof makeNode>[0], string]>([
    ['is Pending when the node was not reconciled yet', {}, 'Pending'],
    ['is Ready when the generation was reconciled', { status: { platformStatus: done } }, 'Ready'],
    [
      'is Pending when the spec changed after the last reconcile',
      { status: { platformStatus: done }, generation: 2 },
      'Pending',
    ],
    [
      'is Pending when a reconcile was requested after the last one',
      { status: { platformStatus: done }, annotations: { [ANNOTATIONS.reconcile]: '1' } },
      'Pending',
    ],
    ['is Failed as stored', { status: { platformStatus: { ...done, phase: 'Failed' } } }, 'Failed'],
    [
      'is Deleting when the node is in deletion',
      { status: { platformStatus: done }, deletionTimestamp: at(T0) },
      'Deleting',
    ],
  ])('%s', (_, overrides, want) => {
    expect(phaseOf(overrides)).toBe(want);
  });

  it('has the error of a failed phase, and null otherwise', () => {
    const failed = { ...done, phase: 'Failed', lastError: 'why' } as const;
    const lastError = (platformStatus: typeof failed | typeof done) =>
      readOf(makeNode({ status: { platformStatus } }), never).platformStatus;
    expect(lastError(failed)).toMatchObject({ lastError: 'why' });
    expect(lastError(done)).toMatchObject({ lastError: null, generation: 1, observedGeneration: 1 });
  });

  it('is a warning of the node while it is Failed, unless its agent has one', () => {
    const failed = { ...done, phase: 'Failed', lastError: 'x'.repeat(300) } as const;
    const warning = (status: object) => readOf(makeNode({ status }), never).warningMessage;
    expect(warning({ platformStatus: failed })).toBe(`Platform reconcile: ${'x'.repeat(180)}`);
    expect(warning({ platformStatus: failed, warningMessage: 'the disk is full' })).toBe('the disk is full');
    expect(warning({ platformStatus: done })).toBe('HEALTHY');
  });

  it('is left out of lists', () => {
    expect(readOf(makeNode(), never, { platformStatus: false })).not.toHaveProperty('platformStatus');
  });
});

describe('filters', () => {
  test.each<[string, unknown, NodeFilter[]]>([
    ['an absent value is an empty list', undefined, []],
    [
      'a list is kept as it is',
      [{ key: 'name', value: 'gw', condition: 'has' }],
      [{ key: 'name', value: 'gw', condition: 'has' }],
    ],
    [
      'the default condition is equals',
      [{ key: 'name', value: 'gw' }],
      [{ key: 'name', value: 'gw', condition: 'equals' }],
    ],
    ['values become text', [{ key: 'archId', value: 1 }], [{ key: 'archId', value: '1', condition: 'equals' }]],
  ])('%s', (_, value, want) => {
    expect(readFilters(value)).toEqual(want);
  });

  test.each([
    ['a value that is not a list', { key: 'name' }, 'filters'],
    ['an item that is not a filter', ['name'], 'filters[0]'],
    ['more than 32 filters', Array(33).fill({ key: 'name', value: 'x' }), 'filters'],
    ['a filter without a key', [{ value: 'x' }], 'filters[0].key'],
    ['a filter without a value', [{ key: 'name' }], 'filters[0].value'],
    ['an unknown condition', [{ key: 'name', value: 'x', condition: 'like' }], 'filters[0].condition'],
  ])('refuses %s and names its path', (_, value, field) => {
    expect(() => readFilters(value)).toThrow(expect.objectContaining({ status: 400, field }) as DomainError);
  });

  const read = { name: 'gw-1', archId: 1, isSystem: false, location: '', tags: ['a', 'b'] };
  test.each<[string, NodeFilter[], boolean]>([
    ['an empty list matches', [], true],
    ['an equal value matches', [{ key: 'name', value: 'gw-1', condition: 'equals' }], true],
    ['a part of the value does not match equals', [{ key: 'name', value: 'gw', condition: 'equals' }], false],
    ['a part of the value matches has', [{ key: 'name', value: 'w-', condition: 'has' }], true],
    ['a number matches by its text', [{ key: 'archId', value: '1', condition: 'equals' }], true],
    ['a list matches by its text', [{ key: 'tags', value: '"b"', condition: 'has' }], true],
    ['an empty field never matches', [{ key: 'location', value: '', condition: 'equals' }], false],
    ['false never matches', [{ key: 'isSystem', value: 'false', condition: 'equals' }], false],
    ['an unknown field never matches', [{ key: 'toString', value: 'o', condition: 'has' }], false],
    [
      'filters of which one does not match do not match',
      [
        { key: 'name', value: 'gw-1', condition: 'equals' },
        { key: 'archId', value: '2', condition: 'equals' },
      ],
      false,
    ],
  ])('%s', (_, filters, want) => {
    expect(matches(read, filters)).toBe(want);
  });
});
