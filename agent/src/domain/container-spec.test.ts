import { describe, expect, test } from 'vitest';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { makeEntry, makePlanInput, makeRecord } from '../supervise/plan/_util.ts';
import { create } from '../supervise/plan/steps.ts';
import { containerSpec } from './container-spec.ts';

const ROUTER = 'router.default.svc.bridge.local';
const NAMES = [ROUTER, 'bus.default.svc.bridge.local', 'skerry-agent.default.svc.bridge.local'];
const ACCOUNT = { name: 'm' } as MicroserviceView['serviceAccount'];
const MACHINE = NAMES.map((name) => ({ name, address: 'host-gateway' }));

function extraHostsOf(view: Partial<MicroserviceView>) {
  const entry = makeEntry(view);
  return containerSpec(create(entry, makeRecord(entry), [], 'New'), makePlanInput({}).machine).extraHosts;
}

function specOf(view: Partial<MicroserviceView>, hasEdgeRouter: boolean) {
  const entry = makeEntry(view);
  const { machine } = makePlanInput({});
  return containerSpec(create(entry, makeRecord(entry), [], 'New'), { ...machine, hasEdgeRouter });
}

describe('the name of the router', () => {
  test('is an alias of the container of an edge router, and of no other one', () => {
    const router = { isRouter: true, isSystem: true, application: 'system-a', name: 'router' };
    expect(specOf(router, true).aliases).toContain(ROUTER);
    expect(specOf({ ...router, hostNetworkMode: true }, false).aliases).toEqual([]);
    expect(specOf({ ...router, isSystem: false }, true).aliases).not.toContain(ROUTER);
    expect(specOf({ application: 'router', name: 'default' }, true).aliases).toEqual(['router.default']);
  });

  test('is no line of /etc/hosts of a container beside an edge router, unless that is on the host network', () => {
    const names = (view: Partial<MicroserviceView>, hasEdgeRouter: boolean) =>
      specOf(view, hasEdgeRouter).extraHosts.map(({ name }) => name);
    expect(names({}, true)).toEqual(NAMES.slice(1));
    expect(names({ hostNetworkMode: true }, true)).toEqual(NAMES);
    expect(names({}, false)).toEqual(NAMES);
    expect(names({ extraHosts: [`${ROUTER}:192.0.2.7`] }, true)).toEqual([ROUTER, ...NAMES.slice(1)]);
  });
});

describe('the extra hosts of a container', () => {
  test.each<[string, Partial<MicroserviceView>]>([
    ['with a token', { serviceAccount: ACCOUNT }],
    ['without a token', { serviceAccount: undefined }],
    ['on the host network', { hostNetworkMode: true }],
  ])('have router, bus and agent of the machine: %s', (_, view) => {
    expect(extraHostsOf(view)).toEqual(MACHINE);
  });

  test.each([ROUTER, ROUTER.toUpperCase()])('keep the address that the entry gives to %s', (name) => {
    expect(extraHostsOf({ extraHosts: ['db:10.0.0.1', `${name}:192.0.2.7`] })).toEqual([
      { name: 'db', address: '10.0.0.1' },
      { name, address: '192.0.2.7' },
      ...MACHINE.slice(1),
    ]);
  });
});

describe('the stamp of a container', () => {
  const stampOf = (view: Partial<MicroserviceView>, scope: 'managed' | 'local' = 'managed') => {
    const entry = makeEntry({ uuid: 'u', name: 'web', application: 'shop', ...view });
    const { machine } = makePlanInput({});
    return containerSpec(create(entry, makeRecord(entry), [], 'New'), { ...machine, scopeOf: () => scope });
  };
  const variables = ({ env }: { env: string[] }) =>
    Object.fromEntries(env.map((each) => each.split('=')).filter(([name]) => name?.startsWith('SKERRY_')));

  test('says in labels and variables what a microservice is, and who wants it', () => {
    for (const scope of ['managed', 'local'] as const) {
      const spec = stampOf({}, scope);
      expect(spec.labels).toMatchObject({
        'app.kubernetes.io/name': 'web',
        'app.kubernetes.io/instance': 'shop.web',
        'app.kubernetes.io/part-of': 'shop',
        'app.kubernetes.io/managed-by': 'skerry-agent',
        'skerry.dev/microservice-uid': 'u',
        'skerry.dev/node-uid': 'n',
        'skerry.dev/scope': scope,
        'skerry.dev/role': 'workload',
        'skerry.dev/system': 'false',
        'skerry.dev/runtime-engine': 'docker',
        'skerry.dev/host-network': 'false',
        'skerry.dev/healthcheck': 'false',
      });
      expect(variables(spec)).toEqual({
        SKERRY_MICROSERVICE_UID: 'u',
        SKERRY_MICROSERVICE_NAME: 'web',
        SKERRY_APPLICATION_NAME: 'shop',
        SKERRY_NODE_UID: 'n',
        SKERRY_SCOPE: scope,
        SKERRY_RUNTIME_ENGINE: 'docker',
        SKERRY_ROLE: 'workload',
      });
    }
  });

  test.each([
    ['router', { isRouter: true }],
    ['bus', { isBus: true }],
    ['controller', { isController: true }],
  ] as const)('has the role %s for a microservice of the system alone', (role, flag) => {
    const own = stampOf({ ...flag, isSystem: true });
    expect([own.labels['skerry.dev/role'], variables(own).SKERRY_ROLE]).toEqual([role, role]);
    expect(own.labels['skerry.dev/system']).toBe('true');
    expect(stampOf(flag).labels['skerry.dev/role']).toBe('workload');
  });

  test('leaves the customary labels to annotations, and its own to nobody', () => {
    const annotations = JSON.stringify({ 'app.kubernetes.io/part-of': 'suite', 'skerry.dev/role': 'router' });
    expect(stampOf({ annotations }).labels).toMatchObject({
      'app.kubernetes.io/part-of': 'suite',
      'skerry.dev/role': 'workload',
    });
  });

  test('replaces no container that an earlier version made', () => {
    const digest = ({ labels }: { labels: Record<string, string> }) => labels['skerry.dev/digest'];
    expect(digest(stampOf({}, 'local'))).toBe(digest(stampOf({}, 'managed')));
    expect(digest(stampOf({ isSystem: true, isRouter: true }))).toBe(digest(stampOf({})));
  });
});
