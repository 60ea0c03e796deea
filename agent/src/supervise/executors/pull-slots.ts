import { parseReference } from '../../domain/reference.ts';

/**
 * Turns to pull. Few pulls at a time, so that they do not all share a slow link; and fewer from one registry, so that a
 * registry which does not answer delays no pull from another one.
 */
export interface PullSlots {
  /** Waits for a turn; dispose to give it up. Rejects with the signal's reason. */
  take(reference: string, signal: AbortSignal): Promise<Disposable>;
}

const PULLS = { perRegistry: 2, overall: 6 } as const;

interface Waiting {
  registry: string;
  grant(): void;
}

export function createPullSlots(limits: { perRegistry: number; overall: number } = PULLS): PullSlots {
  const pulling = new Map<string, number>();
  const waiting = new Set<Waiting>();
  let overall = 0;

  const isFree = (registry: string) => overall < limits.overall && (pulling.get(registry) ?? 0) < limits.perRegistry;

  function occupy(registry: string): Disposable {
    overall++;
    pulling.set(registry, (pulling.get(registry) ?? 0) + 1);
    let isTaken = true;
    return {
      [Symbol.dispose]() {
        if (!isTaken) return;
        isTaken = false;
        overall--;
        const left = (pulling.get(registry) ?? 1) - 1;
        if (left > 0) pulling.set(registry, left);
        else pulling.delete(registry);
        next();
      },
    };
  }

  /** First come, first served, but no pull waits behind a registry that is busy. */
  function next(): void {
    for (const one of waiting) if (isFree(one.registry)) one.grant();
  }

  return {
    take(reference, signal) {
      const registry = parseReference(reference).host;
      if (signal.aborted) return Promise.reject(signal.reason);
      if (isFree(registry)) return Promise.resolve(occupy(registry));
      return new Promise((resolve, reject) => {
        const leave = () => {
          waiting.delete(one);
          signal.removeEventListener('abort', abort);
        };
        const abort = () => {
          leave();
          reject(signal.reason);
        };
        const one: Waiting = {
          registry,
          grant() {
            leave();
            resolve(occupy(registry));
          },
        };
        waiting.add(one);
        signal.addEventListener('abort', abort);
      });
    },
  };
}
