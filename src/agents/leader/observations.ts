import { latestTold } from '../../domain/edge-node/report.ts';
import type { Observation, Told } from '../../domain/inputs.ts';
import type { StatusReport } from '../../wire/index.ts';
import type { NodeNews, Observations } from '../dependencies.ts';
import { createSpeakers } from './agent-instances.ts';

export type MergeReport = (known: StatusReport, delta: StatusReport) => StatusReport;

/** The memory of the leader. `clear` before it leads again: others have heard more meanwhile. */
export function createObservations(mergeReport: MergeReport): Observations & { clear(): void } {
  const nodes = new Map<string, Observation>();
  const speakers = createSpeakers();
  const listeners = new Set<Parameters<Observations['subscribe']>[0]>();

  /** News may be older than what is known already: replicas report on their own. */
  function heard(known: Observation | undefined, news: NodeNews): Observation {
    const before = news.anew ? undefined : known;
    const isLatest = news.contactAt >= (before?.contactAt ?? 0);
    const agent = isLatest ? news.agent : before?.agent;
    const restored = (isLatest ? news.restored : undefined) ?? before?.restored;
    const reportedAt = latest(before?.reportedAt, news.reportedAt);
    return {
      report: reportAfter(before, news),
      ...(reportedAt !== undefined && { reportedAt }),
      contactAt: Math.max(news.contactAt, before?.contactAt ?? 0),
      holdSeconds: before ? holdAfter(before, news) : news.holdSeconds,
      ...(agent !== undefined && { agent }),
      ...(restored && { restored }),
      instances: speakers.after(before?.instances ?? {}, news),
      handedOut: mergeHandedOut(before?.handedOut, news.handedOut) ?? {},
    };
  }

  function reportAfter(before: Observation | undefined, { report, reportedAt, settings }: NodeNews): StatusReport {
    const known = before?.report ?? {};
    const isLate = (reportedAt ?? Number.POSITIVE_INFINITY) < (before?.reportedAt ?? 0);
    const merged = !report ? known : isLate ? mergeReport(report, known) : mergeReport(known, report);
    return settings ? { ...merged, config: { ...merged.config, ...settings } } : merged;
  }

  return {
    get: (uuid) => nodes.get(uuid),
    entries: () => nodes.entries(),
    hear(news) {
      const before = nodes.get(news.uuid);
      const now = heard(before, news);
      nodes.set(news.uuid, now);
      for (const listener of listeners) listener(news.uuid, now, before);
    },
    forget(uuid) {
      nodes.delete(uuid);
      speakers.forget(uuid);
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
 * Seconds from the later contact to the end of the hold that lasts longest: while a poll is held at one replica, other
 * requests reach another.
 */
export function holdAfter(
  a: { contactAt?: number; holdSeconds: number },
  b: { contactAt?: number; holdSeconds: number },
): number {
  const end = ({ contactAt = 0, holdSeconds }: typeof a) => contactAt + holdSeconds * 1000;
  const contactAt = Math.max(a.contactAt ?? 0, b.contactAt ?? 0);
  return Math.max(0, Math.ceil((Math.max(end(a), end(b)) - contactAt) / 1000));
}

type HandedOut = Observation['handedOut'];

/** The newer list holds; what was handed out before keeps the time at which it first was. */
export function mergeHandedOut(before: HandedOut | undefined, after: HandedOut | undefined): HandedOut | undefined {
  if (!before || !after) return after ?? before;
  const merged: Record<string, Told> = {};
  for (const [uuid, given] of Object.entries(after)) merged[uuid] = latestTold(before[uuid], given) ?? given;
  return merged;
}
