import { afterAll, beforeAll, expect, test } from 'vitest';
import { type InMemoryController, NAMESPACE, startInMemoryController } from '../../../testing/in-memory-controller.ts';
import { nodeUuid } from '../../rules/identity.ts';

/** A microservice whose role a user made: what agents get of it. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1);
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());

const ruleFor = (...verbs: string[]) => [{ apiGroups: ['agent.skerry.dev/v1'], resources: ['microservices'], verbs }];

const send = (method: string, path: string, body?: object) =>
  fleet.request(method, path, { token: 'admin', ...(body && { body }) });

const pump = () => fleet.desired(nodeUuid(fleet.node(0)))?.microservices.find((one) => one.name === 'pump');
/** The rules that the machine has for the microservice. */
const rules = () => {
  const view = pump();
  return view && 'serviceAccount' in view ? view.serviceAccount?.rules : undefined;
};

test('the machine of a microservice with a role of a user gets its rules and each change of them, and none any more once kubectl has deleted the role, while the microservice continues', async () => {
  expect((await send('POST', '/roles', { name: 'operator', rules: ruleFor('get') })).status).toBe(201);
  const entry = {
    ...{ name: 'pump', agentName: 'gateway-0', images: [{ containerImage: 'a:1', archId: 1 }] },
    serviceAccount: { roleRef: { kind: 'Role', name: 'operator' } },
  };
  expect((await send('POST', '/application', { name: 'shop', microservices: [entry] })).status).toBe(201);
  await expect.poll(rules).toMatchObject(ruleFor('get'));
  await send('PATCH', '/roles/operator', { name: 'operator', rules: ruleFor('get', 'create') });
  await expect.poll(rules).toMatchObject(ruleFor('get', 'create'));
  expect((await send('DELETE', '/roles/operator')).status).toBe(409);
  const { roles } = fleet.stores;
  await fleet.cluster.client.delete(roles.resource, { name: 'operator', namespace: NAMESPACE });
  await expect.poll(pump).toMatchObject({ hold: true, reason: 'RoleNotFound' });
  expect(rules()).toEqual([]);
});
