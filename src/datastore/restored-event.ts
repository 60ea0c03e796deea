import type { EventReason } from '../api/conditions.ts';
import type { EventRecorder, KubeObject } from '../kube/mod.ts';
import type { Epochs } from './epochs.ts';

/**
 * Records an event on `about`, the Lease of the controllers, when this replica finds that the datastore was restored. Leading does
 * not matter: a leader often loses the Lease in a restore, and the position that is missing is found once.
 */
export function reportRestores(
  epochs: Pick<Epochs, 'onRestored'>,
  events: EventRecorder<EventReason>,
  about: KubeObject,
): Disposable {
  return epochs.onRestored((lost, now) =>
    events.record(about, {
      type: 'Warning',
      reason: 'DatastoreRestored',
      note: `the datastore was restored from a backup, or is another one: it lacks what was sent up to position ${lost}, and goes on at ${now}. Nodes retain what it lacks; their condition DatastoreRestored says what, and how to accept the datastore`,
      action: 'Restore',
      about: 'DatastoreRestored',
    }),
  );
}
