import { type ConfigMap, RESOURCES } from '../api/resources.ts';
import { isAlreadyExists, isConflict, type KubeClient } from '../kube/mod.ts';

/** Kinds whose v3 body carries a number. */
export type NumberedKind = 'Application' | 'Registry';

/** Hands out numbers that no other object of the kind has or had. */
export interface Ids {
  next(kind: NumberedKind, signal?: AbortSignal): Promise<number>;
  /** Raises the counter above ids that exist, for objects restored from a backup or written by hand. */
  raise(kind: NumberedKind, atLeast: number, signal?: AbortSignal): Promise<void>;
  /** The store was restored: the counter is asked again before anything is handed out. */
  reset(): void;
}

const NAME = 'skerry-ids';
/** Numbers taken at once: a replica writes the counter once per so many objects. What is left at its end is lost. */
const BLOCK = 100;
const ATTEMPTS = 20;

/**
 * A counter per kind in one ConfigMap, advanced in blocks under optimistic locking: one winner per block over all
 * replicas. Ids 1 to 9 are kept for built-in objects.
 */
export function createIds({ client, namespace }: { client: KubeClient; namespace: string }): Ids {
  const blocks = new Map<NumberedKind, { next: number; end: number }>();
  const pending = new Map<NumberedKind, Promise<void>>();
  /** the counter as last seen; it only grows */
  const seen = new Map<NumberedKind, number>();

  /** Sets the counter to `advance(current)`; resolves with both values. */
  async function move(kind: NumberedKind, advance: (current: number) => number, signal?: AbortSignal) {
    for (let attempt = 1; ; attempt++) {
      const known = await client.find<ConfigMap>(RESOURCES.configMaps, { namespace, name: NAME }, { signal });
      const current = Number(known?.data?.[kind] ?? FIRST - 1);
      const target = advance(current);
      seen.set(kind, target);
      if (target === current) return { current, target };
      try {
        if (known)
          await client.replace(
            RESOURCES.configMaps,
            { ...known, data: { ...known.data, [kind]: String(target) } },
            { signal },
          );
        else await client.create(RESOURCES.configMaps, newCounter(namespace, kind, target), { signal });
        return { current, target };
      } catch (error) {
        if (attempt >= ATTEMPTS || !(isConflict(error) || isAlreadyExists(error))) throw error;
      }
    }
  }

  async function refill(kind: NumberedKind, signal?: AbortSignal): Promise<void> {
    const { current, target } = await move(kind, (at) => at + BLOCK, signal);
    blocks.set(kind, { next: current + 1, end: target });
  }

  return {
    async next(kind, signal) {
      for (;;) {
        const block = blocks.get(kind);
        if (block && block.next <= block.end) return block.next++;
        const running = pending.get(kind) ?? refill(kind, signal).finally(() => pending.delete(kind));
        pending.set(kind, running);
        await running;
      }
    },
    reset() {
      blocks.clear();
      seen.clear();
    },
    async raise(kind, atLeast, signal) {
      if (atLeast <= (seen.get(kind) ?? FIRST - 1)) return;
      await move(kind, (current) => Math.max(current, atLeast), signal);
      const block = blocks.get(kind);
      if (block && block.next <= atLeast) blocks.delete(kind);
    },
  };
}

const FIRST = 10;

const newCounter = (namespace: string, kind: NumberedKind, value: number): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: NAME, namespace },
  data: { [kind]: String(value) },
});
