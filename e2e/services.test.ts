import { afterAll, beforeAll, expect, test } from 'vitest';
import { listeners } from './_listeners.ts';
import { type RouterMachine, type RouterMachines, startRouterMachines } from './_services.ts';
import { until } from './_stack.ts';

/**
 * Routers on two machines with engines of their own, one of which nobody dials, and the default router. ROUTER names the real program; else
 * all routers are our stand-in.
 */
let net: RouterMachines;
let second: RouterMachine;

beforeAll(async () => {
  net = await startRouterMachines();
  [, second] = net.machines;
  for (const { node } of net.machines) await net.set(node, { routerMode: 'edge' });
}, 300_000);
afterAll(() => net?.[Symbol.asyncDispose](), 60_000);

test('the router of each machine is ready, and opens the port for clients with a certificate alone', async () => {
  for (const { node } of net.machines) await net.untilRouterReady(node);
  for (const machine of net.machines) {
    const router = await until('the router', () => net.routerOf(machine));
    const { messagingPort } = (await net.stack.node(machine.node))?.spec ?? {};
    const open = listeners(router.State.Pid).filter(({ isLoopback }) => !isLoopback);
    expect(open.map(({ port }) => port)).toEqual([messagingPort]);
    expect(Object.keys(router.HostConfig.PortBindings ?? {})).toEqual([`${messagingPort}/tcp`]);
  }
}, 300_000);

test('a router that becomes interior is replaced once and opens its three ports, and none leaves nothing', async () => {
  const before = await until('the router', () => net.routerOf(second));
  await net.set(second.node, { routerMode: 'interior', host: 'gw-2.example' });
  const now = await until('another router', async () => {
    const router = await net.routerOf(second);
    return router && router.Id !== before.Id && router;
  });
  await net.untilRouterReady(second.node);
  const { messagingPort, edgeRouterPort, interRouterPort } = (await net.stack.node(second.node))?.spec ?? {};
  const own = [messagingPort, edgeRouterPort, interRouterPort];
  const open = listeners(now.State.Pid, { own: true }).filter(({ isLoopback }) => !isLoopback);
  expect(open.map(({ port }) => port).sort()).toEqual(own.sort());
  expect((await net.routerOf(second))?.Id).toBe(now.Id);
  await net.set(second.node, { routerMode: 'none', networkRouter: null });
  await until('no router', async () => (await net.routerOf(second)) === undefined);
  await net.set(second.node, { routerMode: 'edge' });
  await net.untilRouterReady(second.node);
}, 300_000);
