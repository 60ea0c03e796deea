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
