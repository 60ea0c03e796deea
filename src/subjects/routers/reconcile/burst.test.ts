import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';

/** How often the configuration of the default router is written in a burst of services. */
const PACE_MS = 1_000;
const SERVICES = 200;
let fleet: InMemoryController;
/** Unix ms of each write of the configuration */
const writes: number[] = [];
beforeAll(async () => {
  fleet = await startInMemoryController(1, {
    env: { ROUTERS_ENABLED: 'true', ROUTER_HUB: 'true' },
    hubPaceMs: PACE_MS,
  });
  fleet.stores.configMaps.subscribe(({ object }) => {
    if (object.metadata.name === 'skerry-router') writes.push(Date.now());
  });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());

const text = () => fleet.stores.configMaps.get(NAMESPACE, 'skerry-router')?.data?.['skrouterd.json'] ?? '';
const create = (name: string) =>
  fleet.rest('POST', '/services', { name, type: 'cluster', resource: 'db.example', targetPort: 5432 });
const quiet = () => expect.poll(() => Date.now() - (writes.at(-1) ?? 0), { timeout: 10_000 }).toBeGreaterThan(PACE_MS);

test('a single service is in the configuration of the default router by one write', async () => {
  await quiet();
  const before = writes.length;
  await create('first');
  await expect.poll(() => text().includes('"first-listener"'), { interval: 5, timeout: 10_000 }).toBe(true);
  expect(writes.length - before).toBe(1);
});

test('a burst of services is in the configuration of the default router by few writes', async () => {
  await quiet();
  const [before, from] = [writes.length, Date.now()];
  const names = Array.from({ length: SERVICES }, (_, i) => `burst-${i}`);
  for (let i = 0; i < SERVICES; i += 20) await Promise.all(names.slice(i, i + 20).map(create));
  await expect
    .poll(() => names.filter((name) => !text().includes(`"${name}-listener"`)), { timeout: 20_000 })
    .toEqual([]);
  const most = Math.ceil((Date.now() - from) / PACE_MS) + 1;
  expect(writes.length - before).toBeLessThanOrEqual(most);
  await quiet();
  // Nothing is written at rest.
  const rest = writes.length;
  await quiet();
  expect(writes.length).toBe(rest);
}, 60_000);
