import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../lib/clock.ts';
import type { NodeAction } from '../../subjects/nodes/rules/actions.ts';
import { type Digests, formatHave, SECTIONS, type Section } from '../../wire/sections.ts';
import { differ } from './long-polls.ts';

/**
 * The responses that this replica sent to third-party agents, which do not report what they have saved: an acknowledgement
 * has the timestamp of a response, and acknowledges the digests and actions of that response. The last digits of a timestamp
 * are a digest of these, so that a response of another replica, or of this one before a restart, can be acknowledged as long
 * as the response would be the same now. Otherwise the response is sent again, which is harmless. The digest has no field of its
 * own, because third-party agents send back `lastUpdated` and nothing else of a response.
 *
 * The sections themselves may have come from another replica, which may have lagged behind: such an agent carries no
 * position. So an acknowledgement soon after a change counts for a while only: then the agent reads the sections again. And
 * where this replica itself has sent an older section, an acknowledgement of another replica's response is none.
 */
export interface SentResponses {
  /** The digests that an agent acknowledged at this replica. */
  acknowledged(uuid: string): Digests;
  /** Whether an agent ever acknowledged what is due of a section at this replica, also when that no longer counts. */
  everAcknowledged(uuid: string, section: Section, digest: string | undefined): boolean;
  /**
   * Records a response and returns its timestamp; the timestamps of one replica are unique and grow. The sections in `later` are
   * not flagged, and not acknowledged with it at any replica.
   */
  add(uuid: string, due: Digests, orders: ActionCounts, later?: readonly Section[]): string;
  /** Records the sections that this replica sends to an agent. */
  addSections(uuid: string, digests: Digests, sections: readonly Section[]): void;
  /**
   * The actions of the acknowledged response; undefined for an unknown response. `now`: the digests and actions of a
   * response at present.
   */
  acknowledge(uuid: string, stamp: string, now: { due: Digests; actions: ActionCounts }): ActionCounts | undefined;
  /**
   * Makes an agent read a section again that it acknowledged, `ms` after it was sent: the first time at once, then each time
   * that `ms` has doubled.
   */
  repeat(uuid: string, section: Section, ms: number): void;
  /** What is due for these nodes may have changed, and may have changed back when it is next looked at. */
  noteChange(uuids: Iterable<string>): void;
  forget(uuid: string): void;
}

/** Actions count as executed by a third-party agent once it acknowledges the response with their flags. */
export type ActionCounts = Readonly<Partial<Record<NodeAction, number>>>;

interface SentResponse {
  stamp: string;
  due: Digests;
  actions: ActionCounts;
  /** those that the agent is to read */
  flagged: readonly Section[];
  /** until when their acknowledgement counts, ms */
  until: number;
}

interface SentToNode {
  responses: SentResponse[];
  acknowledged: Map<Section, { digest: string; until: number }>;
  /** the last digest of each section that this replica itself sent */
  sent: Digests;
  /** what was last due here, since when, and how often it may have changed since it was looked at */
  due: Digests;
  since: number;
  changes: number;
  /** when a section was last repeated, ms */
  repeatedAt: number;
}

/**
 * How long after a change other replicas may send what was before it: nearly all follow within the first time, and after the
 * second one a replica has noticed that its connection to the API server is dead, and has read everything again.
 */
const LAGS_MS = [20_000, 180_000] as const;

/** Sections that agents do not read, or read by other means. */
const UNREAD: ReadonlySet<Section> = new Set(['version', 'reboot', 'deleteNode', 'prune', 'routerChanged']);

const REMEMBERED = 4;
/** A timestamp with nanoseconds, which all parsers accept; the last six digits are the digest. */
const STAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/;

function digits(due: Digests, actions: ActionCounts): string {
  const bytes = hash('sha256', `${formatHave(due)} ${JSON.stringify(actions)}`, 'buffer');
  return String(bytes.readUIntBE(0, 6) % 1_000_000).padStart(6, '0');
}

export function createSentResponses(clock: Pick<Clock, 'wall' | 'now'>): SentResponses {
  const nodes = new Map<string, SentToNode>();
  let last = 0;

  function nextStamp(due: Digests, actions: ActionCounts): string {
    last = Math.max(clock.wall(), last + 1);
    return new Date(last).toISOString().replace('Z', `${digits(due, actions)}Z`);
  }

  function nodeOf(uuid: string) {
    const node = nodes.get(uuid) ?? makeNode();
    nodes.set(uuid, node);
    return node;
  }

  function acknowledgedBy({ acknowledged }: SentToNode): Digests {
    const now = clock.now();
    return Object.fromEntries(
      [...acknowledged].flatMap(([section, { digest, until }]) => (now < until ? [[section, digest]] : [])),
    );
  }

  /** Until when a section that another replica sends now may be from before it became due here. */
  function untilOf(node: SentToNode): number {
    return LAGS_MS.map((ms) => node.since + ms).find((end) => clock.now() < end) ?? FOR_GOOD;
  }

  function look(node: SentToNode, due: Digests) {
    if (node.changes > 0 || differ(due, node.due)) {
      const soon = clock.now() + LAGS_MS[0];
      for (const [section, { digest, until }] of node.acknowledged) {
        if (digest !== due[section]) node.acknowledged.delete(section);
        // What changed twice may have changed back, and was perhaps read in between from another replica.
        else if (node.changes > 1 && !UNREAD.has(section))
          node.acknowledged.set(section, { digest, until: Math.min(until, soon) });
      }
      Object.assign(node, { due, since: clock.now(), changes: 0 });
    }
  }

  function acknowledge(node: SentToNode, section: Section, digest: string, until: number) {
    const known = node.acknowledged.get(section);
    const knownUntil = known?.digest === digest ? known.until : 0;
    node.acknowledged.set(section, { digest, until: UNREAD.has(section) ? FOR_GOOD : Math.max(until, knownUntil) });
  }

  return {
    acknowledged: (uuid) => acknowledgedBy(nodes.get(uuid) ?? NO_NODE),
    everAcknowledged(uuid, section, digest) {
      const known = nodes.get(uuid)?.acknowledged.get(section);
      return known !== undefined && known.digest === digest;
    },
    add(uuid, due, actions, later = []) {
      const node = nodeOf(uuid);
      look(node, due);
      const has = acknowledgedBy(node);
      const unread = SECTIONS.filter((section) => (due[section] ?? '') !== (has[section] ?? ''));
      const flagged = unread.filter((section) => !later.includes(section));
      const until = untilOf(node);
      const latest = node.responses.at(-1);
      const isAlike = latest?.until === until && !differ(due, latest.due) && isDeepStrictEqual(flagged, latest.flagged);
      if (isAlike) return latest.stamp;
      // Another replica cannot know what is left out here: its own response is another one then.
      const told = Object.entries(due).filter(([section]) => {
        const is = section as Section;
        return flagged.includes(is) || !unread.includes(is);
      });
      const stamp = nextStamp(Object.fromEntries(told), actions);
      node.responses.push({ stamp, due, actions, flagged, until });
      if (node.responses.length > REMEMBERED) node.responses.shift();
      return stamp;
    },
    addSections(uuid, digests, sections) {
      const node = nodeOf(uuid);
      const added = Object.fromEntries(sections.map((section) => [section, digests[section] ?? '']));
      node.sent = { ...node.sent, ...added };
    },
    acknowledge(uuid, stamp, now) {
      const node = nodeOf(uuid);
      const at = node.responses.findIndex((response) => response.stamp === stamp);
      const response = node.responses[at];
      if (response) {
        const { due, flagged, until, actions } = response;
        for (const section of flagged) acknowledge(node, section, due[section] ?? '', until);
        // A response that is older than an acknowledged one can no longer be acknowledged.
        node.responses.splice(0, at);
        return actions;
      }
      if (!STAMP.test(stamp) || !stamp.endsWith(`${digits(now.due, now.actions)}Z`)) return undefined;
      look(node, now.due);
      const until = untilOf(node);
      for (const section of SECTIONS) {
        const digest = now.due[section];
        if (!digest) continue;
        // When it was read is not known, so that it counts for a while only.
        const isLikely = until < FOR_GOOD && (node.sent[section] ?? digest) === digest;
        if (UNREAD.has(section) || isLikely) acknowledge(node, section, digest, until);
      }
      return now.actions;
    },
    repeat(uuid, section, ms) {
      const node = nodeOf(uuid);
      const now = clock.now();
      if (now - node.repeatedAt < ms / 2) return;
      node.repeatedAt = now;
      node.acknowledged.delete(section);
    },
    noteChange(uuids) {
      for (const uuid of uuids) {
        const node = nodes.get(uuid);
        if (node) node.changes++;
      }
    },
    forget: (uuid) => void nodes.delete(uuid),
  };
}

const FOR_GOOD = Number.POSITIVE_INFINITY;

const makeNode = (): SentToNode => ({
  ...{ responses: [], acknowledged: new Map(), sent: {} },
  ...{ due: {}, since: 0, changes: 0, repeatedAt: Number.NEGATIVE_INFINITY },
});
const NO_NODE = makeNode();
