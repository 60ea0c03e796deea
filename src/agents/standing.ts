import { hash } from 'node:crypto';
import { ANNOTATIONS, HEADERS } from '../api/names.ts';
import { hasGivenOut, isAccepted, markOf, termName } from '../domain/history.ts';
import type { Clock } from '../kube/mod.ts';
import { createTokenBuckets } from '../kube/token-bucket.ts';
import type { StoreHistory } from '../stores/history.ts';
import type { Digests, Keep } from '../wire/index.ts';
import { type Call, headerOf } from './call.ts';
import { AgentFailure, notReady } from './failure.ts';
import type { Marks, ShownMark } from './marks.ts';
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

/** Each dispute that is lost costs a write and an event; a restore makes one, whoever notices. */
const DISPUTES = { perSecond: 1 / 600, burst: 3 };
/** Looks at the API server for marks that nobody can prove. */
const LOOKS = { perSecond: 1 / 60, burst: 3 };

/**
 * A mark that was given to this node and that the store does not know proves a restore, and begins a term. One that
 * nobody can prove is the word of one node: it may be right (an emptied store has another key), so this node keeps what it
 * runs; but it changes nothing for anybody else.
 */
export function createStandingOf(
  history: Pick<StoreHistory, 'present' | 'isDoubtful' | 'isStale' | 'verify' | 'dispute'>,
  directory: Pick<NodeDirectory, 'node'>,
  marks: Marks,
  clock: Clock,
): StandingOf {
  const disputes = createTokenBuckets({ clock, ...DISPUTES });
  const looks = createTokenBuckets({ clock, ...LOOKS });

  const shownBy = ({ req, uuid }: Call) => marks.read(uuid, headerOf(req, HEADERS.store, 64));

  /** Undefined when the API server must be asked first: the view is late, or nobody has noticed the restore yet. */
  function judge(call: Call): Standing | undefined {
    const present = markOf(history.present);
    const mark = present && marks.seal(call.uuid, present);
    const shown = shownBy(call);
    if (!shown || hasGivenOut(history.present, shown.mark) || isAcceptedBy(call, shown)) return mark ? { mark } : {};
    if (!shown.isProven || shown.mark.n >= (present?.n ?? 0)) return undefined;
    return keeping(call);
  }

  function isAcceptedBy(call: Call, { mark, isProven }: ShownMark): boolean {
    const node = directory.node(call.uuid) ?? call.node;
    // The number of a mark that nobody can prove says nothing.
    const after = isProven ? mark : { ...mark, n: 0 };
    return isAccepted(history.present, after, node.metadata.annotations?.[ANNOTATIONS.acceptStore]);
  }

  function keeping(call: Call): Standing {
    const present = markOf(history.present);
    const store = present ? marks.seal(call.uuid, present) : '';
    return { keep: { reason: 'StoreRestored', accept: termName(history.present) ?? '', store } };
  }

  async function ask(call: Call): Promise<Standing> {
    const shown = shownBy(call);
    const isOwnWord = shown !== undefined && !shown.isProven;
    // Nobody is asked again and again because one node says so.
    if (!isOwnWord || history.isDoubtful || looks.take(call.uuid)) await history.verify();
    const standing = unlessStale(judge(call));
    if (standing || !shown) return standing ?? {};
    if (isOwnWord) return keeping(call);
    if (!disputes.take(call.uuid))
      throw new AgentFailure('TOO_MANY_REQUESTS', 'this node told of too many stores', { retryAfterSeconds: 60 });
    await history.dispute(shown.mark);
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
