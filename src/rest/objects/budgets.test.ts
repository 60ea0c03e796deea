import { describe, expect, test } from 'vitest';
import { ANNOTATIONS, API_VERSION, LABELS } from '../../api/names.ts';
import { byKey } from '../../datastore/stores.ts';
import { trackUsage } from '../../datastore/usage.ts';
import { createVirtualClock } from '../../kube/_util.ts';
import { type BudgetSettings, budgetsOf, DEFAULT_BUDGETS, NO_USAGE, type Usage } from '../../rules/budget.ts';
import { createMemoryDependencies } from '../_memory.ts';
import { serveInMemory } from '../_server.ts';
import type { Caller } from '../contract/access.ts';
import type { WriteBudgets } from '../contract/dependencies.ts';
import { createWriteBudgets } from './budgets.ts';

const MIB = 2 ** 20;

/** Replicas of the REST API over objects in memory, each with these budgets. */
async function setUp(settings: Partial<BudgetSettings> = {}) {
  const refused: object[] = [];
  const memory = createMemoryDependencies();
  const budgets = createWriteBudgets({
    usage: trackUsage(byKey(memory.stores)),
    budgets: budgetsOf({ ...DEFAULT_BUDGETS, ...settings }),
    metrics: { budgetRefused: (labels) => refused.push(labels) },
  });
  const client = await serveInMemory({ deps: { ...memory, budgets } });
  const as = (role: string) => client.as(role);
  const map = (name: string, bytes: number) => ({ json: { name, data: { text: 'x'.repeat(bytes) } } });
  return { memory, usage: budgets.usage, as, map, refused };
}

describe('budgets of what users store', () => {
  test('a ConfigMap that exceeds the budget of a user gets 413 with what to do, and nothing is stored', async () => {
    const { as, map, memory, refused } = await setUp({ contentMiB: 2 });
    const developer = as('developer');
    expect((await developer.post('/configmaps', map('first', 600_000))).status).toBe(201);
    const reply = await developer.post('/configmaps', map('second', 600_000));
    expect(reply).toMatchObject({
      status: 413,
      body: {
        name: 'PayloadTooLargeError',
        code: 'BUDGET_EXCEEDED',
        message:
          'you would store 1.1 MiB of Secrets and ConfigMaps, and the budget is 1.0 MiB: delete Secrets or ConfigMaps that nothing uses, or have the operator raise budgets.contentMiB or budgets.userPercent',
      },
    });
    expect(memory.stores.configMaps.size).toBe(1);
    expect(refused).toEqual([{ budget: 'content', scope: 'user' }]);
    expect((await developer.delete('/configmaps/first')).status).toBe(200);
    expect((await developer.post('/configmaps', map('second', 600_000))).status).toBe(201);
  });

  test('20 requests at once store no more than the budget', async () => {
    const { as, map, usage } = await setUp({ contentMiB: 8 });
    const developer = as('developer');
    const statuses = await Promise.all(
      Array.from(
        { length: 20 },
        async (_, i) => (await developer.post('/configmaps', map(`map-${i}`, 900_000))).status,
      ),
    );
    expect(statuses.filter((status) => status === 201)).toHaveLength(4);
    expect(statuses.filter((status) => status === 413)).toHaveLength(16);
    expect(usage.installation.content).toBeLessThanOrEqual(4 * MIB);
  });

  test('what many users store together stays within the budget of the installation, and an sre has the reserve', async () => {
    const { as, map, memory, usage } = await setUp({ contentMiB: 4, userPercent: 100 });
    const other = { metadata: { name: 'others', namespace: 'test', uid: 'u', resourceVersion: '1' } };
    memory.stores.configMaps.set({
      ...{ apiVersion: 'v1', kind: 'ConfigMap', ...other, data: { text: 'x'.repeat(4 * MIB - 10_000) } },
    });
    expect(await as('developer').post('/configmaps', map('more', 100_000))).toMatchObject({
      status: 413,
      body: { message: expect.stringContaining('the installation would store 4.1 MiB') },
    });
    expect((await as('sre').post('/configmaps', map('mend', 100_000))).status).toBe(201);
    expect((await as('admin').post('/configmaps', map('too-much', 800_000))).status).toBe(413);
    expect(usage.installation.content).toBeLessThan(4.4 * MIB);
  });

  test('many small objects of any kind are bounded by their number', async () => {
    const { as } = await setUp({ count: 20 });
    const statuses = [];
    for (let i = 0; i < 12; i++)
      statuses.push(
        (await as('developer').post('/runtimeClasses', { json: { name: `r-${i}`, handler: 'runc' } })).status,
      );
    expect(statuses.filter((status) => status === 413)).toHaveLength(2);
  });

  test('an edit that makes nothing grow is carried out although the budget is used up', async () => {
    const { as, memory } = await setUp({ contentMiB: 1, userPercent: 100 });
    const developer = as('developer');
    await developer.post('/configmaps', { json: { name: 'mine', data: { a: 'x'.repeat(900_000), b: 'on' } } });
    const data = { text: 'x'.repeat(MIB) };
    const metadata = { name: 'others', namespace: 'test', uid: 'u', resourceVersion: '1' };
    memory.stores.configMaps.set({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data });
    const edit = (a: string, b: string) => developer.patch('/configmaps/mine', { json: { data: { a, b } } });
    expect((await edit('x'.repeat(900_000), 'of')).status).toBe(200);
    expect((await edit('x'.repeat(900_000), 'off')).status).toBe(413);
    expect((await edit('', 'off')).status).toBe(200);
  });

  test('whoever makes an object grow has it on the own account, so that nobody uses up the budget of another', async () => {
    const { as, map, memory, usage } = await setUp({ contentMiB: 4 });
    await as('developer').post('/configmaps', map('shared', 10));
    expect(usage.of('developer').count).toBe(1);
    expect(
      (await as('sre').patch('/configmaps/shared', { json: { data: { text: 'x'.repeat(1_000_000) } } })).status,
    ).toBe(200);
    expect(usage.of('developer')).toEqual({ content: 0, objects: 0, count: 0 });
    expect(usage.of('sre').content).toBeGreaterThan(1_000_000);
    expect(memory.stores.configMaps.get('test', 'shared')?.metadata.annotations?.[ANNOTATIONS.storedBy]).toBe('sre');
    await as('developer').patch('/configmaps/shared', { json: { data: { text: '' } } });
    expect(usage.of('sre').count).toBe(1);
  });

  test('keys of nodes count for nobody', async () => {
    const { memory, usage } = await setUp();
    const metadata = { name: 'node-key-1', namespace: 'test', labels: { [LABELS.nodeKey]: 'u' }, resourceVersion: '1' };
    memory.stores.secrets.set({ apiVersion: 'v1', kind: 'Secret', metadata, data: {} });
    expect(usage.installation).toEqual({ content: 0, objects: 0, count: 0 });
    expect(usage.bytesByKind().get('Secret')).toBeGreaterThan(0);
  });

  test('two replicas that do not see each other exceed a budget at most by what the other one stores meanwhile', async () => {
    const [one, other] = await Promise.all([setUp({ contentMiB: 4 }), setUp({ contentMiB: 4 })]);
    const post = async (replica: typeof one, i: number) =>
      (await replica.as('developer').post('/configmaps', replica.map(`map-${i}`, 900_000))).status;
    const statuses = await Promise.all(Array.from({ length: 10 }, (_, i) => post(i % 2 ? one : other, i)));
    expect(statuses.filter((status) => status === 201)).toHaveLength(4);
    // The watch brings what the other one has stored.
    for (const map of other.memory.stores.configMaps.list()) one.memory.stores.configMaps.set({ ...map });
    expect(await post(one, 100)).toBe(413);
    expect(one.usage.of('developer').content).toBeLessThanOrEqual(2 * 2 * MIB);
  });

  test('a user who writes the same object again and again has to wait: old versions take room as well', async () => {
    const clock = createVirtualClock();
    const usage = trackUsage(byKey(createMemoryDependencies().stores));
    const budgets = createWriteBudgets({ usage, clock, budgets: budgetsOf(DEFAULT_BUDGETS) });
    const caller = (name: string): Caller => ({ identity: { name, groups: [] }, may: async () => true });
    const rewrite = async (name: string) => {
      const whole = { content: MIB, objects: 0, count: 0 };
      using _held = await budgets.reserve(caller(name), { usage: whole, growth: NO_USAGE, ofUser: NO_USAGE });
    };
    for (let i = 0; i < 64; i++) await rewrite('ann');
    await expect(rewrite('ann')).rejects.toMatchObject({ status: 429, headers: { 'retry-after': '1' } });
    await rewrite('bob');
    await clock.advance(5_000, { timers: 0 });
    await rewrite('ann');
  });

  test('a request without a body counts for what it writes, and stores nothing more: rebuilds and stops are bounded', async () => {
    const memory = createMemoryDependencies();
    const written: object[] = [];
    const note = 'x'.repeat(100_000);
    const reserve: WriteBudgets['reserve'] = async (_, { usage, growth }) => {
      written.push({ usage, growth });
      return { [Symbol.dispose]() {} };
    };
    const budgets = { usage: trackUsage(byKey(memory.stores)), reserve };
    const client = await serveInMemory({ deps: { ...memory, budgets } });
    const developer = client.as('developer');
    const uuid = '11111111-1111-4111-8111-111111111111';
    memory.stores.applications.set({
      ...{ apiVersion: API_VERSION, kind: 'Application' },
      metadata: { name: 'big', namespace: 'test', uid: 'u', resourceVersion: '1', annotations: { note } },
      spec: { isActivated: true, microservices: [{ name: 'web', uuid, images: { amd64: 'web:1' } }] },
    });
    for (const action of ['rebuild', 'stop'])
      expect([action, (await developer.patch(`/microservices/${uuid}/${action}`)).status]).toEqual([action, 204]);
    const whole = { usage: { content: 0, objects: expect.any(Number), count: 0 }, growth: NO_USAGE };
    expect(written).toEqual([whole, whole]);
    for (const { usage } of written as { usage: Usage }[]) expect(usage.objects).toBeGreaterThan(note.length);
  });
});
