import { hash } from 'node:crypto';
import { ANNOTATIONS, HEADERS } from '../api/names.ts';
import { formatMark, hasGivenOut, isAccepted, type Mark, markOf, parseMark, termName } from '../domain/history.ts';
import type { Clock } from '../kube/mod.ts';
import { createRequestRates } from '../kube/request-rates.ts';
import type { StoreHistory } from '../stores/history.ts';
import type { Digests, Keep } from '../wire/index.ts';
import { type Call, headerOf } from './call.ts';
import { AgentFailure, notReady } from './failure.ts';
import type { NodeDirectory } from './node-directory.ts';

/** How the store that answers stands to the one that told the agent what it runs. */
export interface Standing {
  /** The store does not know what the agent was told: what it says nothing of must stay. */
  keep?: Keep;
  /** what our agent is to remember of this store */
  mark?: string;
}

/** Answers at once unless the API server must be asked; then rejects when that does not answer. */
export type StandingOf = (call: Call) => Standing | Promise<Standing>;

/** No store is ahead of another by more terms: who says so makes it up. */
const MOST_TERMS_LOST = 1_000_000;
/** Each dispute that is lost costs a write and an event; a restore makes one, whoever notices. */
const DISPUTES = { perSecond: 1 / 600, burst: 3 };

export function createStandingOf(
  history: Pick<StoreHistory, 'present' | 'isDoubtful' | 'isStale' | 'verify' | 'dispute'>,
  directory: Pick<NodeDirectory, 'node'>,
  clock: Clock,
): StandingOf {
  const disputes = createRequestRates({ clock, ...DISPUTES });

  function shownBy({ req }: Call): Mark | undefined {
    const mark = parseMark(headerOf(req, HEADERS.store, 64));
    return mark && mark.n <= (markOf(history.present)?.n ?? 0) + MOST_TERMS_LOST ? mark : undefined;
  }

  function judge(call: Call): Standing | undefined {
    const present = markOf(history.present);
    const known = present ? { mark: formatMark(present) } : {};
    const mark = shownBy(call);
    if (!mark || hasGivenOut(history.present, mark)) return known;
    const node = directory.node(call.uuid) ?? call.node;
    const accepted = node.metadata.annotations?.[ANNOTATIONS.acceptStore];
    if (isAccepted(history.present, mark, accepted)) return known;
    // Later than anything here: the view is late, or nobody has noticed the restore yet.
    if (mark.n >= (present?.n ?? 0)) return undefined;
    return { keep: { reason: 'StoreRestored', accept: termName(history.present) ?? '', store: known.mark ?? '' } };
  }

  async function ask(call: Call): Promise<Standing> {
    await history.verify();
    const standing = unlessStale(judge(call));
    if (standing) return standing;
    const mark = shownBy(call);
    if (mark && !disputes.admit(call.uuid))
      throw new AgentFailure('TOO_MANY_REQUESTS', 'this node told of too many stores', { retryAfterSeconds: 60 });
    if (mark) await history.dispute(mark);
    return unlessStale(judge(call)) ?? {};
  }

  /** A list from before the restore names what is lost: an agent would take it for the word of the new store. */
  function unlessStale<T>(standing: T): T {
    if (history.isStale) throw notReady('the controller reads its state anew', 2);
    return standing;
  }

  return (call) => (history.isDoubtful ? undefined : judge(call)) ?? ask(call);
}

/** What is due to an agent that keeps what the store does not know is another list than the same one without that. */
export function digestsFor(digests: Digests, { keep }: Standing): Digests {
  const { microserviceList } = digests;
  if (!keep || !microserviceList) return digests;
  return { ...digests, microserviceList: hash('sha256', `keep ${microserviceList}`).slice(0, 16) };
}
