import type { Observation, SentRevision } from '../../../rules/inputs.ts';

/** What a third-party agent was last sent, and when. */
export type SentList = Pick<Observation, 'sentRevisions' | 'listedAt'>;

/**
 * Joins what two replicas, or two times, know of the lists that one agent was sent. The later list applies. In it, a revision
 * keeps the time at which it was first sent, unless another list was sent since then without it. The order of the arguments
 * does not matter, and neither does it that one of them is known already.
 */
export function joinSentLists(a: SentList, b: SentList): SentList {
  if (a === b || b.listedAt === undefined) return a;
  if (a.listedAt === undefined) return b;
  const [later, earlier] = isLater(a, b) ? [a, b] : [b, a];
  const { listedAt = 0 } = later;
  const sentRevisions: Record<string, SentRevision> = {};
  for (const [uuid, given] of Object.entries(later.sentRevisions))
    sentRevisions[uuid] = withFirstTime(given, listedAt, earlier.sentRevisions[uuid], earlier.listedAt ?? 0);
  return { sentRevisions, listedAt };
}

/** Two lists of one millisecond have an order too, so that all who join them come to the same. */
function isLater(a: SentList, b: SentList): boolean {
  const [at, other] = [a.listedAt ?? 0, b.listedAt ?? 0];
  return at === other ? JSON.stringify(a.sentRevisions) > JSON.stringify(b.sentRevisions) : at > other;
}

/** In the clock of the leader, what the stored status says is one time with the others. */
export function withStoredTimes({ sentRevisions, ...list }: SentList): SentList {
  const entries = Object.entries(sentRevisions).map(([uuid, { storedAfter, ...given }]) => [
    uuid,
    storedAfter === undefined ? given : { ...given, after: Math.max(storedAfter, given.after ?? 0) },
  ]);
  return { ...list, sentRevisions: Object.fromEntries(entries) };
}

/** The stored revision of one microservice, or the one that was sent later. */
export function joinSent(stored: SentRevision | undefined, { sentRevisions, listedAt }: SentList, uuid: string) {
  const given = sentRevisions[uuid];
  const a = stored && { ...stored, listedAt: stored.at };
  const b = given && { ...given, listedAt: listedAt ?? given.at };
  const [later, earlier] = a && b && b.listedAt >= a.listedAt ? [b, a] : [a ?? b, a && b];
  if (!later) return undefined;
  const { after: _, ...sent } = earlier ? withFirstTime(later, later.listedAt, earlier, earlier.listedAt) : later;
  const { revision, imageId, rebuildCount, at } = sent;
  return { revision, imageId, rebuildCount, at };
}

/**
 * The revision of the later list, with the time of the first list of those since the last one without it. When that one is
 * not known, the time of the later list: a container that started before it may be another one's.
 */
function withFirstTime(
  given: SentRevision,
  listedAt: number,
  earlier: SentRevision | undefined,
  earlierListedAt: number,
): SentRevision {
  const isSame = earlier?.revision === given.revision && earlier.rebuildCount === given.rebuildCount;
  const after = Math.max(given.after ?? 0, isSame ? (earlier.after ?? 0) : earlierListedAt);
  const storedAfter = Math.max(given.storedAfter ?? 0, (isSame && earlier.storedAfter) || 0);
  const times = [given.at, ...(isSame ? [earlier.at] : [])].filter((at) => at > after);
  const at = times.length > 0 ? Math.min(...times) : listedAt;
  return { ...given, at, after, ...(storedAfter > 0 && { storedAfter }) };
}
