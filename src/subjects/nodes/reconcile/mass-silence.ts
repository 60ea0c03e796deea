import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { signOfLife } from '../rules/liveness.ts';
import { massSilence } from '../rules/mass-silence.ts';

/** The state of mass silence for the reconcilers. */
export interface MassSilence extends Disposable {
  /** more than 30 % of the live nodes fell silent at once: one event reports that, and status writes record no events */
  readonly suspected: boolean;
  /** Evaluates the fleet, unless it did so a moment ago. */
  check(): void;
}

/** Least time between evaluations: each reads every node, and every node that falls silent requests one. */
const CHECK_MS = 1_000;
/** With this many waiting nodes, which may be the first of many, the fleet is evaluated sooner. */
const SEVERAL = 3;
const SOON_MS = 100;
/** Interval of evaluations while mass silence is suspected, so that its end is noticed although no other node falls silent. */
const RECHECK_MS = 5_000;

/** `nodes` counts the nodes that wait for the write that begins their silence. */
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
    // Mass silence lasts until every waiting node was written, including nodes that have long been silent.
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
            note: `${fellSilent} of ${live + fellSilent} live nodes fell silent within one limit; first look at the controller, its network and its clock. They are marked UNKNOWN slowly`,
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
      // The next leader evaluates the fleet itself.
      metrics.massSilence?.(false);
    },
  };
}
