import { afterAll, beforeAll, expect, test } from 'vitest';
import { type InMemoryController, NAMESPACE, startInMemoryController } from '../../../testing/in-memory-controller.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { nodeUuid } from '../../rules/identity.ts';
import { servicesOn } from '../services/_fleet.ts';

/** A controller in memory whose network has room for four interior routers instead of 128. The default router is one of them. */
const NODES = 4;
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(NODES, { ...servicesOn({ ROUTER_HUB: 'true' }), mostInterior: 4 });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());

const node = (i: number) => fleet.stores.nodes.get(NAMESPACE, `gateway-${i}`) as EdgeNode;
const edit = (i: number, spec: Partial<EdgeNode['spec']>) =>
  fleet.cluster.edit(node(i), (copy) => Object.assign(copy.spec, spec));
const condition = (i: number) => node(i).status?.conditions?.find(({ type }) => type === 'RouterReady');
const hasRouter = (i: number) =>
  fleet.stores.applications
    .get(NAMESPACE, `system-gateway-${i}`)
    ?.spec.microservices?.some(({ name, container }) => name === 'router' && container?.hostNetworkMode === true) ===
  true;
const isSent = (i: number) =>
  fleet.desired(nodeUuid(node(i)))?.systemFiles.some(({ name }) => name === 'router-config') === true;
/** Nodes with an interior router. */
const withRouter = () => Array.from({ length: NODES }, (_, i) => i).filter((i) => hasRouter(i) && isSent(i));
/** The machine reports that it has what it is sent, and nothing else: a router that is to end has ended. */
async function report(i: number) {
  fleet.report(node(i));
  await fleet.settle();
}
const soon = <T>(read: () => T) => expect.poll(read, { timeout: 15_000 });

test('an interior router that the network has no room for is not made, its node says so, and those that are there stay, until one of them ends', async () => {
  edit(0, { routerMode: 'none' });
  for (const i of [1, 2, 3]) edit(i, { routerMode: 'interior', host: `gw-${i}.example` });
  await soon(withRouter).toEqual([1, 2, 3]);
  // The oldest node comes last, since the others are there.
  edit(0, { routerMode: 'interior', host: 'gw-0.example' });
  await soon(() => condition(0)).toMatchObject({ status: 'False', reason: 'TooManyInteriorRouters' });
  expect(withRouter()).toEqual([1, 2, 3]);
  await report(0);
  expect(node(0).status?.platformStatus).toMatchObject({ phase: 'Failed' });
  expect(condition(2)?.reason).not.toBe('TooManyInteriorRouters');
  edit(2, { routerMode: 'edge' });
  await soon(withRouter).toEqual([0, 1, 3]);
  await soon(() => condition(0)?.reason).not.toBe('TooManyInteriorRouters');
  edit(2, { routerMode: 'interior' });
  await soon(() => condition(2)).toMatchObject({ reason: 'TooManyInteriorRouters' });
  expect(withRouter()).toEqual([0, 1, 3]);
  // Whoever leads next decides the same.
  await fleet.nextTerm();
  expect(withRouter()).toEqual([0, 1, 3]);
}, 60_000);
