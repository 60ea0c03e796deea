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
