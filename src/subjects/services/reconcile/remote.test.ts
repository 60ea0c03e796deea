import { describe, expect, test } from 'vitest';
import { NAMESPACE } from '../../../../testing/in-memory-controller.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { servicesInMemory } from '../_fleet.ts';

/** A controller in memory outside of a cluster: the router of the first node of the system is the default router. */
const on = servicesInMemory(3, { CONTROL_PLANE: 'remote' });
const node = (i: number) => on.fleet.stores.nodes.get(NAMESPACE, `gateway-${i}`) as EdgeNode;
async function edit(i: number, spec: Partial<EdgeNode['spec']>) {
  on.fleet.cluster.edit(node(i), (copy) => Object.assign(copy.spec, spec));
  await on.fleet.settle();
}
const endpoint = (name: string) => {
  const { serviceEndpoint, servicePort, bridgePort } = on.service(name)?.status ?? {};
  return { serviceEndpoint, isSamePort: servicePort === bridgePort };
};
const writes = () =>
  [...on.fleet.cluster.writes].reduce((sum, [verb, count]) => sum + (/ services/.test(verb) ? count : 0), 0);
const soon = <T>(read: () => T) => expect.poll(read, { timeout: 15_000 });
const external = { type: 'external', resource: 'db.example', targetPort: 5432 };

describe('a service on the control plane remote', () => {
  test('shows the address of the first node of the system, and follows its address, its end and another one', async () => {
    for (const name of ['db', 'log'])
      expect((await on.send('POST', '/services', { name, ...external })).status).toBe(201);
    expect(endpoint('db').serviceEndpoint).toBeUndefined();
    await edit(0, { isSystem: true, host: 'first.example' });
    for (const name of ['db', 'log'])
      await soon(() => endpoint(name)).toEqual({ serviceEndpoint: 'first.example', isSamePort: true });
    await edit(0, { host: 'second.example' });
    for (const name of ['db', 'log']) await soon(() => endpoint(name).serviceEndpoint).toBe('second.example');
    await edit(1, { host: 'gw.example' });
    await edit(0, { isSystem: false });
    await soon(() => endpoint('db').serviceEndpoint).toBeUndefined();
    await edit(1, { isSystem: true });
    await soon(() => endpoint('db').serviceEndpoint).toBe('gw.example');
  });

  test('is not touched by an edit of another node', async () => {
    await edit(1, { isSystem: true, host: 'gw.example' });
    await on.send('POST', '/services', { name: 'db', ...external });
    await soon(() => endpoint('db').serviceEndpoint).toBe('gw.example');
    await on.fleet.settle();
    const before = writes();
    await edit(2, { host: 'other.example' });
    await edit(1, { description: 'the hub' });
    expect(writes()).toBe(before);
    expect(on.service('db')?.status?.serviceEndpoint).toBe('gw.example');
  });

  test('leads to its backend by the router of the first node of the system alone', async () => {
    await edit(1, { isSystem: true, host: 'gw.example' });
    await on.send('POST', '/services', { name: 'db', ...external });
    const config = (i: number) => {
      const sets = on.fleet.desired(nodeUuid(node(i)))?.systemFiles ?? [];
      const { files = {} } = sets.find(({ name }) => name === 'router-config') ?? {};
      return Buffer.from(files['skrouterd.json'] ?? '', 'base64').toString();
    };
    await soon(() => [0, 1, 2].map((i) => config(i).includes('"db-connector"'))).toEqual([false, true, false]);
    expect([0, 1, 2].map((i) => config(i).includes('"db-listener"'))).toEqual([false, true, false]);
  });
});
