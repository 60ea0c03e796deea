import type { Observation } from '../../rules/inputs.ts';
import { joinSentLists, type SentList, withStoredTimes } from '../../subjects/nodes/rules/sent-list.ts';
import type { StatusReport } from '../../wire/agent.ts';
import type { ObservationDelta, Observations } from '../channel/dependencies.ts';
import { createAgentInstances } from './agent-instances.ts';

export type MergeReport = (known: StatusReport, delta: StatusReport) => StatusReport;

/** The observations of the leader, in memory. `clear` before it leads again: other replicas have observed more since. */
export function createObservations(mergeReport: MergeReport): Observations & { clear(): void } {
  const nodes = new Map<string, Observation>();
  const agentInstances = createAgentInstances();
  const listeners = new Set<Parameters<Observations['subscribe']>[0]>();

  /** A delta may be older than the known observation, since each replica sends its own. */
  function merged(known: Observation | undefined, delta: ObservationDelta): Observation {
    const before = delta.isReset ? undefined : known;
    const isLatest = delta.contactAt >= (before?.contactAt ?? 0);
    const agent = isLatest ? delta.agent : before?.agent;
    const restored = (isLatest ? delta.restored : undefined) ?? before?.restored;
    const reportedAt = latest(before?.reportedAt, delta.reportedAt);
    return {
      report: reportAfter(before, delta),
      ...(reportedAt !== undefined && { reportedAt }),
      contactAt: Math.max(delta.contactAt, before?.contactAt ?? 0),
      waitSeconds: before ? waitAfter(before, delta) : delta.waitSeconds,
      ...(agent !== undefined && { agent }),
      ...(restored && { restored }),
      instances: agentInstances.after(before?.instances ?? {}, delta),
      ...joinSentLists(before ? listIn(before) : NO_LIST, withStoredTimes(sentListOf(delta))),
    };
  }

  function reportAfter(
    before: Observation | undefined,
    { report, reportedAt, settings }: ObservationDelta,
  ): StatusReport {
    const known = before?.report ?? {};
    const isLate = (reportedAt ?? Number.POSITIVE_INFINITY) < (before?.reportedAt ?? 0);
    const merged = !report ? known : isLate ? mergeReport(report, known) : mergeReport(known, report);
    return settings ? { ...merged, config: { ...merged.config, ...settings } } : merged;
  }

  return {
    get: (uuid) => nodes.get(uuid),
    entries: () => nodes.entries(),
    observe(delta) {
      const before = nodes.get(delta.uuid);
      const now = merged(before, delta);
      nodes.set(delta.uuid, now);
      for (const listener of listeners) listener(delta.uuid, now, before);
    },
    forget(uuid) {
      nodes.delete(uuid);
      agentInstances.forget(uuid);
    },
    clear: () => nodes.clear(),
    subscribe(listener) {
      const own: typeof listener = (uuid, now, before) => listener(uuid, now, before);
      listeners.add(own);
      return { [Symbol.dispose]: () => void listeners.delete(own) };
    },
  };
}

const latest = (a: number | undefined, b: number | undefined) =>
  a === undefined || b === undefined ? (a ?? b) : Math.max(a, b);

/**
 * Seconds from the later contact to the end of the last long poll: during a long poll at one replica, other requests of the
 * agent may reach another replica.
 */
export function waitAfter(
  a: { contactAt?: number; waitSeconds: number },
  b: { contactAt?: number; waitSeconds: number },
): number {
  const end = ({ contactAt = 0, waitSeconds }: typeof a) => contactAt + waitSeconds * 1000;
  const contactAt = Math.max(a.contactAt ?? 0, b.contactAt ?? 0);
  return Math.max(0, Math.ceil((Math.max(end(a), end(b)) - contactAt) / 1000));
}

const NO_LIST: SentList = { sentRevisions: {} };

const listIn = ({ sentRevisions, listedAt }: Observation): SentList =>
  listedAt === undefined ? NO_LIST : { sentRevisions, listedAt };

/** A replica of an earlier version does not name the time of the list, which is at most that of the contact. */
export const sentListOf = ({ sentRevisions, listedAt, contactAt }: ObservationDelta): SentList =>
  sentRevisions ? { sentRevisions, listedAt: listedAt ?? contactAt } : NO_LIST;
