import { GROUP } from './api/names.ts';
import { type ControllerDependencies, runControllers } from './controllers/index.ts';
import type { Budgets } from './domain/budget.ts';
import { liveness, nodeUuid } from './domain/index.ts';
import { createEventRecorder, type Leadership, type Term } from './kube/mod.ts';
import { keepBudgetPolicy } from './stores/budget-policy.ts';
import type { Epochs } from './stores/epochs.ts';
import { byKey } from './stores/stores.ts';
import type { StoredUsage } from './stores/usage.ts';

export interface LeaderWorkOptions
  extends Omit<ControllerDependencies, 'client' | 'events' | 'self' | 'listeningSince' | 'liveness' | 'clock'> {
  leadership: Leadership;
  epochs: Epochs;
  /** unique per process */
  identity: string;
  usage: StoredUsage;
  budgets: Budgets;
}

/** The work of a replica while it leads: it begins an epoch, runs the reconcilers, and records events. */
export function addLeaderWork({ leadership, epochs, identity, usage, budgets, ...shared }: LeaderWorkOptions): void {
  const { observations, log, metrics } = shared;
  leadership.whileLeading(({ client, signal }) => epochs.lead(client, signal));
  leadership.whileLeading(({ client, signal }) =>
    keepBudgetPolicy(
      {
        ...{ client, namespace: shared.namespace, usage, budgets, log },
        ...{ configMaps: shared.stores.configMaps, stores: Object.values(byKey(shared.stores)) },
      },
      signal,
    ),
  );
  leadership.whileLeading(async ({ client, signal, since }: Term) => {
    await using events = createEventRecorder({
      client,
      controller: `${GROUP}/controller`,
      instance: identity,
      log,
      metrics,
    });
    using _restores = epochs.onRestored((lost, now) =>
      events.record(leadership.lease, {
        type: 'Warning',
        reason: 'DatastoreRestored',
        note: `the datastore was restored from a backup, or is another one: it lacks what was sent up to position ${lost}, and goes on at ${now}. Nodes retain what it lacks; their condition DatastoreRestored says what, and how to accept the datastore`,
        action: 'Restore',
        about: 'DatastoreRestored',
      }),
    );
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
