import { BOUNDS } from '../api/bounds.ts';
import { FIRST_ID } from '../api/names.ts';
import type { ConfigMap } from '../api/resources.ts';
import { createOrUpdate, type KubeClient } from '../kube/mod.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { firmness, type Identified } from '../rules/identity.ts';
import { RESOURCES } from '../subjects/kinds.ts';

/** Issues numbers that no other object of the kind has. Kinds are named as in the Kubernetes API. */
export interface Ids {
  next(kind: string, signal?: AbortSignal): Promise<number>;
  /** Whether a number was issued recently and no store has its object yet. */
  isIssued(kind: string, id: number): boolean;
  /** The datastore was restored: the counter is read again before another number is issued. */
  reset(): void;
}

export interface IdsOptions {
  client: KubeClient;
  namespace: string;
  /** the objects of the kind that have the number, by the store */
  withId(kind: string, id: number): readonly Identified[];
  /** whether an application of the system names the number, which no object gets by chance then */
  isNamed?(kind: string, id: number): boolean;
  log?: Log;
  /** Unix ms */
  clock?: () => number;
}

const NAME = 'skerry-ids';
/** Size of a block: a replica writes the counter once per block. The rest of its last block is lost. */
const BLOCK = 100;
/** Within this time, an issued number is stored with its object or was not used. */
const ISSUED_MS = 60_000;

/**
 * A counter per kind in one ConfigMap, advanced in blocks with optimistic locking, so that each block belongs to one of the
 * replicas. Numbers that users wrote or that a restore brought back do not change it; they are skipped, even inside a block
 * that is in use. A counter that is not a number or is out of bounds starts again at the first number.
 */
export function createIds(options: IdsOptions): Ids {
  const { client, namespace, withId, isNamed = () => false, log = silentLog, clock = Date.now } = options;
  const blocks = new Map<string, { next: number; end: number }>();
  const pending = new Map<string, Promise<void>>();
  /** when a number was issued, by kind and number; the oldest first */
  const issued = new Map<string, number>();
  const isTaken = (kind: string, id: number) => withId(kind, id).length > 0 || isNamed(kind, id);

  function issue(kind: string, id: number): number {
    const now = clock();
    for (const [key, at] of issued) {
      if (at + ISSUED_MS > now) break;
      issued.delete(key);
    }
    issued.set(`${kind}/${id}`, now);
    return id;
  }

  async function refill(kind: string, signal?: AbortSignal): Promise<void> {
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
          if (!isTaken(kind, id)) return issue(kind, id);
        }
        const running = pending.get(kind) ?? refill(kind, signal).finally(() => pending.delete(kind));
        pending.set(kind, running);
        await running;
      }
    },
    isIssued(kind, id) {
      const at = issued.get(`${kind}/${id}`);
      if (at === undefined || at + ISSUED_MS <= clock()) return false;
      return !withId(kind, id).some((object) => firmness(object, { id }) > 0);
    },
    reset() {
      blocks.clear();
      issued.clear();
    },
  };
}

/** The next block whose first number is free. The lowest numbers follow the greatest one. */
function blockAfter(counter: number, isTaken: (id: number) => boolean): { next: number; end: number } {
  let next = counter + 1;
  for (let turns = 0; isTaken(next) || next + BLOCK > BOUNDS.id; next++) {
    if (next + BLOCK <= BOUNDS.id) continue;
    // No datastore has so many objects.
    if (turns++ > 0) throw new Error('every number is taken');
    next = FIRST_ID - 1;
  }
  return { next, end: next + BLOCK - 1 };
}

/** The last issued number. A counter that cannot be parsed does not prevent the issue of numbers. */
function counterIn(text: string | undefined, kind: string, log: Log): number {
  if (text === undefined) return FIRST_ID - 1;
  const counter = Number(text);
  if (Number.isInteger(counter) && counter >= FIRST_ID - 1 && counter <= BOUNDS.id) return counter;
  log.warn(
    { kind, counter: text.slice(0, 64) },
    `The counter in the ConfigMap ${NAME} is out of bounds and starts again`,
  );
  return FIRST_ID - 1;
}
