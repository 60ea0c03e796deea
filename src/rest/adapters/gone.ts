import { once } from 'node:events';
import type { ObjectMeta } from '../../api/meta.ts';
import type { KubeObject } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';

/** Waits until a store no longer has the object with this name and uid; false when that takes longer than `ms`. */
export async function untilGone<T extends KubeObject>(
  store: Store<T>,
  { namespace, name, uid }: Pick<ObjectMeta, 'namespace' | 'name' | 'uid'>,
  ms: number,
  signal: AbortSignal,
): Promise<boolean> {
  const isGone = () => store.get(namespace, name)?.metadata.uid !== uid;
  if (isGone() || ms <= 0) return isGone();
  const ended = new AbortController();
  const late = AbortSignal.timeout(Math.ceil(ms));
  using _following = store.subscribe(() => isGone() && ended.abort());
  const any = AbortSignal.any([ended.signal, late, signal]);
  if (!any.aborted) await once(any, 'abort');
  if (!isGone()) signal.throwIfAborted();
  return isGone();
}
