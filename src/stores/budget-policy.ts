import { BUDGET_POLICY_NAME, FIELD_MANAGERS } from '../api/names.ts';
import { CORE_RESOURCES, type ConfigMap } from '../api/resources.ts';
import { type Budgets, policyData } from '../domain/budget.ts';
import {
  type Clock,
  createOrUpdate,
  type KubeClient,
  type KubeObject,
  type Log,
  type Store,
  sleep,
  systemClock,
} from '../kube/mod.ts';
import type { StoredUsage } from './usage.ts';

export interface BudgetPolicyOptions {
  client: Pick<KubeClient, 'find' | 'create' | 'replace'>;
  namespace: string;
  configMaps: Store<ConfigMap>;
  /** of which the sums are: before all of them are complete the sums say less than what is stored */
  stores: Iterable<Pick<Store<KubeObject>, 'whenSynced'>>;
  usage: Pick<StoredUsage, 'installation'>;
  budgets: Budgets;
  log: Log;
  clock?: Clock;
}

/** How often the sums are compared with what the admission policy knows, ms: users of kubectl may exceed a budget for so long. */
const LOOK_MS = 1_000;

/**
 * Keeps the ConfigMap that the admission policy of budgets reads, until the signal aborts: a policy cannot sum, and the leader
 * can. It writes only when a level changes, or when someone else has changed the ConfigMap.
 */
export async function keepBudgetPolicy(options: BudgetPolicyOptions, signal: AbortSignal): Promise<void> {
  const { client, namespace, configMaps, stores, usage, budgets, log, clock = systemClock } = options;
  const ref = { namespace, name: BUDGET_POLICY_NAME };
  await Promise.all(Array.from(stores, (store) => store.whenSynced(signal))).catch(() => {});
  while (!signal.aborted) {
    const data = policyData(budgets, usage.installation);
    const known = configMaps.get(namespace, BUDGET_POLICY_NAME);
    if (!isSame(known?.data, data))
      try {
        await createOrUpdate<ConfigMap>(
          client,
          CORE_RESOURCES.configMaps,
          ref,
          (present) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: ref, ...present, data }),
          { signal, known, call: { fieldManager: FIELD_MANAGERS.controller } },
        );
      } catch (err) {
        if (!signal.aborted) log.warn({ err }, 'The admission policy of budgets cannot be told how much is stored');
      }
    await sleep(LOOK_MS, signal, clock);
  }
}

const isSame = (a: Readonly<Record<string, string>> = {}, b: Readonly<Record<string, string>>): boolean =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(b).every(([key, value]) => a[key] === value);
