import { BUDGET_POLICY_NAME, GROUP, SYSTEM_NAMES_NAME } from './api/names.ts';
import { runControllers } from './assembly/controllers.ts';
import type { ControllerDependencies } from './controllers/dependencies.ts';
import type { Epochs } from './datastore/epochs.ts';
import { keepPolicyParameters } from './datastore/policy-parameters.ts';
import { byKey } from './datastore/stores.ts';
import { trackSystemNames } from './datastore/system-names.ts';
import type { StoredUsage } from './datastore/usage.ts';
import { createEventRecorder, type Leadership, type Term } from './kube/mod.ts';
import { type Budgets, policyData } from './rules/budget.ts';
import { nodeUuid } from './rules/identity.ts';
import { liveness } from './subjects/nodes/rules/liveness.ts';

export interface LeaderWorkOptions
  extends Omit<ControllerDependencies, 'client' | 'events' | 'self' | 'listeningSince' | 'liveness' | 'clock'> {
  leadership: Leadership;
  epochs: Epochs;
  /** unique per process */
  identity: string;
  usage: StoredUsage;
  budgets: Budgets;
}

/** The work of a replica while it leads: it begins an epoch, runs the reconcilers, and records their events. */
export function addLeaderWork({ leadership, epochs, identity, usage, budgets, ...shared }: LeaderWorkOptions): void {
  const { observations, log, metrics } = shared;
  leadership.whileLeading(({ client, signal }) => epochs.lead(client, signal));
  leadership.whileLeading(async ({ client, signal }) => {
    const { namespace, stores, kinds } = shared;
    using names = trackSystemNames(stores, { kinds, log });
    const parameters = [
      { name: BUDGET_POLICY_NAME, data: () => policyData(budgets, usage.installation), says: 'how much is stored' },
      { name: SYSTEM_NAMES_NAME, data: () => names.data(), says: 'what names the system uses' },
    ];
    const options = { client, namespace, configMaps: stores.configMaps, stores: Object.values(byKey(stores)) };
    await keepPolicyParameters({ ...options, parameters, log }, signal);
  });
  leadership.whileLeading(async ({ client, signal, since }: Term) => {
    await using events = createEventRecorder({
      client,
      controller: `${GROUP}/controller`,
      instance: identity,
      log,
      metrics,
    });
    await runControllers(
      {
        ...shared,
        client,
        liveness: (node) => liveness(node, observations.get(nodeUuid(node)), Date.now(), since),
        listeningSince: since,
        events,
        self: leadership.lease,
        clock: Date.now,
      },
      signal,
    );
  });
}
