import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { REFUSALS, RefusedWrites } from '../../../../testing/refused-writes.ts';
import { busOf } from '../../bus-accounts/_fleet.ts';
import { HUB_NAMES } from '../rules/hub.ts';

/**
 * An API server that refuses every write of one object of the hub by the leader, at each step of its life, until nothing happens any more: what comes
 * afterwards comes by the retry alone.
 */
let fleet: InMemoryController;
let refused: RefusedWrites;
const ENV = { BUS_ENABLED: 'true', BUS_HUB_REPLICAS: '3', BUS_HUB_IMAGE: 'mirror.example/nats:2.15' };
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: ENV });
  refused = new RefusedWrites(fleet);
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => refused.end());

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
/** The others are for the night: each takes some seconds of back-off. */
const BY_DAY: readonly string[] = ['the hub itself', 'its members'];
const CASES = REFUSALS.flatMap(([how, refusal]) =>
  OBJECTS.filter(([what]) => process.env.SKERRY_NIGHTLY !== undefined || BY_DAY.includes(what)).map(
    ([what, of]) => [what, how, refusal, of] as const,
  ),
);
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
    const find = (of: keyof typeof CHILDREN) =>
      fleet.cluster.client.find(CHILDREN[of][0] as never, { namespace: NAMESPACE, name: CHILDREN[of][1] });
    const hub = () => fleet.stores.busHubs.list()[0];
    const found = async () => {
      const all = await Promise.all((Object.keys(CHILDREN) as (keyof typeof CHILDREN)[]).map(find));
      return all.filter((one) => one !== undefined).length;
    };
    const edit = (changes: object) => {
      const stored = hub();
      if (!stored) throw new Error('there is no hub');
      fleet.cluster.edit(stored, ({ spec }) => Object.assign(spec, changes));
    };
    /** Steps that had to wait for refused writes. */
    const delayed: string[] = [];
    /** Takes a step, and waits until what follows from it is there. */
    async function step(name: string, begin: () => unknown, isDone: () => Promise<boolean>): Promise<void> {
      const before = refused.count;
      refused.nextRound();
      await begin();
      await fleet.settle();
      if (refused.count > before && !(await isDone())) delayed.push(name);
      refused.relent();
      await expect.poll(isDone, { timeout: 30_000 }).toBe(true);
    }

    refused.begin(refusal, resources, { lasts: true });
    // The leader makes a hub anew once the former one is removed.
    await step('made', fleet.reset, async () => {
      const isWhole = (await found()) === Object.keys(CHILDREN).length;
      return isWhole && hub()?.status?.members === 3 && bus.texts(HUB_NAMES.config)['store-key'] !== undefined;
    });
    await step(
      'changed',
      () => edit({ replicas: 1, leafPort: 7_000 }),
      async () => {
        const { replicas } = ((await find('members')) as { spec: { replicas?: number } } | undefined)?.spec ?? {};
        const texts = [JSON.stringify(await find('service')), bus.texts(HUB_NAMES.config)['server.conf']];
        return replicas === 1 && hub()?.status?.members === 1 && texts.every((text) => text?.includes('7000'));
      },
    );
    await step(
      'ended',
      () => edit({ isExternal: true, host: 'bus.example' }),
      async () => (await found()) === 0 && hub()?.status?.host === 'bus.example',
    );
    expect(bus.texts(HUB_NAMES.config)['store-key']).toBeDefined();
    expect(delayed).not.toEqual([]);
  },
  120_000,
);
