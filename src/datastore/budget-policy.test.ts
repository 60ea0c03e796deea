import { expect, onTestFinished, test } from 'vitest';
import { BUDGET_POLICY_NAME } from '../api/names.ts';
import { CORE_RESOURCES } from '../api/resources.ts';
import { createVirtualClock } from '../kube/_util.ts';
import { createStore, type KubeObject, type Store } from '../kube/mod.ts';
import { silentLog } from '../lib/log.ts';
import { type BudgetSettings, budgetsOf, DEFAULT_BUDGETS, NO_USAGE, policyData } from '../rules/budget.ts';
import { keepPolicyParameters } from './policy-parameters.ts';

/** The leader's work over a ConfigMap in memory. */
function setUp(settings: Partial<BudgetSettings> = {}, others: Store<KubeObject>[] = []) {
  const clock = createVirtualClock();
  const configMaps = createStore({ resource: CORE_RESOURCES.configMaps });
  configMaps.swap([], '1');
  let version = 10;
  const writes: Record<string, string>[] = [];
  const write = async (_resource: unknown, object: never) => {
    const { metadata, data } = object as { metadata: object; data: Record<string, string> };
    const stored = {
      ...(object as object),
      data,
      metadata: { ...metadata, resourceVersion: String(version) },
    } as never;
    version += 10;
    configMaps.set(stored);
    writes.push(data);
    return stored;
  };
  const client = { find: async () => configMaps.get('n', BUDGET_POLICY_NAME), create: write, replace: write } as never;
  const usage = { installation: NO_USAGE };
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const budgets = budgetsOf({ ...DEFAULT_BUDGETS, ...settings });
  const data = () => policyData(budgets, usage.installation);
  const parameters = [{ name: BUDGET_POLICY_NAME, data, says: 'how much is stored' }];
  const stores = [configMaps, ...others];
  const options = { client, namespace: 'n', configMaps, stores, parameters, log: silentLog, clock };
  void keepPolicyParameters(options, stop.signal);
  return { clock, usage, writes, configMaps };
}

test('the leader writes down a budget that is used up within a second, each further level, and that there is room again', async () => {
  const { clock, usage, writes } = setUp({ count: 100 });
  const levels = [];
  for (const count of [0, 99, 100, 104, 105, 109, 110, 100, 99]) {
    usage.installation = { content: 0, objects: 0, count };
    await clock.advance(1_000);
    levels.push(writes.at(-1)?.count);
  }
  expect(levels).toEqual(['open', 'open', 'full', 'full', 'closed', 'closed', 'spent', 'full', 'open']);
  expect(writes).toHaveLength(6);
  expect(writes[1]).toMatchObject({
    content: 'open',
    'count-text': expect.stringMatching(
      /^the installation's budget of 100 objects is used up: delete .* raise budgets.count$/,
    ),
  });
});

test('the leader mends what someone else has changed, and writes nothing while nothing changes', async () => {
  const { clock, writes, configMaps } = setUp();
  await clock.advance(60_000);
  expect(writes).toHaveLength(1);
  const known = configMaps.get('n', BUDGET_POLICY_NAME);
  const metadata = { ...known?.metadata, name: BUDGET_POLICY_NAME, namespace: 'n', resourceVersion: '11' };
  configMaps.set({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { count: 'spent' } });
  await clock.advance(1_000);
  expect(writes).toHaveLength(2);
  expect(configMaps.get('n', BUDGET_POLICY_NAME)?.data?.count).toBe('open');
});

test('a new leader leaves what is written down until it has read all that is stored', async () => {
  const secrets = createStore({ resource: CORE_RESOURCES.secrets });
  const { clock, usage, writes } = setUp({ count: 100 }, [secrets]);
  await clock.advance(60_000, { timers: 0 });
  expect(writes).toEqual([]);
  usage.installation = { content: 0, objects: 0, count: 200 };
  secrets.swap([], '1');
  await clock.advance(1_000);
  expect(writes.map(({ count }) => count)).toEqual(['spent']);
});
