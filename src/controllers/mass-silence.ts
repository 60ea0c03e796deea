import { massSilence, nodeUuid, signOfLife } from '../domain/index.ts';
import type { ControllerDependencies } from './dependencies.ts';

/** What reconcilers ask while a fleet falls silent. */
export interface MassSilence extends Disposable {
  /** more than 30 % of the live nodes fell silent at once: one event says so, and statuses are written without events */
  readonly suspected: boolean;
  /** Judges the fleet again, unless it did a moment ago. */
  check(): void;
}

/** Judging looks at every node, and every node that falls silent asks for it. */
const CHECK_MS = 1_000;
/** As many nodes that wait may be the first of many: then the fleet is judged sooner. */
const SEVERAL = 3;
const SOON_MS = 100;
/** While mass silence is suspected: its end shows although no node falls silent any more. */
const RECHECK_MS = 5_000;

/** `nodes` tells how many nodes wait for the write that their silence begins with. */
export function createMassSilence(
  { stores, observations, listeningSince, events, self, clock, log, metrics }: ControllerDependencies,
  nodes: { readonly waiting: number },
): MassSilence {
  let suspected = false;
  let checkedAt = Number.NEGATIVE_INFINITY;
  let rechecks: NodeJS.Timeout | undefined;

  function judge() {
    const facts = stores.nodes.list().flatMap((node) => {
      const observation = observations.get(nodeUuid(node));
      const sign = observation?.contactAt && signOfLife(node, observation, listeningSince);
      return sign ? [{ contactAt: sign.at, limit: sign.limit }] : [];
    });
    const judged = massSilence(facts, clock());
    // It lasts until the last node that waits has been written, nodes that have long been silent included.
    const now = judged.suspected || (suspected && nodes.waiting > 0);
    if (now !== suspected) change(now, judged);
  }

  function change(now: boolean, { live, fellSilent }: { live: number; fellSilent: number }) {
    suspected = now;
    clearInterval(rechecks);
    if (now) rechecks = setInterval(check, RECHECK_MS);
    metrics.massSilence?.(now);
    log.warn({ live, fellSilent, suspected }, 'Mass silence changed');
    events.record(self, {
      action: 'Listen',
      about: 'MassSilence',
      ...(now
        ? {
            type: 'Warning',
            reason: 'MassSilence',
            note: `${fellSilent} of ${live} live nodes fell silent within one limit; first look at the controller, its network and its clock. They are marked UNKNOWN slowly`,
          }
        : { type: 'Normal', reason: 'MassSilenceOver', note: 'the nodes are heard of again, or have been marked' }),
    });
  }

  function check() {
    const begins = !suspected && nodes.waiting >= SEVERAL;
    if (clock() - checkedAt < (begins ? SOON_MS : CHECK_MS)) return;
    checkedAt = clock();
    judge();
  }

  return {
    get suspected() {
      return suspected;
    },
    check,
    [Symbol.dispose]() {
      clearInterval(rechecks);
      // The next leader judges for itself.
      metrics.massSilence?.(false);
    },
  };
}
