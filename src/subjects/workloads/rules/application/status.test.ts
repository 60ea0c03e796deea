import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeInputs, makeLookups, NOW } from '../../../../../testing/inputs.ts';
import { STATUS_REASONS, VERDICT_REASONS } from '../../../../api/conditions.ts';
import type { Condition } from '../../../../api/meta.ts';
import {
  type Application,
  applicationResource,
  applicationStatusSchema,
  type MicroserviceEntry,
} from '../../../../api/v3/index.ts';
import { desiredState } from '../../../../desired/rules/desired.ts';
import type { Liveness } from '../../../../rules/inputs.ts';
import { entryUuid } from '../../../../rules/names.ts';
import { makeNode } from '../../../nodes/_make.ts';
import { makeApplication, makeEntry, observedReader } from '../../_make.ts';
import { verdicts } from '../verdicts/verdict.ts';
import { PROGRESS_RULES } from './entry-progress.ts';
import { applicationStatus, readyAt } from './status.ts';
import type { ApplicationStatusInputs } from './status-inputs.ts';

type Observed = Parameters<typeof observedReader>[0];

interface Given {
  entry?: Partial<MicroserviceEntry>;
  application?: Parameters<typeof makeApplication>[0];
  liveness?: Liveness;
  /** what the node reports; `revision: 'asked'` stands for the revision of the desired state */
  observed?: readonly Observed[];
  node?: Parameters<typeof makeNode>[0];
}

function inputsOf({ entry, application, liveness = 'live', observed = [], node }: Given): ApplicationStatusInputs {
  const own = makeApplication({ entries: [makeEntry(entry)], ...application });
  const bare = makeNode(node);
  const views = desiredState(makeInputs({ node: bare, applications: [own] })).microservices;
  const asked = (uuid: string | undefined) => {
    const view = views.find((item) => item.uuid === uuid);
    return view && 'revision' in view ? view.revision : undefined;
  };
  const items = observed.map((item) => {
    const one = observedReader(item);
    return item?.revision === 'asked' ? { ...one, revision: asked(one.uuid) } : one;
  });
  const reporting = { ...bare, status: { observedGeneration: 1, ...bare.status, microservices: items } };
  const lookups = makeLookups({ nodes: [reporting], applications: [own] });
  return {
    application: own,
    verdicts: verdicts(own, lookups),
    nodes: [{ node: reporting, liveness, desired: desiredState(makeInputs({ node: reporting, applications: [own] })) }],
    now: NOW,
  };
}

const condition = (status: { conditions?: readonly Condition[] }, type: string) =>
  status.conditions?.find((one) => one.type === type);

const RUNNING: Observed = { state: 'RUNNING', revision: 'asked' };
const CHECKED: Partial<MicroserviceEntry> = { container: { healthCheck: { test: ['CMD', 'true'] } } };

/** Ready, reason, Reconciling, Stalled, count, and a word of the message. */
type Want = [Condition['status'], string, Condition['status'], Condition['status'], string, RegExp];

const CASES: Record<string, [Given, Want]> = {
  'a microservice that runs as asked on a live node': [
    { observed: [RUNNING] },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'a microservice without a report': [{}, ['False', 'Starting', 'True', 'False', '0/1', /has not reported/]],
  'a microservice without a report on a node with a warning': [
    { node: { status: { daemonStatus: 'WARNING', warningMessage: 'database: the disk is full' } } },
    [
      'False',
      'Starting',
      'True',
      'False',
      '0/1',
      /has not reported it yet; its node warns: database: the disk is full/,
    ],
  ],
  'a container of an older revision on a node with a warning': [
    {
      observed: [{ revision: 'r1-old' }],
      node: { status: { daemonStatus: 'WARNING', warningMessage: 'database: the disk is full' } },
    },
    ['False', 'Updating', 'True', 'False', '0/1', /is on its way; its node warns: database: the disk is full/],
  ],
  'a container of an older revision': [
    { observed: [{ revision: 'r1-old' }] },
    ['False', 'Updating', 'True', 'False', '0/1', /older revision/],
  ],
  'a container of an older revision while the new one fails': [
    { observed: [{ revision: 'r1-old', reason: 'ImagePullFailed', errorMessage: 'no such image' }] },
    ['False', 'ImagePullFailed', 'True', 'False', '0/1', /no such image/],
  ],
  'a container of an older revision while the new one fails for no named reason': [
    { observed: [{ revision: 'r1-old', errorMessage: 'no such image' }] },
    ['False', 'MicroserviceFailed', 'True', 'False', '0/1', /no such image/],
  ],
  'an agent that reports no revision': [{ observed: [{}] }, ['False', 'Updating', 'True', 'False', '0/1', /older/]],
  'a rebuild that was not carried out yet': [
    { observed: [RUNNING], application: { annotations: { 'skerry.dev/rebuild': '{"reader":1}' } } },
    ['False', 'Updating', 'True', 'False', '0/1', /rebuild/],
  ],
  'a rebuild that was carried out': [
    {
      observed: [{ ...RUNNING, rebuildCount: 1 }],
      application: { annotations: { 'skerry.dev/rebuild': '{"reader":1}' } },
    },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'a pull': [{ observed: [{ state: 'PULLING' }] }, ['False', 'Starting', 'True', 'False', '0/1', /reader: pulling/]],
  'a failure': [
    { observed: [{ state: 'FAILED', errorMessage: 'no such image' }] },
    ['False', 'MicroserviceFailed', 'True', 'False', '0/1', /cannot be started: no such image/],
  ],
  'a crash loop': [
    { observed: [{ state: 'STUCK_IN_RESTART', lastError: 'exit code 1' }] },
    ['False', 'CrashLooping', 'False', 'True', '0/1', /again and again: exit code 1/],
  ],
  'a restart after a crash': [
    { observed: [{ state: 'RESTARTING', reason: 'Crashed', lastError: 'exit code 1' }] },
    ['False', 'Restarting', 'True', 'False', '0/1', /restarting: exit code 1/],
  ],
  'a restart for another reason': [
    { observed: [{ state: 'RESTARTING' }] },
    ['False', 'Restarting', 'True', 'False', '0/1', /restarting/],
  ],
  'a refusal by the policy of the machine': [
    { observed: [{ state: 'FAILED', reason: 'PolicyRefused', errorMessage: 'privileged' }] },
    ['False', 'PolicyRefused', 'False', 'True', '0/1', /policy refuses it: privileged/],
  ],
  'a policy of the machine that was tightened while the microservice runs': [
    { observed: [{ ...RUNNING, reason: 'PolicyRefused', errorMessage: 'privileged' }] },
    [
      'False',
      'PolicyRefused',
      'False',
      'True',
      '0/1',
      /reader: the machine's policy refuses it: privileged; it runs until it ends, and is not started again$/,
    ],
  ],
  'an edit that the policy of the machine refuses': [
    { observed: [{ revision: 'r1-old', reason: 'PolicyRefused', errorMessage: 'privileged' }] },
    ['False', 'PolicyRefused', 'False', 'True', '0/1', /policy refuses it: privileged; what ran before keeps running$/],
  ],
  'a microservice that was stopped on its machine': [
    { observed: [{ state: 'STOPPED', reason: 'StoppedLocally' }] },
    ['False', 'StoppedLocally', 'False', 'True', '0/1', /start it there/],
  ],
  'a microservice that stopped for an unknown reason': [
    { observed: [{ state: 'STOPPED' }] },
    ['False', 'Starting', 'True', 'False', '0/1', /is to run/],
  ],
  'a live node that reports an unknown state': [
    { observed: [{ state: 'UNKNOWN' }] },
    ['Unknown', 'StateUnknown', 'False', 'False', '0/1', /cannot tell/],
  ],
  'a live node whose engine does not respond': [
    {
      observed: [{ state: 'UNKNOWN', reason: 'EngineUnavailable', errorMessage: 'the engine does not answer' }],
    },
    ['Unknown', 'StateUnknown', 'False', 'False', '0/1', /cannot tell its state: the engine does not answer/],
  ],
  'a stopped application whose containers cannot be observed': [
    { application: { spec: { isActivated: false } }, observed: [{ state: 'UNKNOWN', containerId: 'c1' }] },
    ['Unknown', 'StateUnknown', 'False', 'False', '0/0', /cannot tell/],
  ],
  'a silent node': [
    { liveness: 'silent', observed: [RUNNING] },
    ['Unknown', 'NodeUnreachable', 'False', 'False', '0/1', /nothing is heard of the node gw-1/],
  ],
  'a node that was never provisioned': [
    { liveness: 'never' },
    ['False', 'NotProvisioned', 'False', 'False', '0/1', /no agent/],
  ],
  'a node whose agent gave up its identity': [
    { liveness: 'never', node: { status: { daemonStatus: 'DEPROVISIONED' } } },
    ['False', 'NotProvisioned', 'False', 'False', '0/1', /the agent of gw-1 gave up its identity, and no other one/],
  ],
  healthy: [
    { entry: CHECKED, observed: [{ ...RUNNING, healthStatus: 'healthy' }] },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  unhealthy: [
    { entry: CHECKED, observed: [{ ...RUNNING, healthStatus: 'unhealthy' }] },
    ['False', 'Unhealthy', 'False', 'False', '0/1', /health check fails$/],
  ],
  'unhealthy, with what the check says': [
    { entry: CHECKED, observed: [{ ...RUNNING, healthStatus: 'unhealthy', healthMessage: 'exit code 2: no' }] },
    ['False', 'Unhealthy', 'False', 'False', '0/1', /reader: running, but its health check fails: exit code 2: no$/],
  ],
  'a first check that fails': [
    { entry: CHECKED, observed: [{ ...RUNNING, healthStatus: 'starting', healthMessage: 'exit code 2: no' }] },
    ['False', 'Starting', 'True', 'False', '0/1', /has not succeeded yet: exit code 2: no$/],
  ],
  'a container that is not healthy yet': [
    { entry: CHECKED, observed: [RUNNING] },
    ['False', 'Starting', 'True', 'False', '0/1', /not succeeded yet$/],
  ],
  'a health check that the node cannot perform': [
    { entry: CHECKED, observed: [{ ...RUNNING, notHonoured: [{ field: 'healthCheck', reason: 'no systemd' }] }] },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'a health check of NONE': [
    { entry: { container: { healthCheck: { test: ['NONE'] } } }, observed: [RUNNING] },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'an unknown node': [
    { entry: { agent: { name: 'nowhere' } } },
    ['False', 'NodeNotFound', 'False', 'True', '0/1', /no node with the name "nowhere"/],
  ],
  'a refused edit while the former container runs': [
    { entry: { images: { amd64: 'a', registry: 'team' } }, observed: [{ revision: 'r1-old' }] },
    ['False', 'RegistryNotFound', 'False', 'True', '0/1', /no registry "team"; what ran before keeps running/],
  ],
  'a refused edit on a silent node': [
    { entry: { images: { amd64: 'a', registry: 'team' } }, observed: [{ revision: 'r1-old' }], liveness: 'silent' },
    ['False', 'RegistryNotFound', 'False', 'True', '0/1', /no registry "team"; nothing is heard/],
  ],
  'a refused new microservice': [
    { entry: { images: { amd64: 'a', registry: 'team' } } },
    ['False', 'RegistryNotFound', 'False', 'True', '0/1', /no registry "team"$/],
  ],
  'a verdict that passes without an edit is not Stalled': [
    {
      entry: { container: { ports: [{ internal: 1, external: 80, protocol: 'tcp' }] } },
      observed: [{ uuid: 'gone', name: 'old', ports: [{ internal: 1, external: 80, protocol: 'tcp' }] }],
    },
    ['False', 'Removing', 'True', 'False', '0/1', /old: is being removed.*giving it up/],
  ],
  'a stopped application': [
    { application: { spec: { isActivated: false } } },
    ['True', 'Stopped', 'False', 'False', '0/0', /as asked/],
  ],
  'a stopped application whose container is reported stopped': [
    { application: { spec: { isActivated: false } }, observed: [{ state: 'STOPPED' }] },
    ['True', 'Stopped', 'False', 'False', '0/0', /as asked/],
  ],
  'a stopped application whose container still runs': [
    { application: { spec: { isActivated: false } }, observed: [RUNNING] },
    ['False', 'Stopping', 'True', 'False', '0/0', /being stopped/],
  ],
  'a stopped application on a silent node': [
    { application: { spec: { isActivated: false } }, observed: [{ state: 'UNKNOWN' }], liveness: 'silent' },
    ['Unknown', 'NodeUnreachable', 'False', 'False', '0/0', /nothing is heard/],
  ],
  'a stopped application that was reported stopped before its node fell silent': [
    { application: { spec: { isActivated: false } }, observed: [{ state: 'STOPPED' }], liveness: 'silent' },
    ['True', 'Stopped', 'False', 'False', '0/0', /as asked/],
  ],
  'a stopped microservice whose registry is missing': [
    { entry: { isActivated: false, images: { amd64: 'a', registry: 'team' } } },
    ['True', 'Stopped', 'False', 'False', '0/0', /as asked/],
  ],
  'an application without microservices': [
    { application: { entries: [] } },
    ['True', 'Empty', 'False', 'False', '0/0', /no microservices/],
  ],
  'a removed microservice that still runs': [
    { observed: [RUNNING, { uuid: 'gone', name: 'old' }] },
    ['False', 'Removing', 'True', 'False', '1/1', /old: is being removed from gw-1/],
  ],
  'a removed microservice whose container is removed': [
    { observed: [RUNNING, { uuid: 'gone', name: 'old', state: 'STOPPED' }] },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'a removed microservice on a silent node': [
    { application: { entries: [] }, observed: [{ uuid: 'gone', name: 'old', state: 'UNKNOWN' }], liveness: 'silent' },
    ['Unknown', 'NodeUnreachable', 'False', 'False', '0/0', /old: removed, but may still run/],
  ],
  'a removed microservice on a node that was never live': [
    { application: { entries: [] }, observed: [{ uuid: 'gone', name: 'old' }], liveness: 'never' },
    ['True', 'Empty', 'False', 'False', '0/0', /no microservices/],
  ],
  'a reported microservice of another application': [
    { observed: [RUNNING, { uuid: 'other', application: 'plant-b', name: 'x' }] },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'a microservice that has not run for minReadySeconds yet': [
    { entry: { minReadySeconds: 30 }, observed: [{ ...RUNNING, startTime: Date.parse(NOW) - 29_000 }] },
    ['False', 'Starting', 'True', 'False', '0/1', /reader: running; ready after 30 s/],
  ],
  'a microservice that has run for minReadySeconds': [
    { entry: { minReadySeconds: 30 }, observed: [{ ...RUNNING, startTime: Date.parse(NOW) - 30_000 }] },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'a microservice whose health check succeeds before minReadySeconds': [
    {
      entry: { ...CHECKED, minReadySeconds: 30 },
      observed: [{ ...RUNNING, startTime: Date.parse(NOW), healthStatus: 'healthy' }],
    },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'a microservice that ended twice within a minute and runs again': [
    { observed: [{ ...RUNNING, isUnsteady: true, startTime: Date.parse(NOW) - 59_000, lastError: 'exitCode=2' }] },
    ['False', 'CrashLooping', 'True', 'False', '0/1', /ended twice within a minute \(exitCode=2\)/],
  ],
  'a microservice that ended twice within a minute and has run for a minute since': [
    { observed: [{ ...RUNNING, isUnsteady: true, startTime: Date.parse(NOW) - 60_000 }] },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'a microservice whose machine has a clock that is ahead': [
    { observed: [{ ...RUNNING, startTime: Date.parse(NOW) + 3_000 }] },
    ['True', 'AllRunning', 'False', 'False', '1/1', /1\/1/],
  ],
  'a node that is being deleted': [
    { node: { deletionTimestamp: NOW }, observed: [RUNNING] },
    ['False', 'NodeDeleting', 'False', 'True', '0/1', /is being deleted/],
  ],
  'an application that is being deleted': [
    { application: { deletionTimestamp: NOW }, observed: [RUNNING] },
    ['False', 'Deleting', 'True', 'False', '0/0', /is being deleted; reader: is being stopped/],
  ],
};

describe('applicationStatus', () => {
  it.each(Object.entries(CASES))(
    'has the expected conditions: %s',
    (_, [given, [ready, reason, reconciling, stalled, count, message]]) => {
      const status = applicationStatus(inputsOf(given));
      expect(condition(status, 'Ready')).toMatchObject({ status: ready, reason });
      expect(condition(status, 'Ready')?.message).toMatch(message);
      expect(condition(status, 'Reconciling')?.status).toBe(reconciling);
      expect(condition(status, 'Stalled')?.status).toBe(stalled);
      expect(status.ready).toBe(count);
      expect(applicationStatusSchema.safeParse(JSON.parse(JSON.stringify(status))).error).toBeUndefined();
    },
  );

  it.each([
    ['ImageNotFound', 'ImagePullFailed'],
    ['ImageUnauthorized', 'ImagePullFailed'],
    ['ImageMissing', 'ImagePullFailed'],
    ['ImagePullFailed', 'ImagePullFailed'],
    ['LimitRefused', 'LimitRefused'],
    ['CreateFailed', 'CreateFailed'],
    ['StartFailed', 'StartFailed'],
    ['PortTaken', 'StartFailed'],
    ['DiskFull', 'DiskFull'],
    ['ArtifactFailed', 'ArtifactFailed'],
    ['AnotherWord', 'MicroserviceFailed'],
    ['constructor', 'MicroserviceFailed'],
    [undefined, 'MicroserviceFailed'],
  ])('a microservice that its node reports as FAILED for %s has the reason %s', (reported, reason) => {
    const status = applicationStatus(
      inputsOf({ observed: [{ state: 'FAILED', errorMessage: 'no', ...(reported && { reason: reported }) }] }),
    );
    expect(condition(status, 'Ready')).toMatchObject({ status: 'False', reason });
  });

  it('takes the reason of Ready from the worst of several entries', () => {
    const entries = ['ok', 'lost', 'slow'].map((name) =>
      makeEntry({ name, ...(name === 'lost' && { agent: { name: 'nowhere' } }) }),
    );
    const uuid = entryUuid(makeApplication(), { name: 'ok' });
    const status = applicationStatus(
      inputsOf({ application: { entries }, observed: [{ uuid, name: 'ok', state: 'RUNNING', revision: 'asked' }] }),
    );
    expect(condition(status, 'Ready')).toMatchObject({ status: 'False', reason: 'NodeNotFound' });
    expect(condition(status, 'Stalled')).toMatchObject({ status: 'True', reason: 'NodeNotFound' });
    // the other entries continue to be reconciled
    expect(condition(status, 'Reconciling')).toMatchObject({ status: 'True', reason: 'Starting' });
    expect(condition(status, 'Admitted')).toMatchObject({ status: 'False', reason: 'NodeNotFound' });
    expect(status).toMatchObject({ ready: '1/3', readyCount: 1, totalCount: 3 });
    expect(status.microservices).toMatchObject([
      { name: 'lost', state: 'QUEUED', ready: false },
      { name: 'ok', node: 'gw-1', state: 'RUNNING', ready: true },
      { name: 'slow', node: 'gw-1', state: 'QUEUED', ready: false },
    ]);
  });

  const STATES: Record<string, [Given, string]> = {
    'the reported state': [{ observed: [{ state: 'PULLING' }] }, 'PULLING'],
    'QUEUED before the first report': [{}, 'QUEUED'],
    'STOPPED when it should not run and is not reported': [
      { application: { spec: { isActivated: false } } },
      'STOPPED',
    ],
    'UNKNOWN on a silent node': [{ observed: [RUNNING], liveness: 'silent' }, 'UNKNOWN'],
    'STOPPED when it stopped as asked before its node fell silent': [
      { observed: [{ state: 'STOPPED' }], application: { spec: { isActivated: false } }, liveness: 'silent' },
      'STOPPED',
    ],
    'UNKNOWN on a silent node when it should run and was reported stopped': [
      { observed: [{ state: 'STOPPED' }], liveness: 'silent' },
      'UNKNOWN',
    ],
    'QUEUED on a node that no agent has taken': [{ observed: [RUNNING], liveness: 'never' }, 'QUEUED'],
  };
  it.each(Object.entries(STATES))('has the state of the line: %s', (_, [given, want]) => {
    expect(applicationStatus(inputsOf(given)).microservices?.[0]?.state).toBe(want);
  });

  it('shows a moved microservice once on its new node and once as being removed from the old one', () => {
    const old = makeNode({ name: 'gw-old', uuid: '99999999-9999-4999-8999-999999999999' });
    const given = inputsOf({});
    const left = { ...old, status: { observedGeneration: 1, microservices: [observedReader()] } };
    const status = applicationStatus({
      ...given,
      nodes: [...given.nodes, { node: left, liveness: 'live', desired: { microservices: [] } }],
    });
    expect(status.microservices?.map(({ name, node, state }) => `${name} ${node} ${state}`)).toEqual([
      'reader gw-1 QUEUED',
      'reader (on gw-old) gw-old DELETING',
    ]);
    expect(condition(status, 'Ready')?.status).toBe('False');
  });

  it('is NameTaken when another application owns the name, and does not show the microservices of the owner', () => {
    const given = inputsOf({ application: { entries: [] }, observed: [{ uuid: 'theirs' }] });
    const identity = { reason: 'NameTaken', message: 'taken', status: 409, code: 'DUPLICATE_NAME' } as const;
    const status = applicationStatus({ ...given, identity });
    expect(condition(status, 'Ready')).toMatchObject({ status: 'False', reason: 'NameTaken' });
    expect(condition(status, 'Stalled')?.status).toBe('True');
    expect(status.microservices).toEqual([]);
  });

  it('lists fields without effect in NotSupportedYet and not in Ready', () => {
    const status = applicationStatus(
      inputsOf({
        entry: { busEnabled: true },
        application: { spec: { busConfig: { busAccess: true } }, entries: [makeEntry({ busEnabled: true })] },
        observed: [{ ...RUNNING, notHonoured: [{ field: 'shmSize', reason: 'cgroup v1' }] }],
      }),
    );
    expect(condition(status, 'Ready')?.status).toBe('True');
    expect(condition(status, 'NotSupportedYet')).toMatchObject({ status: 'True', reason: 'Fields' });
    expect(condition(status, 'NotSupportedYet')?.message).toBe(
      'stored, but without effect: busConfig; reader: busConfig, shmSize (cgroup v1)',
    );
  });

  it.each([
    { version: '3.7.0', agent: undefined, reads: false },
    { version: '3.8.0', agent: undefined, reads: true },
    { version: undefined, agent: undefined, reads: true },
    { version: '0.9.0', agent: '0.9.0', reads: true },
  ])('names the fields that an agent of another make does not read: $version, reads $reads', ({ reads, ...said }) => {
    const entry = { container: { entrypoint: ['/a'], cpus: 0.5, commands: ['b'] } };
    const given = inputsOf({ entry, observed: [RUNNING] });
    for (const { node } of given.nodes) Object.assign(node.status ?? {}, said);
    const because = '(not read by the agent, whose version is 3.7.0)';
    expect(condition(applicationStatus(given), 'NotSupportedYet')?.message).toBe(
      reads ? undefined : `stored, but without effect: reader: cpus ${because}, entrypoint ${because}`,
    );
  });

  it('has its conditions in the order of the table, each with the generation that it is about', () => {
    const status = applicationStatus(inputsOf({ application: { generation: 7 }, entry: { busEnabled: true } }));
    const types = status.conditions?.map(({ type }) => type) ?? [];
    expect(types).toEqual(applicationResource.conditions.filter((type) => types.includes(type)));
    for (const one of status.conditions ?? []) expect(one.observedGeneration).toBe(7);
    expect(status.observedGeneration).toBe(7);
  });

  it('names at most eight microservices in a message', () => {
    const entries = Array.from({ length: 12 }, (_, i) => makeEntry({ name: `m${i}` }));
    const message = condition(applicationStatus(inputsOf({ application: { entries } })), 'Ready')?.message;
    expect(message?.match(/m\d+: /g)).toHaveLength(8);
    expect(message).toMatch(/ and 4 more$/);
  });

  it('uses only reasons that are documented', () => {
    const known = { ...VERDICT_REASONS, ...STATUS_REASONS };
    for (const [given] of Object.values(CASES))
      for (const { reason } of applicationStatus(inputsOf(given)).conditions ?? [])
        expect(Object.keys(known)).toContain(reason);
  });
});

it('the rules about the progress of an entry apply in the documented order', () => {
  expect(PROGRESS_RULES.map(({ name }) => name)).toEqual([
    'shouldNotRun',
    'isRefused',
    'nodeIsNotProvisioned',
    'nodeIsSilent',
    'policyRefuses',
    'runsAnOlderRevision',
    'isUnhealthy',
    'isTooYoung',
  ]);
});

describe('stability', () => {
  const given = fc.constantFrom(...Object.values(CASES).map(([one]) => one));

  it('the same facts give the same status at any time', () => {
    fc.assert(
      fc.property(given, (one) => {
        const inputs = inputsOf(one);
        const first = applicationStatus(inputs);
        const stored: Application = { ...inputs.application, status: first };
        const end = readyAt(inputs) ?? Date.parse('2030-01-01T00:00:00.000Z');
        const later = applicationStatus({ ...inputs, application: stored, now: new Date(end - 1).toISOString() });
        expect(later).toEqual(first);
      }),
      { numRuns: 60 },
    );
  });

  it('a transition time changes exactly with the status of its condition', () => {
    fc.assert(
      fc.property(given, given, (before, after) => {
        const first = applicationStatus(inputsOf(before));
        const inputs = inputsOf(after);
        const now = '2030-01-01T00:00:00.000Z';
        const second = applicationStatus({ ...inputs, now, application: { ...inputs.application, status: first } });
        for (const one of second.conditions ?? []) {
          const old = condition(first, one.type);
          expect(one.lastTransitionTime).toBe(old?.status === one.status ? old.lastTransitionTime : now);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('the status does not depend on the order of entries and nodes', () => {
    const entries = ['b', 'a', 'c'].map((name) => makeEntry({ name }));
    const forward = inputsOf({ application: { entries } });
    const backward = inputsOf({ application: { entries: [...entries].reverse() } });
    expect(applicationStatus(backward)).toEqual(applicationStatus(forward));
  });

  it('readyAt is the time at which the status changes without another report', () => {
    const startTime = Date.parse(NOW) - 10_000;
    const at = (given: Given) => readyAt(inputsOf(given));
    expect(at({ entry: { minReadySeconds: 30 }, observed: [{ ...RUNNING, startTime }] })).toBe(startTime + 30_000);
    expect(at({ entry: { minReadySeconds: 5 }, observed: [{ ...RUNNING, startTime }] })).toBeUndefined();
    expect(at({ observed: [{ ...RUNNING, isUnsteady: true, startTime }] })).toBe(startTime + 60_000);
    expect(at({ observed: [{ ...RUNNING, startTime: startTime + 60_000 }] })).toBeUndefined();
  });

  it('the message describes what happens to containers on a node in deletion', () => {
    const given = { node: { deletionTimestamp: NOW }, observed: [{ state: 'RUNNING' }] };
    const message = condition(applicationStatus(inputsOf(given)), 'Ready')?.message;
    expect(message).toMatch(/what runs there is being removed/);
    expect(message).not.toMatch(/keeps running/);
  });

  it("the status of an application whose uuid is taken does not show the owner's container", () => {
    const inputs = inputsOf({ observed: [RUNNING] });
    const [at] = inputs.nodes;
    const entries = new Map(
      [...(at?.desired.entries ?? [])].map(([uuid, entry]) => [uuid, { ...entry, owner: 'older' }]),
    );
    const taken = { reason: 'UuidTaken', message: 'the uuid is taken', status: 409, code: 'DUPLICATE_UUID' } as const;
    const status = applicationStatus({
      ...inputs,
      verdicts: new Map([['reader', taken]]),
      nodes: [{ ...at, desired: { ...at?.desired, entries } } as (typeof inputs.nodes)[number]],
    });
    expect(status.microservices).toMatchObject([{ state: 'QUEUED', ready: false, message: 'the uuid is taken' }]);
  });

  it('an entry keeps its line among as many removed microservices as a status has lines', () => {
    const observed = Array.from({ length: 500 }, (_, i) => ({ uuid: `u-${i}`, name: `a-${i}` }));
    const lines = applicationStatus(inputsOf({ observed })).microservices ?? [];
    expect(lines).toHaveLength(500);
    expect(lines.map(({ name }) => name)).toContain('reader');
  });

  it('removed microservices of one name each get a line of their own', () => {
    const observed = ['1', '2', '3', '4'].map((uuid) => ({ uuid, name: 'old' }));
    const names = applicationStatus(inputsOf({ observed })).microservices?.map(({ name }) => name) ?? [];
    expect(names).toHaveLength(5);
    expect(new Set(names).size).toBe(5);
  });

  it('messages contain no times', () => {
    for (const [one] of Object.values(CASES))
      for (const { message } of applicationStatus(inputsOf(one)).conditions ?? [])
        expect(message).not.toMatch(/\d{4}-\d\d-\d\d|\d{10}/);
  });
});

describe('of two nodes with one name', () => {
  it('an entry that names them by name has the state that the older one reports, in whatever order they are known', () => {
    const inputs = inputsOf({ observed: [RUNNING] });
    const [older] = inputs.nodes;
    if (!older) throw new Error('no node');
    const younger = makeNode({
      uuid: '99999999-9999-4999-8999-999999999999',
      creationTimestamp: '2027-01-01T00:00:00Z',
    });
    const nodes = [{ ...older, node: younger, desired: { microservices: [] } }, older];
    for (const known of [nodes, nodes.toReversed()])
      expect(applicationStatus({ ...inputs, nodes: known }).microservices).toMatchObject([
        { nodeUuid: older.node.spec.uuid ?? older.node.metadata.uid, state: 'RUNNING' },
      ]);
  });
});
