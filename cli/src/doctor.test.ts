import { expect, test } from 'vitest';
import type { KubeClient } from '../../src/kube/mod.ts';
import { KINDS } from '../../src/subjects/kinds.ts';
import { createPlugin } from './_plugin.ts';

/** What the doctor says of routers, services and the message bus. */
const PLURALS = Object.values(KINDS).map(({ definition }) => ({ name: definition.plural }));
const plugin = (objects: Readonly<Record<string, readonly object[]>>) => {
  const client = {
    list: async ({ plural }: { plural: string }) => ({ items: objects[plural] ?? [], metadata: {} }),
    find: async () => undefined,
    request: async () => ({ gitVersion: 'v1.36.3', minor: '36', resources: PLURALS }),
  } as unknown as KubeClient;
  return createPlugin(client, 'skerry');
};
const object = (kind: string, name: string, states: Readonly<Record<string, string>>) => ({
  kind,
  metadata: { name },
  status: { conditions: Object.entries(states).map(([type, status]) => ({ type, status })) },
});
const HUB = object('RouterHub', 'default-router', { Ready: 'True' });

test.each([
  ['nothing', {}, /ok +routers +off, as long as ROUTERS_ENABLED is not set/],
  [
    'services that are ready',
    { routerhubs: [HUB], services: [object('Service', 'db', { Ready: 'True', Listening: 'True' })] },
    /ok +routers +a default router, services: 1, all ready/,
  ],
  [
    'a service that is not ready, and one that no router listens for',
    {
      routerhubs: [HUB],
      services: [
        object('Service', 'db', { Ready: 'False' }),
        object('Service', 'log', { Ready: 'True', Listening: 'False' }),
      ],
    },
    /WARNING +routers +not ready, or without a router that listens: service\/db, service\/log/,
  ],
])('the doctor looks at routers and services: %s', async (_, objects, expected) => {
  expect((await plugin(objects)('doctor')).out).toMatch(expected);
});

const BUS = {
  busoperators: [object('BusOperator', 'bus-operator', { Ready: 'True' })],
  bushubs: [object('BusHub', 'hub', { Ready: 'True' })],
  bususers: [object('BusUser', 'plant-pump', { Ready: 'True' })],
};

test.each([
  ['nothing', {}, /ok +message bus +off, as long as BUS_ENABLED is not set/],
  [
    'objects that are ready',
    { ...BUS, busaccounts: [object('BusAccount', 'plant', { Ready: 'True' })] },
    /ok +message bus +a hub, 1 accounts, 1 users, all ready/,
  ],
  [
    'a hub and a user that are not ready',
    {
      ...BUS,
      bushubs: [object('BusHub', 'hub', { Ready: 'False' })],
      bususers: [object('BusUser', 'plant-pump', { Ready: 'False' })],
    },
    /WARNING +message bus +not ready: bushub\/hub, bususer\/plant-pump/,
  ],
  [
    'an account that trusts a former key',
    { ...BUS, busaccounts: [object('BusAccount', 'plant', { Ready: 'True', CredentialsOutdated: 'True' })] },
    /WARNING +message bus +users hold credentials of a former key: busaccount\/plant/,
  ],
])('the doctor looks at the message bus: %s', async (_, objects, expected) => {
  expect((await plugin(objects)('doctor')).out).toMatch(expected);
});
