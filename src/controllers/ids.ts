import { BOUNDS } from '../api/bounds.ts';
import { FIRST_ID } from '../api/names.ts';
import type { ConfigMap } from '../api/resources.ts';
import { RESOURCES } from '../kinds/index.ts';
import { createOrUpdate, type KubeClient, type Log, silentLog } from '../kube/mod.ts';

/** Kinds whose v3 body carries a number. */
export type NumberedKind = 'Application' | 'Registry';

/** Hands out numbers that no other object of the kind has. */
export interface Ids {
  next(kind: NumberedKind, signal?: AbortSignal): Promise<number>;
  /** The store was restored: the counter is asked again before anything is handed out. */
  reset(): void;
}

export interface IdsOptions {
  client: KubeClient;
  namespace: string;
  /** whether an object of the kind has the number, by the local view */
  isTaken(kind: NumberedKind, id: number): boolean;
  log?: Log;
}

const NAME = 'skerry-ids';
/** Numbers taken at once: a replica writes the counter once per so many objects. What is left at its end is lost. */
const BLOCK = 100;

/**
 * A counter per kind in one ConfigMap, advanced in blocks under optimistic locking: one winner per block over all
 * replicas. Numbers that users wrote, or that a restore brought back, never move it; they are stepped over, also inside
 * a block that is out. A counter that is no number, or too great, begins anew for the same reason.
 */
export function createIds({ client, namespace, isTaken, log = silentLog }: IdsOptions): Ids {
  const blocks = new Map<NumberedKind, { next: number; end: number }>();
  const pending = new Map<NumberedKind, Promise<void>>();

  async function refill(kind: NumberedKind, signal?: AbortSignal): Promise<void> {
    let block = { next: 0, end: -1 };
    await createOrUpdate<ConfigMap>(
      client,
      RESOURCES.configMaps,
      { namespace, name: NAME },
      (counters) => {
        block = blockAfter(counterIn(counters?.data?.[kind], kind, log), (id) => isTaken(kind, id));
        const data = { ...counters?.data, [kind]: String(block.end) };
        return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: NAME, namespace }, ...counters, data };
      },
      { ...(signal && { signal }) },
    );
    blocks.set(kind, block);
  }

  return {
    async next(kind, signal) {
      for (;;) {
        const block = blocks.get(kind);
        while (block && block.next <= block.end) {
          const id = block.next++;
          if (!isTaken(kind, id)) return id;
        }
        const running = pending.get(kind) ?? refill(kind, signal).finally(() => pending.delete(kind));
        pending.set(kind, running);
        await running;
      }
    },
    reset: () => blocks.clear(),
  };
}

/** The next numbers of which at least the first is free. After the greatest number come the lowest again. */
function blockAfter(counter: number, isTaken: (id: number) => boolean): { next: number; end: number } {
  let next = counter + 1;
  for (let turns = 0; isTaken(next) || next + BLOCK > BOUNDS.id; next++) {
    if (next + BLOCK <= BOUNDS.id) continue;
    // So many objects do not fit into any store.
    if (turns++ > 0) throw new Error('every number is taken');
    next = FIRST_ID - 1;
  }
  return { next, end: next + BLOCK - 1 };
}

/** The last number handed out. Whatever stands there, numbers go on being handed out. */
function counterIn(text: string | undefined, kind: NumberedKind, log: Log): number {
  if (text === undefined) return FIRST_ID - 1;
  const counter = Number(text);
  if (Number.isInteger(counter) && counter >= FIRST_ID - 1 && counter <= BOUNDS.id) return counter;
  log.warn(
    { kind, counter: text.slice(0, 64) },
    `The counter in the ConfigMap ${NAME} is out of bounds: it begins anew`,
  );
  return FIRST_ID - 1;
}
