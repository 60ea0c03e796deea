import type { Clock } from '../../lib/clock.ts';
import { notReady } from '../channel/failure.ts';

/** Whether this replica serves agents. */
export interface Readiness {
  readonly ready: boolean;
  /**
   * Returns nothing when this replica is ready, else a promise that resolves as soon as it is. Throws or rejects with
   * CONTROLLER_NOT_READY when that takes long, and when the replica stops.
   */
  wait(): Promise<void> | undefined;
  /** Makes the replica not ready from now on. */
  drain(): void;
}

/**
 * All agents reconnect when a replica starts, and it is ready soon after that. After a 503 they would wait for seconds; a
 * request that waits costs only a socket.
 */
const PATIENCE_MS = 5_000;
const LOOK_EVERY_MS = 50;

export function createReadiness(stores: readonly { synced: boolean }[], clock: Clock): Readiness {
  let draining = false;
  let complete = false;
  let waiting: Promise<void> | undefined;
  const isComplete = () => {
    complete ||= stores.every(({ synced }) => synced);
    return complete;
  };

  /** One loop for all requests that wait. */
  async function look(): Promise<void> {
    while (!isComplete() && !draining) await new Promise<void>((resolve) => void clock.after(LOOK_EVERY_MS, resolve));
  }

  async function settle(): Promise<void> {
    waiting ??= look();
    let cancel = () => {};
    const patience = new Promise<void>((resolve) => {
      cancel = clock.after(PATIENCE_MS, resolve);
    });
    await Promise.race([waiting, patience]);
    cancel();
    if (draining) throw stopping();
    if (!isComplete()) throw notReady('the controller is still reading its state');
  }

  return {
    get ready() {
      return isComplete() && !draining;
    },
    wait() {
      if (draining) throw stopping();
      return isComplete() ? undefined : settle();
    },
    drain() {
      draining = true;
    },
  };
}

const stopping = () => notReady('this replica is stopping: ask again', 1);
