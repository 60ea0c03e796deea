import type { Secret } from '../api/resources.ts';
import type { Store } from '../kube/mod.ts';
import { readNodeKey } from './channel/node-key.ts';

/**
 * What was admitted with the key of a node and lasts, such as long polls and sockets: it ends as soon as the node has another key
 * or none, since whoever holds it may not be the machine.
 */
export interface Revocations extends Disposable {
  /** Calls `end` once, synchronously with the store, when the present key of the node ends. The function returned cancels that. */
  onRevoked(uuid: string, end: () => void): () => void;
}

export function createRevocations(
  secrets: Pick<Store<Secret>, 'subscribe'>,
  /** called for each key that ends, with the uuid of its node */
  onEach: (uuid: string) => void,
): Revocations {
  const held = new Map<string, Set<() => void>>();

  function revoke(uuid: string) {
    const ends = held.get(uuid);
    held.delete(uuid);
    onEach(uuid);
    for (const end of ends ?? []) end();
  }

  const subscription = secrets.subscribe(({ type, object, previous }) => {
    const before = readNodeKey(type === 'delete' ? object : (previous ?? object));
    const after = type === 'delete' ? undefined : readNodeKey(object);
    if (before && before.publicKey.x !== after?.publicKey.x) revoke(before.nodeUuid);
  });

  return {
    onRevoked(uuid, end) {
      const ends = held.get(uuid) ?? new Set();
      // Two waits may share a function.
      const entry = () => end();
      ends.add(entry);
      held.set(uuid, ends);
      return () => {
        ends.delete(entry);
        if (ends.size === 0 && held.get(uuid) === ends) held.delete(uuid);
      };
    },
    [Symbol.dispose]: () => subscription[Symbol.dispose](),
  };
}
