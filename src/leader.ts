import type { EventReason } from './api/conditions.ts';
import { BUDGET_POLICY_NAME, SETTINGS_POLICY_NAME, SYSTEM_NAMES_NAME } from './api/names.ts';
import { runControllers } from './assembly/controllers.ts';
import type { ControllerDependencies } from './controllers/dependencies.ts';
import type { Epochs } from './datastore/epochs.ts';
import { keepPolicyParameters } from './datastore/policy-parameters.ts';
import { byKey } from './datastore/stores.ts';
import { trackSystemNames } from './datastore/system-names.ts';
import type { StoredUsage } from './datastore/usage.ts';
import type { EventRecorder, KubeClient, Leadership, Term } from './kube/mod.ts';
import { type Budgets, policyData } from './rules/budget.ts';
import { nodeUuid } from './rules/identity.ts';
import { settingsPolicyData } from './rules/settings-policy.ts';
import { liveness } from './subjects/nodes/rules/liveness.ts';

export interface LeaderWorkOptions
  extends Omit<ControllerDependencies, 'client' | 'events' | 'self' | 'listeningSince' | 'liveness'> {
  leadership: Leadership;
  epochs: Epochs;
  /** a recorder of the events of one term, which writes with this client */
  recorderOf(client: KubeClient): EventRecorder<EventReason>;
  usage: StoredUsage;
  budgets: Budgets;
}

/** The work of a replica while it leads: it begins an epoch, runs the reconcilers, and records their events. */
export function addLeaderWork({ leadership, epochs, recorderOf, usage, budgets, ...shared }: LeaderWorkOptions): void {
  const { observations, log, clock } = shared;
  leadership.whileLeading(({ client, signal }) => epochs.lead(client, signal));
  leadership.whileLeading(async ({ client, signal }) => {
    const { namespace, stores, kinds, platform } = shared;
    using names = trackSystemNames(stores, { kinds, log });
    const parameters = [
      { name: BUDGET_POLICY_NAME, data: () => policyData(budgets, usage.installation), says: 'how much is stored' },
      { name: SYSTEM_NAMES_NAME, data: () => names.data(), says: 'what names the system uses' },
      { name: SETTINGS_POLICY_NAME, data: () => settingsPolicyData(platform), says: 'which settings are on' },
    ];
    const options = { client, namespace, configMaps: stores.configMaps, stores: Object.values(byKey(stores)) };
    await keepPolicyParameters({ ...options, parameters, log }, signal);
  });
  leadership.whileLeading(async ({ client, signal, since }: Term) => {
    await using events = recorderOf(client);
    await runControllers(
      {
        ...shared,
        client,
        liveness: (node) => liveness(node, observations.get(nodeUuid(node)), clock(), since),
        listeningSince: since,
        events,
        self: leadership.lease,
      },
      signal,
    );
  });
}
