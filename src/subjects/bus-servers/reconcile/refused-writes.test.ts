import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { REFUSALS, RefusedWrites } from '../../../../testing/refused-writes.ts';
import { busOf, shopWithBus } from '../../bus-accounts/_fleet.ts';
import { HUB_NAMES } from '../rules/hub.ts';

/** An API server that refuses the first write of each object of one kind by the leader, at each step of the life of the hub. */
let fleet: InMemoryController;
let refused: RefusedWrites;
const ENV = { BUS_ENABLED: 'true', BUS_HUB_REPLICAS: '3', BUS_HUB_IMAGE: 'mirror.example/nats:2.15' };
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: ENV });
  refused = new RefusedWrites(fleet);
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  refused.end();
  await fleet.reset();
});

const bus = busOf(() => fleet);
/** Objects that the hub consists of: `plural/name`. Each has a story of its own, as the back-off of one run after another would be long. */
const OBJECTS: readonly (readonly [what: string, resources: RegExp])[] = [
  ['the hub itself', /^bushubs\//],
  ['its members', /^statefulsets\//],
  ['its Services', /^services\//],
  ['the budget of disruptions', /^poddisruptionbudgets\//],
  ['the network policy', /^networkpolicies\//],
  ['its certificates', /^certificates\//],
  ['its configuration', /^secrets\/skerry-bus-hub$/],
];
const CASES = REFUSALS.flatMap(([how, refusal]) => OBJECTS.map(([what, of]) => [what, how, refusal, of] as const));
const resource = (group: string, plural: string, kind: string) => ({
  ...{ group, version: 'v1', plural, kind },
  namespaced: true,
});
const CHILDREN = {
  members: [resource('apps', 'statefulsets', 'StatefulSet'), HUB_NAMES.members],
  disruptions: [resource('policy', 'poddisruptionbudgets', 'PodDisruptionBudget'), HUB_NAMES.members],
  network: [resource('networking.k8s.io', 'networkpolicies', 'NetworkPolicy'), HUB_NAMES.members],
  service: [resource('', 'services', 'Service'), HUB_NAMES.service],
  headless: [resource('', 'services', 'Service'), HUB_NAMES.headless],
} as const;

test.each(CASES)(
  'the servers of the hub are made, changed and ended although writes of %s are refused as %s',
  async (_, __, refusal, resources) => {
    refused.begin(refusal, resources);
    const find = (of: keyof typeof CHILDREN) =>
      fleet.cluster.client.find(CHILDREN[of][0] as never, { namespace: NAMESPACE, name: CHILDREN[of][1] });
    const until = (read: () => unknown) => expect.poll(read, { timeout: 30_000 });
    const hub = () => fleet.stores.busHubs.list()[0];
    const found = async () => {
      const all = await Promise.all((Object.keys(CHILDREN) as (keyof typeof CHILDREN)[]).map(find));
      return all.filter((one) => one !== undefined).length;
    };
    await fleet.nextTerm();
    await bus.send('POST', '/application', shopWithBus());
    await until(found).toBe(Object.keys(CHILDREN).length);
    await until(() => hub()?.status?.members).toBe(3);
    refused.nextRound();
    const stored = hub();
    if (!stored) throw new Error('no hub');
    fleet.cluster.edit(stored, ({ spec }) => Object.assign(spec, { replicas: 1, leafPort: 7_000 }));
    await until(async () => (await find('members'))?.spec).toMatchObject({ replicas: 1 });
    await until(async () => JSON.stringify((await find('service'))?.spec)).toContain('7000');
    await until(() => bus.texts(HUB_NAMES.config)['server.conf']).toContain('7000');
    refused.nextRound();
    const changed = hub();
    if (!changed) throw new Error('no hub');
    fleet.cluster.edit(changed, ({ spec }) => Object.assign(spec, { isExternal: true, host: 'bus.example' }));
    await until(found).toBe(0);
    await until(() => hub()?.status?.host).toBe('bus.example');
    expect(bus.texts(HUB_NAMES.config)['store-key']).toBeDefined();
    expect(refused.count).toBeGreaterThan(0);
  },
  120_000,
);
