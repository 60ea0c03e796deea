import { readFileSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeBusLookups, makeInputs, NOW } from '../../../testing/inputs.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { MicroserviceEntry } from '../../api/v3/index.ts';
import { entryUuid } from '../../rules/names.ts';
import { makeRegistry } from '../../subjects/catalog/_make.ts';
import { makeKnowledge, makeModel } from '../../subjects/content/_make.ts';
import { makeNode, NODE_UUID } from '../../subjects/nodes/_make.ts';
import { makeApplication, makeEntry, observedReader } from '../../subjects/workloads/_make.ts';
import { type MicroserviceView, microservicesReplySchema } from '../../wire/agent.ts';
import { canonicalJson } from '../../wire/digest.ts';
import { type Digests, SECTIONS } from '../../wire/sections.ts';
import { desiredState } from './desired.ts';

const viewsOf = (inputs: Parameters<typeof makeInputs>[0]) => desiredState(makeInputs(inputs)).microservices;
const viewOf = (entry: Partial<MicroserviceEntry>, inputs: Parameters<typeof makeInputs>[0] = {}) => {
  const [view] = viewsOf({ ...inputs, applications: [makeApplication({ entries: [makeEntry(entry)] })] });
  return view as MicroserviceView;
};
const changed = (before: Digests, after: Digests) =>
  SECTIONS.filter((section) => (before[section] ?? '') !== (after[section] ?? ''));

describe('desiredState', () => {
  const TRANSLATED: Record<
    string,
    [Partial<MicroserviceEntry>, Partial<MicroserviceView>, Parameters<typeof makeInputs>[0]?]
  > = {
    'the image of the architecture': [
      { images: { amd64: 'a:1', arm64: 'b:1' } },
      { imageId: 'b:1' },
      { node: makeNode({ status: { archId: 2 } }) },
    ],
    'the public hub when no registry is named': [{}, { registryId: 1 }],
    'the id of a registry that is named by name': [
      { images: { amd64: 'a', registry: 'team' } },
      { registryId: 9 },
      { registries: [makeRegistry('team', { id: 9 })] },
    ],
    'config as canonical JSON text': [{ config: { b: 1, a: [2] } }, { config: '{"a":[2],"b":1}' }],
    'annotations as JSON text': [
      { container: { annotations: { b: '1', a: '2' } } },
      { annotations: '{"a":"2","b":"1"}' },
    ],
    'one argv in cmd and commands': [{ container: { cmd: ['x'] } }, { cmd: ['x'], commands: ['x'] }],
    'env with its sources resolved, and secrets marked': [
      {
        container: {
          env: [
            { key: 'A', value: '1' },
            { key: 'B', valueFromSecret: 'db/p/q' },
            { key: 'C', valueFromConfigMap: 'site/x' },
          ],
        },
      },
      {
        env: [
          { key: 'A', value: '1' },
          { key: 'B', value: 'hunter2', secret: true },
          { key: 'C', value: 'y' },
        ],
      },
      { secrets: [{ name: 'db', data: { 'p/q': 'hunter2' } }], configMaps: [{ name: 'site', data: { x: 'y' } }] },
    ],
    'extra hosts as name:address': [
      {
        container: {
          extraHosts: [
            { name: 'a', address: '10.0.0.1' },
            { name: 'b', address: '${Agents.gw-2}' },
            { name: 'c', address: '${Apps.plant-a.reader.local}' },
          ],
        },
      },
      { extraHosts: ['a:10.0.0.1', 'b:10.0.0.9', 'c:plant-a.reader'] },
      { nodes: [makeNode({ name: 'gw-2', uuid: 'x', status: { ipAddress: '10.0.0.9' } })] },
    ],
    'a scope that only volumes have': [
      {
        container: {
          volumes: [
            { hostDestination: '/a', containerDestination: '/a', accessMode: 'ro', type: 'bind', scope: 'shared' },
            { hostDestination: 'b', containerDestination: '/b', accessMode: 'ro', type: 'volume', scope: 'shared' },
          ],
        },
      },
      {
        volumeMappings: [
          { hostDestination: '/a', containerDestination: '/a', accessMode: 'ro', type: 'bind', scope: 'private' },
          { hostDestination: 'b', containerDestination: '/b', accessMode: 'ro', type: 'volume', scope: 'shared' },
        ],
      },
    ],
    'sysctls as text': [
      { container: { sysctls: { 'net.ipv4.tcp_syncookies': 1 } } },
      { sysctls: { 'net.ipv4.tcp_syncookies': '1' } },
    ],
  };
  it.each(Object.entries(TRANSLATED))('sends %s', (_, [entry, want, inputs]) => {
    expect(viewOf(entry, inputs)).toMatchObject(want);
  });

  it('sends views that the schema of the wire parses unchanged', () => {
    const microservices = viewsOf({
      applications: [
        makeApplication({ entries: [makeEntry(), makeEntry({ name: 'lost', images: { amd64: 'a', registry: 'x' } })] }),
      ],
    });
    expect(microservicesReplySchema.parse({ microservices })).toEqual({ microservices });
  });

  it('names application and microservice, and is sorted by uuid', () => {
    const entries = ['b', 'a', 'c'].map((name) => makeEntry({ name }));
    const views = viewsOf({ applications: [makeApplication({ entries })] }) as MicroserviceView[];
    expect(views.map(({ uuid }) => uuid)).toEqual(views.map(({ uuid }) => uuid).sort());
    expect(views.map(({ name }) => name).sort()).toEqual(['a', 'b', 'c']);
    expect(views[0]?.application).toBe('plant-a');
  });

  const ABSENT: Record<string, Parameters<typeof makeInputs>[0]> = {
    'a stopped application': { applications: [makeApplication({ spec: { isActivated: false } })] },
    'a stopped microservice': { applications: [makeApplication({ entries: [makeEntry({ isActivated: false })] })] },
    'an application that is being deleted': { applications: [makeApplication({ deletionTimestamp: NOW })] },
    'a microservice of another node': {
      applications: [makeApplication({ entries: [makeEntry({ agent: { name: 'gw-2' } })] })],
      nodes: [makeNode({ name: 'gw-2', uuid: 'x' })],
    },
    'a microservice that an older node of the same name has': {
      node: makeNode({ uuid: '99999999-9999-4999-8999-999999999999' }),
      nodeByName: () => makeNode(),
    },
    'everything on a node that is being deleted': { node: makeNode({ deletionTimestamp: NOW }) },
  };
  it.each(Object.entries(ABSENT))('leaves out %s', (_, given) => {
    const inputs = makeInputs(given);
    expect(desiredState({ ...inputs, nodeByName: given?.nodeByName ?? inputs.nodeByName }).microservices).toEqual([]);
  });

  it('marks stopped entries as entries that should not run', () => {
    const application = makeApplication({ entries: [makeEntry({ isActivated: false }), makeEntry({ name: 'on' })] });
    const { entries } = desiredState(makeInputs({ applications: [application] }));
    expect([...entries.values()].map(({ name, shouldRun }) => [name, shouldRun])).toEqual([
      ['reader', false],
      ['on', true],
    ]);
  });

  it('a failed change of the version that nobody requests any more is due once, so that the agent forgets it', () => {
    const digest = (annotations: Record<string, string>, state: string) =>
      desiredState(
        makeInputs({
          node: makeNode({ annotations, status: { actions: { version: 4 }, update: { state, message: 'no room' } } }),
        }),
      ).digests.version;
    const requested = { [ANNOTATIONS.version]: '{"count": 4, "command": "upgrade"}' };
    expect(digest({}, 'Failed')).toBeDefined();
    expect(digest(requested, 'Failed')).toBeUndefined();
    expect(digest({}, 'Idle')).toBeUndefined();
  });

  it('holds an entry with a negative verdict, with the reason', () => {
    const application = makeApplication({ entries: [makeEntry({ images: { amd64: 'a', registry: 'team' } })] });
    const desired = desiredState(makeInputs({ applications: [application] }));
    const uuid = entryUuid(application, { name: 'reader' });
    expect(desired.microservices).toEqual([
      {
        ...{ uuid, hold: true, reason: 'RegistryNotFound', message: 'no registry "team"' },
        ...{ application: 'plant-a', name: 'reader' },
        // What its role lets it do now, since its container may run on.
        serviceAccount: desired.held.get(uuid)?.serviceAccount,
      },
    ]);
    expect(desired.held.get(uuid)?.serviceAccount).toMatchObject({ roleRef: { name: 'microservice' } });
    expect(desired.held.get(uuid)).toMatchObject({ name: 'reader', imageId: 'a' });
    expect(desired.entries.get(uuid)?.verdict?.reason).toBe('RegistryNotFound');
  });

  it('of two entries with one uuid the one that may run is sent', () => {
    const uuid = '33333333-3333-4333-8333-333333333333';
    const entries = [makeEntry({ name: 'a', uuid }), makeEntry({ name: 'b', uuid })];
    for (const order of [entries, [...entries].reverse()]) {
      const [application] = [makeApplication({ entries: order })];
      expect(viewsOf({ applications: [application as never] })).toMatchObject([{ uuid, name: 'a' }]);
    }
  });

  it('an entry whose uuid belongs to a microservice of another node is held, not stopped', () => {
    const uuid = '33333333-3333-4333-8333-333333333333';
    const loser = makeApplication({ entries: [makeEntry({ uuid })] });
    const winner = makeApplication({
      name: 'plant-0',
      uid: '77777777-7777-4777-8777-777777777777',
      createdAt: '2025-01-01T00:00:00Z',
      entries: [makeEntry({ uuid, agent: { name: 'gw-9' } })],
    });
    const inputs = makeInputs({ applications: [loser], applicationsWithEntry: () => [winner, loser] });
    expect(desiredState(inputs).microservices).toMatchObject([{ uuid, hold: true, reason: 'UuidTaken' }]);
  });

  it('sets system roles only for system applications', () => {
    const roles = (isSystem: boolean) =>
      ['router', 'bus', 'controller', 'debug'].map((name) => {
        const application = makeApplication({ spec: { isSystem }, entries: [makeEntry({ name })] });
        const [view] = viewsOf({ applications: [application] }) as MicroserviceView[];
        return [view?.isSystem, view?.isRouter, view?.isBus, view?.isController].map(Number).join('');
      });
    expect(roles(true)).toEqual(['1100', '1010', '1001', '1000']);
    expect(roles(false)).toEqual(['0000', '0000', '0000', '0000']);
  });

  it('gives the same result for the same inputs, and does not change them', () => {
    const inputs = makeInputs();
    const before = canonicalJson([inputs.node, inputs.applications]);
    const first = desiredState(inputs);
    expect(desiredState(inputs)).toEqual(first);
    expect(canonicalJson([inputs.node, inputs.applications])).toBe(before);
  });
});

describe('requested rebuilds', () => {
  const requested = makeApplication({ annotations: { 'skerry.dev/rebuild': '{"reader":2}' } });
  const uuid = entryUuid(requested, { name: 'reader' });
  const sent = (rebuildCount: number | undefined) =>
    viewsOf({
      applications: [requested],
      node: makeNode({ status: { microservices: [observedReader({ uuid, rebuildCount })] } }),
    })[0];

  it('are a count in the view', () => expect(sent(undefined)).toMatchObject({ rebuildCount: 2, rebuild: true }));
  it('set the flag rebuild until the node reports that it has carried them out', () => {
    expect(sent(1)).toMatchObject({ rebuild: true });
    expect(sent(2)).toMatchObject({ rebuild: false, rebuildCount: 2 });
  });
  it('change the digest of the list, and the report that they were carried out does not', () => {
    const digests = (application: typeof requested, done?: number) =>
      desiredState(
        makeInputs({
          applications: [application],
          node: makeNode({ status: { microservices: [observedReader({ uuid, rebuildCount: done })] } }),
        }),
      ).digests;
    expect(changed(digests(makeApplication()), digests(requested))).toEqual(['microserviceList']);
    expect(changed(digests(requested), digests(requested, 2))).toEqual([]);
  });
});

describe('registries', () => {
  const team = makeRegistry('team', {
    id: 9,
    isPublic: false,
    username: 'bot',
    email: 'bot@example',
    ca: 'Y2E=',
    insecure: true,
  });
  const other = makeRegistry('other', { id: 10, isPublic: false });
  const application = makeApplication({
    entries: [makeEntry(), makeEntry({ name: 'private', images: { amd64: 'a', registry: 'team' } })],
  });
  const given = { applications: [application], registries: [team, other], registryPassword: () => 'hunter2' };

  it('are only those that the entries of the node need, by id', () => {
    expect(desiredState(makeInputs(given)).registries.map(({ id }) => id)).toEqual([1, 9]);
  });

  it('carry credentials only where pulls need them', () => {
    const [hub, own] = desiredState(makeInputs(given)).registries;
    expect(hub).toMatchObject({ isPublic: true, username: '', password: '' });
    expect(own).toMatchObject({
      username: 'bot',
      password: 'hunter2',
      ca: 'Y2E=',
      insecure: true,
      userEmail: 'bot@example',
    });
  });

  it('are not sent for stopped entries', () => {
    const stopped = makeApplication({ spec: { isActivated: false }, entries: application.spec.microservices });
    expect(desiredState(makeInputs({ ...given, applications: [stopped] })).registries).toEqual([]);
  });

  it('are sent for held entries too, whose image may have to be pulled again', () => {
    const held = makeApplication({
      entries: [
        makeEntry({
          images: { amd64: 'a', registry: 'team' },
          container: { env: [{ key: 'A', valueFromSecret: 'no/no' }] },
        }),
      ],
    });
    expect(desiredState(makeInputs({ ...given, applications: [held] })).registries.map(({ id }) => id)).toEqual([9]);
  });
});

describe('settings', () => {
  it('are those that the spec names, and never those that belong to the machine', () => {
    const spec = {
      statusFrequency: 5,
      watchdogEnabled: false,
      latitude: 0,
      longitude: 4,
      containerEngine: 'podman',
      containerEngineUrl: 'unix:///x',
      diskDirectory: '/x',
      logDirectory: '/y',
      description: 'x',
      routerMode: 'none',
    } as const;
    expect(desiredState(makeInputs({ node: makeNode({ spec }) })).config).toEqual({
      statusFrequency: 5,
      watchdogEnabled: false,
      latitude: 0,
      longitude: 4,
    });
  });

  it('are none when the spec names none', () => expect(desiredState(makeInputs()).config).toEqual({}));
});

describe.each(['models', 'knowledge'] as const)('%s of a node', (kind) => {
  const make = kind === 'models' ? makeModel : makeKnowledge;
  const ofItems = kind === 'models' ? 'microserviceModels' : 'microserviceKnowledge';
  const hub = makeRegistry('hub', { id: 7, type: 'hub', isPublic: false, username: 'bot' });
  const spec = { registryId: 7, files: ['*.bin'] };
  const binding = (names: readonly string[], catalog: object = {}) =>
    makeApplication({
      entries: [
        makeEntry({
          [kind]: names.length > 0 ? { bindPath: '/m', items: names.map((name) => ({ name })), ...catalog } : undefined,
        }),
      ],
    });
  const state = (inputs: Parameters<typeof makeInputs>[0]) =>
    desiredState(makeInputs({ registries: [hub], registryPassword: () => 'hunter2', applications: [], ...inputs }));
  const bound = (...names: string[]) => ({
    applications: [binding(names)],
    [kind]: [make('a', spec), make('b', spec)],
  });
  const between = (before: Parameters<typeof makeInputs>[0], after: Parameters<typeof makeInputs>[0]) =>
    changed(state(before).digests, state(after).digests).sort();

  it('come with their registry and its credentials', () => {
    const { registries, [kind]: artifacts } = state({ [kind]: [make('a', { ...spec, nodes: ['gw-1'] })] });
    expect(artifacts.map(({ name, registryId }) => [name, registryId])).toEqual([['a', 7]]);
    expect(registries).toMatchObject([{ id: 7, type: 'hub', username: 'bot', password: 'hunter2' }]);
  });

  it('are those of stopped and held entries too, and none once the node is being deleted', () => {
    const stopped = binding(['a']);
    stopped.spec.isActivated = false;
    const held = binding(['a'], {});
    held.spec.microservices?.forEach((entry) => {
      entry.images = { registry: 'nowhere', amd64: 'x:1' };
    });
    for (const application of [stopped, held])
      expect(state({ ...bound(), applications: [application] })[kind]).toHaveLength(1);
    expect(state({ ...bound('a'), node: makeNode({ deletionTimestamp: NOW }) })[kind]).toEqual([]);
  });

  it('raise their own section when one is changed', () => {
    expect(between(bound('a'), { ...bound('a'), [kind]: [make('a', { ...spec, revision: 'v2' })] })).toEqual([kind]);
  });

  it('raise their own section and that of registries when one is linked', () => {
    const linked = { [kind]: [make('a', { ...spec, nodes: [NODE_UUID] })] };
    expect(between({ [kind]: [make('a', spec)] }, linked)).toEqual([kind, 'registries'].sort());
  });

  it('raise the section of items alone when an entry binds another one that the node has', () => {
    const items = [make('a', { ...spec, nodes: ['gw-1'] }), make('b', { ...spec, nodes: ['gw-1'] })];
    expect(between({ ...bound('a'), [kind]: items }, { ...bound('a', 'b'), [kind]: items })).toEqual([ofItems]);
    expect(between(bound('a'), bound('a', 'b'))).toEqual([kind, ofItems].sort());
  });

  it.each<[string, readonly string[], readonly string[], object, boolean]>([
    ['another item', ['a'], ['b'], {}, false],
    ['one more item', ['a'], ['a', 'b'], {}, false],
    ['the first item', [], ['a'], {}, true],
    ['no item any more', ['a'], [], {}, true],
    ['another path', ['a'], ['a'], { bindPath: '/n' }, true],
    ['other permissions', ['a'], ['a'], { permissions: 'rw' }, true],
    ['the default permissions, written down', ['a'], ['a'], { permissions: 'ro' }, false],
  ])('decide with %s whether a new container is wanted', (_, before, after, catalog, isNew) => {
    const revision = (application: ReturnType<typeof makeApplication>) =>
      (state({ ...bound(), applications: [application] }).microservices[0] as MicroserviceView).revision;
    expect(revision(binding(before)) !== revision(binding(after, catalog))).toBe(isNew);
  });
});

describe('digests', () => {
  const entry: Partial<MicroserviceEntry> = {
    config: { a: 1 },
    container: { env: [{ key: 'P', valueFromSecret: 'db/p' }] },
  };
  const base = {
    node: makeNode(),
    applications: [makeApplication({ entries: [makeEntry(entry)] })],
    secrets: [{ name: 'db', data: { p: '1' } }],
  };
  const withEntry = (more: Partial<MicroserviceEntry>) => ({
    ...base,
    applications: [makeApplication({ entries: [makeEntry({ ...entry, ...more })] })],
  });
  const withNode = (node: Parameters<typeof makeNode>[0]) => ({ ...base, node: makeNode(node) });

  const CHANGES: Record<string, [Parameters<typeof makeInputs>[0], string[]]> = {
    'the same input': [base, []],
    'a change of the config': [withEntry({ config: { a: 2 } }), ['microserviceConfig']],
    'another image': [withEntry({ images: { amd64: 'new:1' } }), ['microserviceList']],
    'another schedule': [withEntry({ schedule: 3 }), ['microserviceList']],
    'minReadySeconds, which the machine does not get,': [withEntry({ minReadySeconds: 30 }), []],
    'the content of a Secret': [{ ...base, secrets: [{ name: 'db', data: { p: '2' } }] }, ['microserviceList']],
    'another key of that Secret': [{ ...base, secrets: [{ name: 'db', data: { p: '1', q: '2' } }] }, []],
    'the deletion of a Secret': [{ ...base, secrets: [] }, ['microserviceList', 'microserviceConfig']],
    'the stop of an application': [
      { ...base, applications: [makeApplication({ spec: { isActivated: false }, entries: [makeEntry(entry)] })] },
      ['microserviceList', 'microserviceConfig', 'registries'],
    ],
    'another description': [
      { ...base, applications: [makeApplication({ spec: { description: 'x' }, entries: [makeEntry(entry)] })] },
      [],
    ],
    'a change of a registry that is used': [
      { ...base, registries: [makeRegistry('remote', { id: 1, url: 'mirror.example' })] },
      ['registries'],
    ],
    'a new registry that is not used': [{ ...base, registries: [makeRegistry('team', { id: 9 })] }, []],
    'a change of a setting': [withNode({ spec: { logLevel: 'debug' } }), ['config']],
    'a setting that belongs to the machine': [withNode({ spec: { diskDirectory: '/x' } }), []],
    'a descriptive field of the node': [withNode({ spec: { location: 'x' } }), []],
    'a reboot request': [withNode({ annotations: { 'skerry.dev/reboot': '1' } }), ['reboot']],
    'a prune request': [withNode({ annotations: { 'skerry.dev/prune': '4' } }), ['prune']],
    'an upgrade request': [
      withNode({ annotations: { 'skerry.dev/version': '{"count":1,"command":"upgrade"}' } }),
      ['version'],
    ],
    'a request that was carried out': [
      withNode({ annotations: { 'skerry.dev/reboot': '1' }, status: { actions: { reboot: 1 } } }),
      [],
    ],
    'a reconcile request, which the controller carries out,': [
      withNode({ annotations: { 'skerry.dev/reconcile': '1' } }),
      [],
    ],
    'a report without a change': [
      withNode({ status: { daemonStatus: 'RUNNING', microservices: [observedReader()] } }),
      [],
    ],
    'the deletion of a node that still reports containers': [
      withNode({ deletionTimestamp: NOW, status: { microservices: [observedReader()] } }),
      ['microserviceList', 'microserviceConfig', 'registries'],
    ],
    'the deletion of a node that reports no containers': [
      withNode({ deletionTimestamp: NOW }),
      ['deleteNode', 'microserviceList', 'microserviceConfig', 'registries'],
    ],
  };
  it.each(Object.entries(CHANGES))('%s changes the digests of exactly its sections', (_, [inputs, want]) => {
    expect(changed(desiredState(makeInputs(base)).digests, desiredState(makeInputs(inputs)).digests)).toEqual(want);
  });

  it('a second request of the same action changes the digest of its section again', () => {
    const digest = (annotation: string) =>
      desiredState(makeInputs(withNode({ annotations: { 'skerry.dev/reboot': annotation } }))).digests.reboot;
    expect(digest('2')).not.toBe(digest('1'));
  });

  it('an empty list has a digest too, so that a new agent fetches it once', () => {
    const { digests } = desiredState(makeInputs({ applications: [] }));
    expect(Object.keys(digests).sort()).toEqual(['config', 'microserviceConfig', 'microserviceList', 'registries']);
    for (const digest of Object.values(digests)) expect(digest).toMatch(/^[0-9a-f]{1,64}$/);
  });

  it('a new revision always changes the digest of the list, and without a new revision only another schedule changes it', () => {
    const images = fc.constantFrom('a:1', 'a:2');
    const one = fc.record({
      image: images,
      config: fc.constantFrom(1, 2),
      schedule: fc.constantFrom(1, 2),
      user: images,
    });
    const state = ({
      image,
      config,
      schedule,
      user,
    }: {
      image: string;
      config: number;
      schedule: number;
      user: string;
    }) =>
      desiredState(
        makeInputs(withEntry({ images: { amd64: image }, config, schedule, container: { runAsUser: user } })),
      );
    fc.assert(
      fc.property(one, one, (a, b) => {
        const [before, after] = [state(a), state(b)];
        const revision = ({ microservices: [view] }: typeof before) => (view as MicroserviceView).revision;
        const sections = changed(before.digests, after.digests);
        expect(sections.includes('microserviceConfig')).toBe(a.config !== b.config);
        expect(revision(before) !== revision(after)).toBe(a.image !== b.image || a.user !== b.user);
        if (revision(before) !== revision(after)) expect(sections).toContain('microserviceList');
        else expect(sections.includes('microserviceList')).toBe(a.schedule !== b.schedule);
      }),
    );
  });
});

describe('golden', () => {
  /**
   * One node with every feature, as its agent gets it. A difference here reaches every machine: digests that change are
   * fetched again by the whole fleet, revisions that change replace its containers.
   */
  it('the desired state of a node with every feature has not changed', () => {
    const path = new URL('testdata/desired.golden.txt', import.meta.url);
    const entries = [
      makeEntry({
        name: 'reader',
        images: { amd64: 'reg.example/reader:2', arm64: 'reg.example/reader:2-arm', registry: 'team' },
        config: { rate: 5 },
        schedule: 10,
        container: {
          env: [
            { key: 'MODE', value: 'fast' },
            { key: 'PASSWORD', valueFromSecret: 'db/password' },
          ],
          ports: [{ internal: 80, external: 8080, protocol: 'tcp' }],
          volumes: [
            {
              hostDestination: 'data',
              containerDestination: '/data',
              accessMode: 'rw',
              type: 'volume',
              scope: 'shared',
            },
          ],
          extraHosts: [{ name: 'writer', address: '${Apps.plant-a.writer.local}' }],
          healthCheck: { test: ['CMD', 'true'], interval: 5 },
          memoryLimit: 64,
        },
      }),
      makeEntry({
        name: 'writer',
        agent: { uuid: NODE_UUID },
        images: { x86: 'writer:1' },
        container: { cmd: ['-v'] },
      }),
      makeEntry({ name: 'refused', images: { amd64: 'x', registry: 'nowhere' } }),
      makeEntry({ name: 'stopped', isActivated: false }),
    ];
    const {
      held,
      leftOut: _,
      entries: known,
      ...sent
    } = desiredState(
      makeInputs({
        node: makeNode({ spec: { statusFrequency: 30, timeZone: 'UTC' }, annotations: { 'skerry.dev/reboot': '1' } }),
        applications: [makeApplication({ entries, annotations: { 'skerry.dev/rebuild': '{"writer":1}' } })],
        registries: [makeRegistry('team', { id: 9, isPublic: false, username: 'bot' })],
        secrets: [{ name: 'db', data: { password: 'hunter2' } }],
        registryPassword: () => 'hunter3',
        revisionKey: 'key',
      }),
    );
    const text = `${JSON.stringify({ ...sent, held: [...held.keys()], entries: Object.fromEntries(known) }, null, 2)}\n`;
    if (process.env.UPDATE_GOLDEN) writeFileSync(path, text);
    expect(text).toBe(readFileSync(path, 'utf8'));
  });
});

describe('a microservice with access to the message bus', () => {
  const UUID = '99999999-9999-4999-8999-999999999999';
  const access = { busConfig: { busAccess: true } };
  const creds = (text: string) => ({
    parts: [],
    facts: { hasDefaultRouter: false, isBusEnabled: true },
    secret: (name: string) => (name === 'skerry-bus-user-1' ? { creds: btoa(text) } : undefined),
    applicationNamed: () => undefined,
  });
  const bus = makeBusLookups({
    userOf: (uuid) => (uuid === UUID ? { name: 'line-1', account: 'plant-a', secret: 'skerry-bus-user-1' } : undefined),
  });
  const application = (spec: object = access, entry: Partial<MicroserviceEntry> = access) =>
    makeApplication({
      spec,
      entries: [makeEntry({ name: 'line-1', uuid: UUID, ...entry })],
    });
  const stateOf = (given: Parameters<typeof makeInputs>[0] = {}) =>
    desiredState(makeInputs({ applications: [application()], bus, platform: creds('A'), ...given }));
  const onlyView = (given?: Parameters<typeof makeInputs>[0]) => stateOf(given).microservices[0] as MicroserviceView;

  it('has its credentials as a file of the system, and two variables that name file and server', () => {
    expect(stateOf().systemFiles).toEqual([{ name: `bus-${UUID}`, files: { 'plant-a/line-1.creds': btoa('A') } }]);
    expect(onlyView()).toMatchObject({
      env: [
        { key: 'BUS_CREDS_PATH', value: '/etc/bus/creds/plant-a/line-1.creds' },
        { key: 'BUS_SERVER_URL', value: 'nats://bus.default.svc.bridge.local:4222' },
      ],
      volumeMappings: [
        {
          type: 'volumeMount',
          hostDestination: `system:bus-${UUID}`,
          containerDestination: '/etc/bus/creds',
          accessMode: 'ro',
        },
      ],
    });
  });

  it.each([
    ['the network of the machine', {}, { hostNetworkMode: true }, 'localhost:4222'],
    ['another port of the server', { busServerPort: 4999 }, {}, 'bus.default.svc.bridge.local:4999'],
    ['no server on the node', { busMode: 'none' }, {}, 'bus.plant.example:4333'],
  ] as const)('reaches its server with %s', (_, spec, container, server) => {
    const applications = [application(access, { ...access, container })];
    const { env } = onlyView({ node: makeNode({ spec }), applications });
    expect(env[1]?.value).toBe(`nats://${server}`);
  });

  it.each([
    ['the server of its node', { busClientTls: true }, {}, 'tls://bus.default.svc.bridge.local:4222'],
    ['the hub', { busMode: 'none' }, { hasTls: true }, 'tls://bus.plant.example:4333'],
  ] as const)(
    'has the certificates of %s beside its credentials, where clients have to connect by TLS',
    (_, spec, door, url) => {
      const secret = (name: string) =>
        name === 'skerry-ca-default-bus-local-ca' ? { 'ca.crt': btoa('CA') } : creds('A').secret(name);
      const given = {
        node: makeNode({ spec }),
        bus: { ...bus, hubFor: () => ({ host: 'bus.plant.example', port: 4333, ...door }) },
        platform: { ...creds('A'), secret },
      };
      const { env, volumeMappings } = onlyView(given);
      expect(env).toEqual([
        { key: 'BUS_CREDS_PATH', value: '/etc/bus/creds/plant-a/line-1.creds' },
        { key: 'BUS_SERVER_URL', value: url },
        { key: 'BUS_CA_PATH', value: '/etc/bus/creds/ca.crt' },
      ]);
      expect(volumeMappings).toEqual(onlyView().volumeMappings);
      const files = { 'plant-a/line-1.creds': btoa('A'), 'ca.crt': btoa('CA') };
      expect(stateOf(given).systemFiles).toEqual([{ name: `bus-${UUID}`, files }]);
      expect(stateOf({ ...given, platform: creds('A') }).systemFiles).toEqual([]);
    },
  );

  it('keeps its container when its credentials change, and gets another one for another server', () => {
    const before = onlyView();
    const renewed = stateOf({ platform: creds('B') });
    expect(renewed.microservices[0]).toEqual(before);
    expect(renewed.digests.systemFiles).not.toBe(stateOf().digests.systemFiles);
    expect(onlyView({ node: makeNode({ spec: { busServerPort: 4999 } }) }).revision).not.toBe(before.revision);
  });

  it.each([
    ['while the bus is off', { bus: undefined }],
    ['without the access of its application', { applications: [application({})] }],
    ['without asking for it', { applications: [application(access, {})] }],
  ] as [string, Parameters<typeof makeInputs>[0]][])('has nothing of it %s', (_, given) => {
    const plain = stateOf({ applications: [application({}, {})], bus: undefined as never });
    const found = stateOf(given);
    expect(found.systemFiles).toEqual([]);
    expect(found.microservices).toEqual(plain.microservices);
    expect(found.digests).toEqual(plain.digests);
  });

  it('keeps its credentials while a verdict keeps its container as it is, and has none once it is stopped', () => {
    const env = [{ key: 'BUS_SERVER_URL', value: 'mine' }];
    const held = stateOf({ applications: [application(access, { ...access, container: { env } })] });
    expect(held.microservices).toMatchObject([{ hold: true, reason: 'ReservedEnv' }]);
    expect(held.systemFiles).toHaveLength(1);
    expect(stateOf({ applications: [application(access, { ...access, isActivated: false })] }).systemFiles).toEqual([]);
  });
});
