import type { Change, KubeObject } from '../kube/mod.ts';

/**
 * Whether a change is not only one of the status, but of spec, annotations, labels, finalizers or deletion. The reconcilers
 * write the statuses themselves, and reconciling after each of these writes would double the work.
 */
export function changesMoreThanStatus(change: Change<KubeObject>): boolean {
  const { previous, object } = change;
  if (change.type === 'delete' || !previous || previous.metadata.uid !== object.metadata.uid) return true;
  return (
    previous.metadata.generation !== object.metadata.generation ||
    previous.metadata.deletionTimestamp !== object.metadata.deletionTimestamp ||
    differs(previous.metadata.annotations, object.metadata.annotations) ||
    differs(previous.metadata.labels, object.metadata.labels) ||
    (previous.metadata.finalizers?.length ?? 0) !== (object.metadata.finalizers?.length ?? 0)
  );
}

function differs(a: Record<string, string> = {}, b: Record<string, string> = {}): boolean {
  const keys = Object.keys(a);
  return keys.length !== Object.keys(b).length || keys.some((key) => a[key] !== b[key]);
}
