import type { Epochs } from '../../datastore/epochs.ts';

/**
 * Nodes that were sent a list, until they have a position that is certainly later than the list: the next position may have
 * been written before the list was read. Their long polls end with each new position, so that they notice a restore.
 */
export interface PositionUpdates extends Disposable {
  onListed(uuid: string): void;
}

/** The number of positions after a list of which the last one is certainly later. */
const POSITIONS = 2;

export function createPositionUpdates(
  epochs: Pick<Epochs, 'subscribe'> | undefined,
  release: (uuid: string) => void,
): PositionUpdates {
  const waiting = new Map<string, number>();
  const subscription = epochs?.subscribe(() => {
    for (const [uuid, left] of waiting) {
      if (left > 1) waiting.set(uuid, left - 1);
      else waiting.delete(uuid);
      release(uuid);
    }
  });
  return {
    onListed: (uuid) => void (epochs && waiting.set(uuid, POSITIONS)),
    [Symbol.dispose]: () => subscription?.[Symbol.dispose](),
  };
}
