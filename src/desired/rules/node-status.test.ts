import { describe, expect, it, test } from 'vitest';
import type { Condition } from '../../api/meta.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { type EdgeNode, type EdgeNodeSpec, type EdgeNodeStatus, edgeNodeStatusSchema } from '../../api/v3/index.ts';
import type { PartState } from '../../rules/part.ts';
import type { Verdict } from '../../rules/verdict.ts';
import {
  at,
  MINUTE,
  makeDesired,
  makeItem,
  makeNode,
  makeObservation,
  makeObserved,
  SECOND,
  T0,
} from '../../subjects/nodes/_make.ts';
import { notReadyToUpgrade } from '../../subjects/nodes/rules/update.ts';
import type { StatusReport } from '../../wire/agent.ts';
import { type NodeStatusInputs, nodeStatus } from './node-status.ts';

const LONG_AGO = T0 - 60 * MINUTE;

interface Given extends Partial<Omit<NodeStatusInputs, 'node'>> {
  spec?: EdgeNodeSpec;
  status?: Partial<EdgeNodeStatus>;
  metadata?: Partial<EdgeNode['metadata']>;
  report?: StatusReport;
}

const makeInputs = ({ spec, status, metadata, report, ...rest }: Given): NodeStatusInputs => ({
  node: makeNode({ spec, status, ...metadata }),
  ...(report && { observation: makeObservation({ report }) }),
  now: T0 + SECOND,
  listeningSince: LONG_AGO,
  ...rest,
});
const statusOf = (given: Given) => nodeStatus(makeInputs(given));
const find = ({ conditions = [] }: { conditions?: Condition[] }, type: string) =>
  conditions.find((condition) => condition.type === type);

/** What was stored once a status was computed. */
const withStored = (given: Given, status: EdgeNodeStatus): Given => ({ ...given, status });

const taken: Verdict = {
  reason: 'NameTaken',
  message: 'the name gw-1 belongs to gw-0',
  status: 409,
  code: 'DUPLICATE_NAME',
};
const unreachable: Verdict = {
  reason: 'NodeNotFound',
  message: 'upstreamRouters: there is no node "core"',
  status: 404,
  code: 'INVALID_ROUTER',
};
const twice = { one: { seenAt: T0 }, two: { seenAt: T0 - 10 * SECOND } };
const seen = { lastSeenTime: at(T0 - MINUTE), daemonStatus: 'RUNNING' };
const deleting = { deletionTimestamp: at(T0) };

describe('conditions', () => {
  test.each<[sentence: string, given: Given, readyReconcilingStalledReason: string]>([
    ['a node without an agent', {}, 'False False False NotProvisioned'],
    ['an agent that runs', { report: { daemonStatus: 'RUNNING' } }, 'True False False AgentRunning'],
    ['an agent that runs with a warning', { report: { daemonStatus: 'WARNING' } }, 'True False False AgentWarning'],
    ['an agent that is starting', { report: { daemonStatus: 'STARTING' } }, 'False True False AgentStarting'],
    [
      'an agent that is live but not running',
      { report: { daemonStatus: 'STOPPED' } },
      'False False False AgentNotRunning',
    ],
    [
      'an agent with contact but without a report',
      { observation: makeObservation({ report: {} }) },
      'True False False AgentRunning',
    ],
    [
      'an agent that runs and cannot use its engine',
      { report: { daemonStatus: 'WARNING', engineError: 'the engine does not answer' } },
      'False False False EngineUnavailable',
    ],
    [
      'an agent that runs and can use its engine again',
      { report: { daemonStatus: 'RUNNING', engineError: '' } },
      'True False False AgentRunning',
    ],
    ['silent', { status: seen }, 'Unknown False False NodeUnreachable'],
    [
      'an agent that gave up the identity',
      { report: { daemonStatus: 'DEPROVISIONED' } },
      'False False False Deprovisioned',
    ],
    ['a node in deletion', { metadata: deleting, report: { daemonStatus: 'RUNNING' } }, 'False True False Deleting'],
    [
      'the younger of two nodes with one name',
      { identity: taken, report: { daemonStatus: 'RUNNING' } },
      'False False True NameTaken',
    ],
    ['two agent instances', { observation: makeObservation({ instances: twice }) }, 'False False True DuplicateAgent'],
  ])('%s', (_, given, expected) => {
    const { conditions = [] } = statusOf(given);
    expect(conditions.slice(0, 3).map(({ type }) => type)).toEqual(['Ready', 'Reconciling', 'Stalled']);
    expect([...conditions.slice(0, 3).map(({ status }) => status), conditions[0]?.reason].join(' ')).toBe(expected);
  });

  it('do not contain the time of the last contact, so that the message stays the same while a node is silent', () => {
    const first = find(statusOf({ status: seen }), 'Ready');
    const later = find(
      statusOf({ status: { ...seen, lastSeenTime: at(T0 - 30 * MINUTE) }, now: T0 + MINUTE }),
      'Ready',
    );
    expect(first?.message).toBe('nothing was heard of the node for more than 30 s');
    expect(later?.message).toBe(first?.message);
  });

  it('name an agent that polls and whose reports are missing, in one write', () => {
    const observation = makeObservation({ reportedAt: T0 - 150 * SECOND });
    const status = statusOf({ observation });
    expect(find(status, 'Ready')).toMatchObject({
      status: 'Unknown',
      reason: 'NodeUnreachable',
      message: 'the agent asks for changes, but no report of it arrived for more than 150 s',
    });
    const later = makeObservation({ reportedAt: T0 - 150 * SECOND, contactAt: T0 + MINUTE });
    expect(statusOf({ ...withStored({}, status), observation: later, now: T0 + MINUTE })).toEqual(status);
  });

  it('contain the warning of the agent', () => {
    const status = statusOf({ report: { daemonStatus: 'WARNING', warningMessage: 'disk is full' } });
    expect(find(status, 'Ready')?.message).toBe('the agent runs, with a warning: disk is full');
  });

  it('keep the engine problem after a change of the leader, until the node reports', () => {
    const report = { daemonStatus: 'WARNING' as const, engineError: 'the engine does not answer' };
    const before = statusOf({ report });
    const after = { ...withStored({}, before), observation: makeObservation({ report: {}, reportedAt: undefined }) };
    expect(find(statusOf(after), 'Ready')).toEqual(find(before, 'Ready'));
    const observation = makeObservation({ report: { daemonStatus: 'RUNNING', engineError: '' } });
    expect(find(statusOf({ ...after, observation: observation }), 'Ready')?.reason).toBe('AgentRunning');
  });

  describe('DuplicateAgent', () => {
    const instances = (other: number) => ({ one: { seenAt: T0 }, two: { seenAt: other } });
    test.each<[string, number, number | undefined, boolean]>([
      ['two instances within one limit', T0 - 28 * SECOND, undefined, true],
      ['an instance without contact for a limit does not count', T0 - 30 * SECOND, undefined, false],
      ['an instance from before the last provisioning does not count', T0 - 10 * SECOND, T0 - 5 * SECOND, false],
    ])('%s', (_, other, provisionedAt, want) => {
      const status = statusOf({
        observation: makeObservation({ instances: instances(other) }),
        ...(provisionedAt && { provisioned: { archId: 1, provisionedAt } }),
      });
      expect(find(status, 'DuplicateAgent') !== undefined).toBe(want);
    });

    it('names the instances, sorted', () => {
      const message = find(statusOf({ observation: makeObservation({ instances: twice }) }), 'DuplicateAgent')?.message;
      expect(message).toContain('one, two');
    });
  });

  describe('SettingsRefused', () => {
    test.each<[string, Given, string | undefined]>([
      ['is absent when the machine refuses nothing', { report: { refusedSettings: [] } }, undefined],
      [
        'names the settings that the machine refuses, sorted',
        {
          report: {
            refusedSettings: [
              { field: 'timeZone', reason: 'unknown' },
              { field: 'cpuLimit', reason: 'too low' },
            ],
          },
        },
        'cpuLimit: too low; timeZone: unknown',
      ],
      [
        'names settings that are never taken from the controller when they differ',
        { spec: { containerEngine: 'podman' }, report: { config: { containerEngine: 'docker' } } },
        'containerEngine: asked for podman; the machine decides, and has docker',
      ],
      [
        'does not name settings that are equal in another spelling',
        { spec: { containerEngine: 'engine_a' }, report: { config: { containerEngine: 'docker' } } },
        undefined,
      ],
      [
        'names an architecture that is not the one of the machine',
        { spec: { archId: 2 }, status: { ...seen, archId: 1 } },
        'archId: asked for 2 (arm64); the machine is of 1 (amd64)',
      ],
      ['does not name an architecture that the machine has', { spec: { archId: 1 }, status: { archId: 1 } }, undefined],
      ['does not name an architecture that is not known yet', { spec: { archId: 2 } }, undefined],
      [
        'does not name the architecture 0, which asks for none',
        { spec: { archId: 0 }, status: { archId: 1 } },
        undefined,
      ],
      [
        'names routers that the node cannot connect to',
        { upstreams: [unreachable], report: { refusedSettings: [{ field: 'cpuLimit', reason: 'too low' }] } },
        `cpuLimit: too low; ${unreachable.message}`,
      ],
      [
        'leaves out settings without effect, which have a condition of their own',
        {
          spec: { deploymentType: 'container' },
          report: { refusedSettings: [{ field: 'deploymentType', reason: 'this agent does not support it yet' }] },
        },
        undefined,
      ],
    ])('%s', (_, given, want) => {
      expect(find(statusOf(given), 'SettingsRefused')?.message).toBe(want);
    });
  });

  describe('NotSupportedYet', () => {
    test.each<[string, EdgeNodeSpec, string | undefined]>([
      ['is absent when the spec has no such setting', {}, undefined],
      [
        'is absent for settings that turn a feature off',
        { routerMode: 'none', busMode: 'none', upstreamRouters: [] },
        undefined,
      ],
      ['names settings of the router and the bus', { routerMode: 'edge', busMode: 'leaf' }, 'busMode, routerMode'],
      [
        'names ports and sizes of the router and the bus',
        { messagingPort: 5671, jsStorageSize: '1g' },
        'jsStorageSize, messagingPort',
      ],
      ['is absent for coordinates and for gpsMode off', { gpsMode: 'off', latitude: 1, longitude: 2 }, undefined],
      ['names an installation that there is not', { deploymentType: 'container' }, 'deploymentType'],
    ])('%s', (_, spec, fields) => {
      const condition = find(statusOf({ spec, report: { daemonStatus: 'RUNNING' } }), 'NotSupportedYet');
      expect(condition?.message).toBe(fields && `stored, but without effect yet: ${fields}`);
    });

    it('changes neither Ready nor platformStatus', () => {
      const status = statusOf({ spec: { routerMode: 'edge' }, report: { daemonStatus: 'RUNNING' } });
      expect(find(status, 'Ready')?.status).toBe('True');
      expect(status.platformStatus?.phase).toBe('Ready');
    });
  });
});

describe('the reported state', () => {
  const report: StatusReport = {
    daemonStatus: 'RUNNING',
    version: '0.1.0',
    ipAddress: '10.0.0.7',
    ipAddressExternal: '192.0.2.7',
    warningMessage: 'HEALTHY',
    systemOs: 'linux',
    systemOsVersion: 'Debian',
    systemKernelVersion: '6.1',
    systemCpus: 4,
    systemTotalMemory: 1e9,
    systemTotalDisk: 2e9,
    availableRuntimes: ['runc', 'crun'],
    availableCdiDevices: ['b', 'a'],
    isReadyToUpgrade: true,
    isReadyToRollback: false,
    config: { statusFrequency: 20, containerEngine: 'podman' },
    refusedSettings: [{ field: 'cpuLimit', reason: 'too low' }],
  };

  it('is stored', () => {
    expect(statusOf({ report })).toMatchObject({
      ...report,
      containerEngine: 'podman',
      availableRuntimes: ['crun', 'runc'],
      availableCdiDevices: ['a', 'b'],
    });
  });

  it('stays while a later report leaves it out', () => {
    const status = statusOf({ report });
    expect(statusOf(withStored({ report: { version: '0.2.0' } }, status))).toMatchObject({
      systemOs: 'linux',
      config: { statusFrequency: 20 },
      version: '0.2.0',
    });
  });

  it('is cut so that the API server never refuses the status', () => {
    const long = 'x'.repeat(5000);
    const status = statusOf({
      observation: makeObservation({
        agent: long,
        instances: { [long]: { seenAt: T0 } },
        report: {
          version: long,
          ipAddress: long,
          warningMessage: `\ud800${long}`,
          systemOs: long,
          systemCpus: 1.5,
          systemTotalDisk: -1,
          availableRuntimes: Array.from({ length: 100 }, () => long),
          config: { logLevel: long, logFileCount: 1e300 },
          refusedSettings: Array.from({ length: 40 }, (_, index) => ({ field: `f${index}`, reason: long })),
          microserviceStatus: Array.from({ length: 600 }, (_, index) =>
            makeItem({
              id: `${index}-${'x'.repeat(50)}`,
              errorMessage: long,
              imageId: long,
              restartCount: -1,
              ports: Array.from({ length: 70 }, () => ({ internal: 1, external: 1, protocol: 'tcp' as const })),
            }),
          ),
        },
      }),
      identity: { ...taken, message: long },
    });
    const read = edgeNodeStatusSchema.safeParse(status);
    expect(read.error?.issues ?? []).toEqual([]);
    expect(status.microservices).toHaveLength(500);
  });

  it('is completed by the provisioning record: architecture, engine and time', () => {
    const provisioned = { archId: 2, containerEngine: 'docker', provisionedAt: T0 };
    expect(statusOf({ provisioned, report: {} })).toMatchObject({
      archId: 2,
      containerEngine: 'docker',
      provisionedTime: at(T0),
    });
    expect(statusOf({ provisioned, report })).toMatchObject({ containerEngine: 'podman' });
  });

  it('has the version of our own agents', () => {
    expect(statusOf({ observation: makeObservation({ agent: '0.1.0' }) }).agent).toBe('0.1.0');
    expect(statusOf({ report })).not.toHaveProperty('agent');
  });

  it('names the agent instance of the last request', () => {
    expect(statusOf({ observation: makeObservation({ instances: twice }) }).instance).toBe('one');
  });
});

describe('microservices', () => {
  const given = {
    report: { microserviceStatus: [makeItem(), makeItem({ id: 'ms-2', status: 'STARTING' })] },
    desired: makeDesired({}, { uuid: 'ms-2', name: 'writer' }),
  };

  it('are counted as running and in total', () => {
    expect(statusOf(given).microserviceCount).toBe('1/2');
  });

  it('of a silent node do not count as running', () => {
    const status = { ...seen, microservices: [makeObserved({ revision: 'r1' })] };
    expect(statusOf({ status, desired: makeDesired({}) })).toMatchObject({
      microserviceCount: '0/1',
      microservices: [{ state: 'UNKNOWN', revision: 'r1' }],
    });
  });
});

describe('stability', () => {
  const given: Given = {
    observation: makeObservation({
      agent: '0.1.0',
      instances: { one: { seenAt: T0 } },
      report: { daemonStatus: 'RUNNING', microserviceStatus: [makeItem({ revision: 'r1' })], actions: { reboot: 1 } },
    }),
    desired: makeDesired({}),
    spec: { routerMode: 'edge' },
  };
  const stored = statusOf(given);

  it('the status equals the stored one when nothing changed', () => {
    expect(statusOf({ ...withStored(given, stored), now: T0 + 20 * SECOND })).toEqual(stored);
  });

  it('measurements do not change the status', () => {
    const report: StatusReport = {
      ...given.observation?.report,
      cpuUsage: 5,
      memoryUsage: 6,
      systemAvailableDisk: 7,
      daemonOperatingDuration: 8,
      lastCommandTime: 9,
    };
    expect(
      statusOf({ ...withStored(given, stored), observation: makeObservation({ ...given.observation, report }) }),
    ).toEqual(stored);
  });

  test.each([
    ['is kept for five minutes', 5 * MINUTE - SECOND, false],
    ['is refreshed after five minutes', 5 * MINUTE, true],
  ])('the time of the last sign of life %s', (_, later, want) => {
    const observation = makeObservation({ ...given.observation, contactAt: T0 + later, reportedAt: T0 + later });
    const { lastSeenTime } = statusOf({ ...withStored(given, stored), observation, now: T0 + later });
    expect(lastSeenTime).toBe(at(want ? T0 + later : T0));
  });

  it('a node that turns silent stores the exact time of its last sign of life', () => {
    const observation = makeObservation({ ...given.observation, contactAt: T0 + MINUTE });
    const silent = statusOf({ ...withStored(given, stored), observation, now: T0 + 10 * MINUTE });
    expect(silent).toMatchObject({ daemonStatus: 'UNKNOWN', lastSeenTime: at(T0 + MINUTE) });
    expect(statusOf({ ...withStored(given, silent), observation, now: T0 + 20 * MINUTE })).toEqual(silent);
  });

  it('a silent node says since when nothing was heard of it, and a live one says nothing', () => {
    const observation = makeObservation({ ...given.observation, contactAt: T0 + MINUTE });
    const silent = statusOf({ ...withStored(given, stored), observation, now: T0 + 10 * MINUTE });
    expect([stored.silentSince, silent.silentSince]).toEqual([undefined, at(T0 + MINUTE)]);
    const underAnotherLeader = { ...withStored(given, silent), observation: undefined, now: T0 + 20 * MINUTE };
    expect(statusOf(underAnotherLeader).silentSince).toBe(at(T0 + MINUTE));
    const back = makeObservation({ ...given.observation, contactAt: T0 + 30 * MINUTE, reportedAt: T0 + 30 * MINUTE });
    expect(
      statusOf({ ...withStored(given, silent), observation: back, now: T0 + 30 * MINUTE }).silentSince,
    ).toBeUndefined();
  });
});

describe('after a change of the leader', () => {
  const stored = statusOf({
    observation: makeObservation({ report: { daemonStatus: 'RUNNING', microserviceStatus: [makeItem()] } }),
    desired: makeDesired({}),
  });

  it('a node without contact stays as stored until the new leader has led for one limit', () => {
    const status = statusOf({ status: stored, listeningSince: T0 + 10 * MINUTE, now: T0 + 10 * MINUTE + 29 * SECOND });
    expect(status).toEqual(stored);
  });

  it('a node without contact is silent once the new leader has led for one limit', () => {
    const status = statusOf({ status: stored, listeningSince: T0 + 10 * MINUTE, now: T0 + 10 * MINUTE + 30 * SECOND });
    expect(status).toMatchObject({ daemonStatus: 'UNKNOWN', microservices: [{ state: 'UNKNOWN' }] });
  });
});

describe('platformStatus', () => {
  const platform = (given: Given) => statusOf({ report: {}, ...given }).platformStatus;

  it('is Ready for an observed generation, since the platform has nothing to set up yet', () => {
    expect(platform({ metadata: { generation: 4 } })).toMatchObject({
      phase: 'Ready',
      generation: 4,
      observedGeneration: 4,
    });
  });

  it('has a higher generation after a reconcile request, which counts as carried out', () => {
    const metadata = { generation: 4, annotations: { [ANNOTATIONS.reconcile]: '2' } };
    expect(platform({ metadata })).toMatchObject({ phase: 'Ready', generation: 6, observedGeneration: 6 });
    expect(statusOf({ metadata }).actions).toEqual({ reconcile: 2 });
  });

  it('is Failed with the reason when the name belongs to another node, and keeps its observed generation', () => {
    const status = { platformStatus: { phase: 'Ready', generation: 1, observedGeneration: 1 } } as const;
    expect(platform({ identity: taken, status, metadata: { generation: 2 } })).toMatchObject({
      phase: 'Failed',
      generation: 2,
      observedGeneration: 1,
      lastError: taken.message,
    });
  });

  it('is Failed with the reason while a router that the node names cannot be connected to', () => {
    expect(platform({ upstreams: [unreachable] })).toMatchObject({ phase: 'Failed', lastError: unreachable.message });
  });

  it('is Deleting for a node in deletion', () => {
    expect(platform({ metadata: deleting })?.phase).toBe('Deleting');
  });

  it('has the time at which the phase changed', () => {
    const first = statusOf({ report: {} });
    const second = statusOf({ report: {}, status: first, metadata: { generation: 9 }, now: T0 + MINUTE });
    expect(second.platformStatus?.lastTransitionAt).toBe(first.platformStatus?.lastTransitionAt);
    const third = statusOf({ report: {}, status: second, identity: taken, now: T0 + MINUTE });
    expect(third.platformStatus?.lastTransitionAt).toBe(at(T0 + MINUTE));
  });
});

describe('actions', () => {
  it('are never taken back by a report, which would make them due again', () => {
    const status = { actions: { version: 3 }, versionTime: at(T0 - MINUTE) };
    const { actions, versionTime } = statusOf({ status, report: { actions: { version: 0 } } });
    expect([actions?.version, versionTime]).toEqual([3, at(T0 - MINUTE)]);
  });

  it('leave counts for further requests, whatever a report says', () => {
    const status = { actions: { reboot: 3 } };
    expect(statusOf({ status, report: { actions: { reboot: 2 ** 53 - 1, prune: 10 ** 13 + 1 } } }).actions).toEqual({
      reboot: 3,
      reconcile: 0,
    });
  });

  it('have the time of the last version that was carried out', () => {
    const version = (status: object, count: number) =>
      statusOf({ status, report: { actions: { version: count } } }).versionTime;
    expect(version({}, 1)).toBe(at(T0 + SECOND));
    expect(version({ actions: { version: 1 }, versionTime: at(T0 - MINUTE) }, 1)).toBe(at(T0 - MINUTE));
    expect(version({ actions: { version: 1 }, versionTime: at(T0 - MINUTE) }, 2)).toBe(at(T0 + SECOND));
  });

  it('are those that the agent reports as carried out, merged with the stored ones', () => {
    const status = { actions: { reboot: 1, prune: 3 } };
    expect(statusOf({ status, report: { actions: { reboot: 2 } } }).actions).toEqual({
      reboot: 2,
      prune: 3,
      reconcile: 0,
    });
  });
});

describe('a change of the version of the agent', () => {
  const requested = (semver?: string, command = 'upgrade') => ({
    annotations: { [ANNOTATIONS.version]: JSON.stringify({ count: 4, command, semver }) },
  });
  const ready = { ...seen, isReadyToUpgrade: true };
  const metadata = requested('0.2.0');
  const reported = (update: StatusReport['update'], more: StatusReport = {}) => ({
    daemonStatus: 'RUNNING' as const,
    version: '0.1.0',
    update,
    ...more,
  });
  const failed = { state: 'Failed' as const, version: '0.2.0', message: '0.2.0 failed, 0.1.0 runs: it ended' };

  test.each<[sentence: string, given: Given, reason: string | undefined, message: RegExp]>([
    ['not requested is none', { report: reported({ state: 'Idle' }) }, undefined, /^$/],
    [
      'waits for the agent to take it up',
      { metadata, status: ready, report: reported({ state: 'Idle' }) },
      'UpdateRequested',
      /^the upgrade to 0\.2\.0 waits for the agent$/,
    ],
    [
      'waits in vain for an agent without a launcher, and says so',
      { metadata, report: reported(undefined) },
      'UpdateRequested',
      /does not say that it can change its version/,
    ],
    [
      'waits for an agent without a release key, and says so',
      { metadata, report: reported({ state: 'Idle', message: 'this machine has no release key' }) },
      'UpdateRequested',
      /waits for the agent: this machine has no release key$/,
    ],
    ['waits for a silent node', { metadata, status: seen, now: T0 + 60 * MINUTE }, 'NodeUnreachable', /is silent$/],
    [
      'is under way',
      { metadata: requested(), report: reported({ state: 'Downloading' }) },
      'Downloading',
      /^the upgrade to the latest release is under way/,
    ],
    [
      'waits for the next attempt, with the reason of the last one',
      { metadata, report: reported({ state: 'Retrying', message: 'no route' }) },
      'UpdateRetrying',
      /next attempt: no route$/,
    ],
    [
      'waits for the first report that is confirmed',
      { metadata, report: reported({ state: 'OnTrial', version: '0.2.0' }) },
      'OnTrial',
      /0\.2\.0 runs on trial$/,
    ],
    [
      'that was carried out is none',
      { metadata, report: reported({ state: 'Idle' }, { version: '0.2.0', actions: { version: 4 } }) },
      undefined,
      /^$/,
    ],
  ])('that is %s', (_, given, reason, message) => {
    const condition = find(statusOf(given), 'Updating');
    expect(condition?.reason).toBe(reason);
    expect(condition?.message ?? '').toMatch(message);
  });

  test('that is refused says why the agent is not ready', () => {
    const why = (update: StatusReport['update']) => notReadyToUpgrade(statusOf({ report: reported(update) }));
    expect(why({ state: 'Idle', message: 'this machine has no release key' })).toBe('this machine has no release key');
    expect(why({ state: 'OnTrial', version: '0.2.0' })).toBe('a change of its version is under way');
    expect(why({ state: 'Idle' })).toMatch(/installed with a launcher/);
  });

  test('that failed says why until another one is requested or the agent says that nothing failed', () => {
    const first = statusOf({ metadata, report: reported(failed, { actions: { version: 4 } }) });
    expect(find(first, 'UpdateFailed')).toMatchObject({ status: 'True', message: failed.message });
    // A new leader has no report yet, or one of changes only.
    for (const report of [undefined, { daemonStatus: 'RUNNING' as const }])
      expect(find(statusOf({ metadata, status: first, ...(report && { report }) }), 'UpdateFailed')).toBeDefined();
    const again = { annotations: { [ANNOTATIONS.version]: '{"count": 5, "command": "upgrade"}' } };
    expect(find(statusOf({ metadata: again, status: first }), 'UpdateFailed')).toBeUndefined();
    const idle = statusOf({ metadata, status: first, report: reported({ state: 'Idle' }) });
    expect([find(idle, 'UpdateFailed'), idle.update]).toEqual([undefined, undefined]);
    expect(statusOf({ metadata, status: first, report: reported(undefined) }).update).toBeUndefined();
  });
});

it('observedGeneration is the generation of the node', () => {
  expect(statusOf({ metadata: { generation: 7 } }).observedGeneration).toBe(7);
});

describe('the list that the last report follows', () => {
  const status = { ...seen, provisionedTime: at(T0 - MINUTE), microserviceList: 'digest' };
  const provisioned = (provisionedAt: number) => ({ archId: 1, provisionedAt });
  test.each<[sentence: string, given: Given, list: string | undefined]>([
    ['stays without an observation', {}, 'digest'],
    ['stays in a delta', { report: { microserviceStatus: [] } }, 'digest'],
    ['stays until an agent has read its engine', { report: { version: '1' } }, 'digest'],
    ['is the reported one', { report: { version: '1', microserviceStatus: [], microserviceList: 'next' } }, 'next'],
    ['ends with an agent that names none', { report: { version: '1', microserviceStatus: [] } }, undefined],
    ['stays for the agent that was provisioned', { provisioned: provisioned(T0 - MINUTE) }, 'digest'],
    ['is unknown when the node was provisioned again', { provisioned: provisioned(T0) }, ''],
  ])('%s', (_, given, list) => expect(statusOf({ status, ...given }).microserviceList).toBe(list));
});

describe('the bus server of a node in its status', () => {
  const status = { ...seen, busServer: { isCurrent: true } };
  const parts = [{ condition: 'BusReady' as const, hasFiles: true }];
  const desired = (of: PartState[]) => ({ ...makeDesired({}), parts: of });
  test.each<[sentence: string, given: Given, server: object | undefined]>([
    ['stays between reports', { desired: desired(parts) }, { isCurrent: true }],
    [
      'is the reported one',
      { desired: desired(parts), report: { busServer: { isCurrent: false } } },
      { isCurrent: false },
    ],
    ['stays while no desired state is known', {}, { isCurrent: true }],
    [
      'ends where the node has none any more',
      { desired: desired([]), report: { busServer: { isCurrent: true } } },
      undefined,
    ],
  ])('%s', (_, given, server) => expect(statusOf({ status, ...given }).busServer).toEqual(server));
});
