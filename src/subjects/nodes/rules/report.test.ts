import { describe, expect, it, test } from 'vitest';
import { BOUNDS } from '../../../api/bounds.ts';
import type { EdgeNode, ObservedMicroservice } from '../../../api/v3/index.ts';
import type { Liveness, Observation } from '../../../rules/inputs.ts';
import type { MicroserviceStatus, StatusReport } from '../../../wire/agent.ts';
import { MINUTE, makeDesired, makeItem, makeNode, makeObservation, makeObserved, SECOND, T0 } from '../_make.ts';
import { mergeReport, observedMicroservices } from './report.ts';

describe('mergeReport', () => {
  const known: StatusReport = {
    daemonStatus: 'RUNNING',
    version: '1',
    systemTime: 5,
    actions: { reboot: 1 },
    microserviceStatus: [makeItem({ id: 'a', errorMessage: 'bad' }), makeItem({ id: 'b' })],
  };
  test.each<[string, StatusReport, Partial<StatusReport>]>([
    ['absent members keep their value', { version: '2' }, { daemonStatus: 'RUNNING', version: '2' }],
    ['undefined is absent', { version: undefined }, { version: '1' }],
    ['a list replaces the whole list', { microserviceStatus: [] }, { microserviceStatus: [] }],
    ['counters of actions are merged', { actions: { prune: 2 } }, { actions: { reboot: 1, prune: 2 } }],
    ['a clock reading is not kept for later reports', { version: '2' }, { systemTime: undefined }],
    ['a new clock reading replaces the former one', { systemTime: 9 }, { systemTime: 9 }],
  ])('%s', (_, delta, want) => {
    const merged = mergeReport(known, delta);
    expect(Object.fromEntries(Object.keys(want).map((key) => [key, merged[key as keyof StatusReport]]))).toEqual(want);
  });

  test.each([
    ['an absent errorMessage is unchanged', undefined, 'bad'],
    ['an empty errorMessage clears it', '', ''],
    ['another errorMessage replaces it', 'worse', 'worse'],
  ])('%s', (_, errorMessage, want) => {
    const merged = mergeReport(known, { microserviceStatus: [makeItem({ id: 'a', errorMessage })] });
    expect(merged.microserviceStatus?.map((item) => item.errorMessage)).toEqual([want]);
  });

  const listed: StatusReport = { ...known, daemonLastStart: 1, microserviceList: 'digest' };
  test.each<[string, StatusReport, string | undefined, string[] | undefined]>([
    ['keeps the list while the agent is the same', { version: '1', daemonLastStart: 1 }, 'digest', ['a', 'b']],
    ['keeps the list in a delta of microservices', { microserviceStatus: [] }, 'digest', []],
    ['takes the list that a started agent names', { daemonLastStart: 2, microserviceList: 'next' }, 'next', ['a', 'b']],
    ['drops what was said by the list of another version', { version: '0' }, undefined, undefined],
    ['drops what was said by a list before the start', { daemonLastStart: 2 }, undefined, undefined],
    ['keeps what another version says without a list', { version: '0', microserviceStatus: [] }, undefined, []],
  ])('%s', (_, delta, list, ids) => {
    const { microserviceList, microserviceStatus } = mergeReport(listed, delta);
    expect([microserviceList, microserviceStatus?.map(({ id }) => id)]).toEqual([list, ids]);
  });

  it('does not change its arguments', () => {
    const before = structuredClone(known);
    mergeReport(known, { version: '2', actions: { reboot: 7 } });
    expect(known).toEqual(before);
  });
});

interface Given {
  stored?: ObservedMicroservice[];
  reported?: MicroserviceStatus[];
  observation?: Partial<Observation>;
  report?: Partial<StatusReport>;
  desired?: ReturnType<typeof makeDesired>;
  liveness?: Liveness;
  node?: Partial<EdgeNode['status']>;
}

/** What a node that runs `plant/reader` is observed to run. */
const observe = ({ stored, reported, observation, report, desired, liveness, node }: Given) =>
  observedMicroservices({
    node: makeNode({ status: { ...node, microservices: stored } }),
    observation: makeObservation({ report: { microserviceStatus: reported, ...report }, ...observation }),
    desired: desired ?? makeDesired({}),
    liveness: liveness ?? 'live',
  });

describe('observedMicroservices', () => {
  it('takes names from the desired state, and everything else from the report', () => {
    const item = makeItem({
      revision: 'r1',
      imageId: 'sha256:1',
      image: 'shop/web:1',
      healthStatus: 'healthy',
      ports: [
        { internal: 80, external: 8081, protocol: 'tcp' },
        { internal: 80, external: 8080, protocol: 'tcp' },
      ],
      restartCount: 2,
      rebuildCount: 1,
      name: 'of the agent',
    });
    expect(observe({ reported: [item] })).toEqual([
      {
        uuid: 'ms-1',
        application: 'plant',
        name: 'reader',
        revision: 'r1',
        imageId: 'sha256:1',
        image: 'shop/web:1',
        containerId: 'c-1',
        state: 'RUNNING',
        healthStatus: 'healthy',
        ports: [
          { internal: 80, external: 8080, protocol: 'tcp' },
          { internal: 80, external: 8081, protocol: 'tcp' },
        ],
        startTime: T0 - MINUTE,
        restartCount: 2,
        rebuildCount: 1,
      },
    ]);
  });

  it('keeps the names of removed entries', () => {
    const [item] = observe({ stored: [makeObserved()], reported: [makeItem()], desired: makeDesired() }) ?? [];
    expect(item).toMatchObject({ application: 'plant', name: 'reader' });
  });

  it('ignores names that the machine reports, since they could name applications of other users', () => {
    const [item] = observe({ reported: [makeItem({ id: 'made-up', application: 'theirs', name: 'web' })] }) ?? [];
    expect(item).toMatchObject({ uuid: 'made-up', state: 'RUNNING' });
    expect(item).not.toHaveProperty('application');
    expect(item).not.toHaveProperty('name');
  });

  it('ignores ids that differ and that the API server would store as equal', () => {
    expect(observe({ reported: [makeItem({ id: '\ud800' }), makeItem({ id: '\ud801' })] })).toEqual([]);
  });

  it('equals the stored list when only measurements and the order of items changed', () => {
    const reported = [makeItem({ id: 'b' }), makeItem({ id: 'a' })];
    const stored = observe({ reported });
    const measured = reported.toReversed().map((item) => ({
      ...item,
      cpuUsage: 7,
      memoryUsage: 8,
      operatingDuration: 9,
      percentage: 10,
      execSessionIds: ['x'],
    }));
    expect(observe({ stored, reported: measured })).toEqual(stored);
  });

  it('is absent before the first report', () => {
    expect(observe({})).toBeUndefined();
  });

  it('stays as stored until a list is reported', () => {
    expect(observe({ stored: [makeObserved()] })).toEqual([makeObserved()]);
  });

  test.each<[string, Given, unknown]>([
    [
      'an empty error counts as absent',
      { reported: [makeItem({ errorMessage: '' })], stored: [makeObserved({ errorMessage: 'x' })] },
      undefined,
    ],
    [
      'an absent error keeps the stored one',
      { reported: [makeItem()], stored: [makeObserved({ errorMessage: 'x' })] },
      'x',
    ],
  ])('%s', (_, given, want) => {
    expect(observe(given)?.[0]?.errorMessage).toBe(want);
  });

  describe('silence', () => {
    test.each<[string, Given, string]>([
      ['a stored microservice that ran is UNKNOWN', { stored: [makeObserved()] }, 'UNKNOWN'],
      ['a reported microservice that ran is UNKNOWN', { reported: [makeItem()] }, 'UNKNOWN'],
      [
        'a microservice that was stopped as asked stays STOPPED',
        { stored: [makeObserved({ state: 'STOPPED' })], desired: makeDesired({ shouldRun: false }) },
        'STOPPED',
      ],
      [
        'a microservice that should run and was STOPPED is UNKNOWN',
        { stored: [makeObserved({ state: 'STOPPED' })] },
        'UNKNOWN',
      ],
    ])('%s', (_, given, state) => {
      expect(observe({ ...given, liveness: 'silent' })).toMatchObject([{ state }]);
    });

    it('keeps every other observed member', () => {
      const stored = [makeObserved({ revision: 'r1', lastError: 'exit 1' })];
      expect(observe({ stored, liveness: 'silent' })).toEqual([{ ...stored[0], state: 'UNKNOWN' }]);
    });
  });

  describe('a microservice that the list leaves out', () => {
    test.each<[string, Given['desired'], string | undefined]>([
      ['is UNKNOWN when it should run', makeDesired({}), 'UNKNOWN'],
      ['is STOPPED when it should not', makeDesired({ shouldRun: false }), 'STOPPED'],
      ['is removed when no entry places it', makeDesired(), undefined],
    ])('%s', (_, desired, state) => {
      const items = observe({ stored: [makeObserved()], reported: [], desired });
      expect(items?.[0]?.state).toBe(state);
    });

    it('has no container and keeps its last error', () => {
      const stored = [makeObserved({ revision: 'r1', lastError: 'exit 1' })];
      const [item] = observe({ stored, reported: [] }) ?? [];
      expect(item).toMatchObject({ revision: 'r1', lastError: 'exit 1', ports: [] });
      expect(item).not.toHaveProperty('containerId');
      expect(item).not.toHaveProperty('startTime');
    });
  });

  test.each(['STOPPED', 'DELETED'] as const)('a removed microservice that is %s is left out', (status) => {
    expect(observe({ reported: [makeItem({ status })], desired: makeDesired() })).toEqual([]);
  });

  describe('a report with mistakes', () => {
    it('has an item once that the report has twice, with its last value', () => {
      const reported = [makeItem({ status: 'STARTING' }), makeItem()];
      expect(observe({ reported })).toMatchObject([{ uuid: 'ms-1', state: 'RUNNING' }]);
    });

    it('ignores items without id', () => {
      expect(observe({ reported: [makeItem({ id: '' })], desired: makeDesired() })).toEqual([]);
    });

    it('is cut to the bound of the list, items of entries first', () => {
      const reported = Array.from({ length: BOUNDS.report }, (_, index) => makeItem({ id: `a-${index}` }));
      const items = observe({ stored: [makeObserved({ uuid: 'z' })], reported, desired: makeDesired({ uuid: 'z' }) });
      expect(items).toHaveLength(BOUNDS.report);
      expect(items?.at(-1)?.uuid).toBe('z');
    });
  });

  it('has no more bytes than the entries of the node allow, items of entries first', () => {
    const long = 'x'.repeat(1000);
    const reported = Array.from({ length: BOUNDS.report }, (_, index) =>
      makeItem({ id: `a-${index}`, errorMessage: long, lastError: long }),
    );
    const items = observe({ reported: [...reported.slice(1), makeItem({ errorMessage: long })] }) ?? [];
    expect(JSON.stringify(items).length).toBeLessThan(68 * 1024);
    expect(items).toHaveLength(BOUNDS.report);
    expect(items.find(({ uuid }) => uuid === 'ms-1')?.errorMessage).toBe(long);
  });

  describe('a microservice that ends by itself', () => {
    /** A sequence of reports, each merged with what was stored after the one before. */
    const story = (...reports: [second: number, Partial<MicroserviceStatus>][]) =>
      reports.reduce<ObservedMicroservice[]>((stored, [second, item]) => {
        const at = T0 + second * SECOND;
        const startTime = item.status === 'RESTARTING' ? undefined : at;
        const reported = [makeItem({ revision: 'r1', startTime, ...item })];
        return observe({ stored, reported, observation: { agent: '1.0.0', reportedAt: at } }) ?? [];
      }, [])[0];
    const ended = { status: 'RESTARTING', reason: 'Crashed' } as const;
    test.each<[string, ReturnType<typeof story>, boolean | undefined]>([
      ['is steady after one end', story([0, {}], [1, ended], [11, { restartCount: 1 }]), undefined],
      [
        'is unsteady after two ends within a minute',
        story([0, {}], [1, ended], [11, { restartCount: 1 }], [12, { ...ended, restartCount: 1 }]),
        true,
      ],
      ['is unsteady after two ends between two reports', story([0, {}], [30, { restartCount: 2 }]), true],
      [
        'is unsteady after two ends within a minute even when it runs again',
        story(
          [0, {}],
          [1, ended],
          [11, { restartCount: 1 }],
          [12, { ...ended, restartCount: 1 }],
          [32, { restartCount: 2 }],
        ),
        true,
      ],
      [
        'stays unsteady when it ends more than a minute later, after short runs',
        story(
          [0, {}],
          [9, { restartCount: 2 }],
          [10, { ...ended, restartCount: 2 }],
          [99, { restartCount: 3 }],
          [100, { ...ended, restartCount: 3 }],
        ),
        true,
      ],
      [
        'is steady after an end that follows a long run',
        story([0, {}], [9, { restartCount: 2 }], [999, { ...ended, restartCount: 2 }]),
        undefined,
      ],
      [
        'is steady at first with another revision',
        story([0, {}], [9, { restartCount: 2 }], [12, { restartCount: 3, revision: 'r2' }]),
        undefined,
      ],
      [
        'is unsteady after its agent, which counts no ends, says that it is stuck',
        story([0, {}], [3, { status: 'STUCK_IN_RESTART' }], [30, {}]),
        true,
      ],
      [
        'is unsteady with another revision that started before its agent said once more that it is stuck',
        story(
          [0, {}],
          [3, { status: 'STUCK_IN_RESTART' }],
          [30, { revision: 'r2', containerId: 'c-2', startTime: T0 + SECOND }],
        ),
        true,
      ],
      [
        'is steady at first with another revision that started after its agent said that it is stuck',
        story([0, {}], [3, { status: 'STUCK_IN_RESTART' }], [30, { revision: 'r2', containerId: 'c-2' }]),
        undefined,
      ],
    ])('%s', (_, item, isUnsteady) => {
      expect(item?.isUnsteady).toBe(isUnsteady);
    });

    it('changes nothing with further reports of the same loop', () => {
      const stuck = { status: 'STUCK_IN_RESTART', startTime: T0 } as const;
      expect(story([0, {}], [3, stuck], [99, stuck])).toEqual(story([0, {}], [3, stuck]));
    });
  });

  it('what a health check wrote is stored as one line without control characters, whatever the agent sent', () => {
    const healthMessage = `exit code 1: \u001b[2J\n${'\u202e'.repeat(256)}`;
    const stored = observe({ reported: [makeItem({ healthStatus: 'unhealthy', healthMessage })] })?.[0]?.healthMessage;
    expect(stored).toMatch(/^exit code 1: \\u001b\[2J\\u000a(\\u202e)+/);
    expect(stored).toHaveLength(256);
  });

  it('messages lose ids that differ at each attempt, and keep image digests', () => {
    const [a, b] = ['a', 'b'].map((digit) => {
      const id = digit.repeat(64);
      const errorMessage = `container ${id} of sha256:${'c'.repeat(64)} is not running; No such container: ${id}; exec in container ${digit.repeat(12)}`;
      return observe({ reported: [makeItem({ errorMessage, lastError: errorMessage })] })?.[0];
    });
    expect(a?.errorMessage).toBe(b?.errorMessage);
    expect(a?.lastError).toBe(b?.lastError);
    expect(a?.errorMessage).toContain(`sha256:${'c'.repeat(64)}`);
  });

  describe('times of another clock', () => {
    const slow = { reportedAt: T0, report: { systemTime: T0 - 10 * MINUTE } };
    const start = (given: Given) => observe(given)?.[0]?.startTime;
    const item = (ms: number, more: Partial<MicroserviceStatus> = {}) => [makeItem({ startTime: ms, ...more })];

    it('are converted to the clock of the controller', () => {
      const given = { reported: item(T0 - 11 * MINUTE, { lastErrorAt: T0 - 12 * MINUTE }), report: slow.report };
      expect(observe(given)?.[0]).toMatchObject({ startTime: T0 - MINUTE, lastErrorAt: T0 - 2 * MINUTE });
    });

    test.each([-1999, -500, 500, 1999])('do not change by %i ms of jitter', (jitter) => {
      const stored = [makeObserved({ startTime: T0 - MINUTE })];
      const report = { systemTime: T0 - 10 * MINUTE + jitter };
      expect(start({ stored, reported: item(T0 - 11 * MINUTE), report })).toBe(T0 - MINUTE);
    });

    it('change with another container', () => {
      const stored = [makeObserved({ startTime: T0 - MINUTE })];
      expect(start({ stored, reported: item(T0 - MINUTE + SECOND, { containerId: 'c-2' }) })).toBe(
        T0 - MINUTE + SECOND,
      );
    });

    it('change when the same container was restarted', () => {
      const stored = [makeObserved({ startTime: T0 - MINUTE, restartCount: 1 })];
      expect(start({ stored, reported: item(T0, { restartCount: 2 }) })).toBe(T0);
      expect(start({ stored, reported: item(T0, { restartCount: 1 }) })).toBe(T0);
    });

    it('stay corrected when our agent sends a report without a clock reading', () => {
      const stored = [makeObserved({ startTime: T0 - MINUTE, lastErrorAt: T0 - 2 * MINUTE })];
      const reported = item(T0 - 11 * MINUTE, { lastErrorAt: T0 - 12 * MINUTE });
      const observation = { agent: '0.1.0', report: { microserviceStatus: reported } };
      expect(observe({ stored, observation })?.[0]).toMatchObject({
        startTime: T0 - MINUTE,
        lastErrorAt: T0 - 2 * MINUTE,
      });
    });

    it('change with another error', () => {
      const stored = [makeObserved({ lastError: 'exit 1', lastErrorAt: T0 - SECOND })];
      const reported = [makeItem({ lastError: 'exit 2', lastErrorAt: T0 })];
      expect(observe({ stored, reported })?.[0]?.lastErrorAt).toBe(T0);
    });

    it('are absent when there is no container', () => {
      expect(start({ reported: item(0, { status: 'PULLING' }) })).toBeUndefined();
    });
  });

  describe('revision and rebuilds of our own agent', () => {
    const agent = {
      agent: '0.1.0',
      sentRevisions: { 'ms-1': { revision: 'r2', imageId: 'app:2', at: T0 - 5 * MINUTE, rebuildCount: 3 } },
    };

    it('are those that the agent echoes, whatever was sent', () => {
      const reported = [makeItem({ revision: 'r1', rebuildCount: 2 })];
      expect(observe({ reported, observation: { ...agent, report: { microserviceStatus: reported } } })).toMatchObject([
        { revision: 'r1', rebuildCount: 2 },
      ]);
    });

    it('are absent while the agent echoes none', () => {
      const reported = [makeItem({ status: 'PULLING', startTime: undefined })];
      const stored = [makeObserved({ revision: 'r1' })];
      const [item] = observe({ stored, observation: { ...agent, report: { microserviceStatus: reported } } }) ?? [];
      expect(item).not.toHaveProperty('revision');
    });
  });

  describe('the sent revision of an agent that does not echo it', () => {
    const SENT = T0 - MINUTE;
    const sentRevisions = { 'ms-1': { revision: 'r2', imageId: 'app:2', at: SENT, rebuildCount: 1 } };
    const old = makeObserved({ revision: 'r1', startTime: SENT - MINUTE });
    const before = makeItem({ startTime: SENT - MINUTE });
    const after = makeItem({ startTime: SENT + SECOND, containerId: 'c-2' });
    test.each<[string, ObservedMicroservice[] | undefined, MicroserviceStatus, number, string | undefined]>([
      ['applies when the container started after it was sent', [old], after, T0, 'r2'],
      ['does not apply while the old container runs', [old], before, T0, 'r1'],
      ['does not apply to a report from before it was sent', undefined, before, SENT, undefined],
      ['applies to a later report when nothing is stored of the container', undefined, before, T0, 'r2'],
      [
        'applies to a later report when no revision of the container is stored',
        [makeObserved({ startTime: SENT - MINUTE })],
        before,
        T0,
        'r2',
      ],
      [
        'does not apply to a container that was being created when it was sent and started earlier',
        [makeObserved({ state: 'PULLING', startTime: undefined })],
        before,
        T0,
        undefined,
      ],
      [
        'applies to a container that was being created when it was sent and started later',
        [makeObserved({ state: 'PULLING', startTime: undefined })],
        after,
        T0,
        'r2',
      ],
      [
        'does not apply while there is no container',
        undefined,
        makeItem({ status: 'PULLING', startTime: undefined }),
        T0,
        undefined,
      ],
      ['stays when it is sent again', [{ ...old, revision: 'r2' }], before, T0, 'r2'],
    ])('%s', (_, stored, item, reportedAt, want) => {
      const report = { microserviceStatus: [item] };
      expect(observe({ stored, observation: { report, reportedAt, sentRevisions } })?.[0]?.revision).toBe(want);
    });

    it('applies when another leader sent it and the container started before this leader began to lead', () => {
      const sent = { revision: 'r2', imageId: 'app:2', rebuildCount: 0, at: SENT };
      const report = { microserviceStatus: [after] };
      const again = { 'ms-1': { ...sent, at: T0 - SECOND } };
      for (const given of [{}, again])
        expect(
          observe({ stored: [{ ...old, sent }], observation: { report, sentRevisions: given } })?.[0],
        ).toMatchObject({
          revision: 'r2',
          imageId: 'app:2',
          image: 'app:2',
          sent,
        });
    });

    it('does not apply when the old container was only restarted', () => {
      const node = { containerEngine: 'docker' };
      const again = makeItem({ startTime: SENT + SECOND, containerId: 'c-1' });
      const stored = [{ ...old, containerId: 'c-1', imageId: 'app:1', image: 'app:1' }];
      const observation = { report: { microserviceStatus: [again] }, sentRevisions };
      expect(observe({ stored, observation, node })?.[0]).toMatchObject({
        revision: 'r1',
        imageId: 'app:1',
        image: 'app:1',
      });
      // Other engines may name each container of a microservice alike.
      expect(observe({ stored, observation, node: {} })?.[0]).toMatchObject({ revision: 'r2', imageId: 'app:2' });
    });

    it('does not apply to the former container whose agent names no engine and reports the time of its machine late', () => {
      const id = 'c0ffee'.padEnd(64, '0');
      const stored = [{ ...old, containerId: id, startTime: SENT - SECOND }];
      const lag = 5 * SECOND;
      const report = {
        microserviceStatus: [makeItem({ startTime: SENT - SECOND, containerId: id })],
        systemTime: T0 - lag,
      };
      const observation = { report, reportedAt: T0, sentRevisions };
      expect(observe({ stored, observation, node: {} })?.[0]?.revision).toBe('r1');
    });

    it('is the stored one when this leader has sent nothing', () => {
      const report = { microserviceStatus: [before] };
      expect(observe({ stored: [old], observation: { report } })?.[0]?.revision).toBe('r1');
    });

    test.each([
      ['applies when the agent clock is slow and the container started after it was sent', -10 * MINUTE, 1, 'r2'],
      [
        'does not apply when the agent clock is fast and the container started before it was sent',
        10 * MINUTE,
        -1,
        'r1',
      ],
    ])('by the clock of the controller, %s', (_, skew, later, want) => {
      const startTime = SENT + later * 30 * SECOND + skew;
      const report = { systemTime: T0 + skew, microserviceStatus: [makeItem({ startTime })] };
      expect(observe({ stored: [old], observation: { report, sentRevisions } })?.[0]?.revision).toBe(want);
    });
  });

  describe('the sent rebuilds of an agent that does not echo them', () => {
    const SENT = T0 - MINUTE;
    const sentRevisions = { 'ms-1': { revision: 'r1', imageId: 'app:1', at: SENT, rebuildCount: 2 } };
    const stored = [makeObserved({ revision: 'r1', rebuildCount: 1, startTime: SENT - MINUTE })];
    test.each([
      ['count as carried out when a container started after they were sent', SENT + SECOND, 2],
      ['do not count as carried out while the old container runs', SENT - MINUTE, 1],
    ])('%s', (_, startTime, want) => {
      const report = { microserviceStatus: [makeItem({ startTime })] };
      expect(observe({ stored, observation: { report, sentRevisions } })?.[0]?.rebuildCount).toBe(want);
    });
  });
});
