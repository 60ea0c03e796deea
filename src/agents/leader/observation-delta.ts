import type { Observation } from '../../rules/inputs.ts';
import { joinSentLists } from '../../subjects/nodes/rules/sent-list.ts';
import type { ObservationDelta } from '../channel/dependencies.ts';
import { type MergeReport, sentListOf, waitAfter } from './observations.ts';

/** Bytes of a delta without a report. */
export const CONTACT_BYTES = 512;

export const bytesOf = (delta: ObservationDelta) => {
  const { report, sentRevisions, settings } = delta;
  return report || sentRevisions || settings
    ? CONTACT_BYTES + JSON.stringify([report, sentRevisions, settings]).length
    : CONTACT_BYTES;
};

/** The contact alone, without what the agent reported. */
export function contactOf({
  report: _,
  reportedAt: __,
  settings: ___,
  sentRevisions: ____,
  listedAt: _____,
  ...contact
}: ObservationDelta): ObservationDelta {
  return contact;
}

export function mergeDeltas(
  older: ObservationDelta,
  newer: ObservationDelta,
  mergeReport: MergeReport,
): ObservationDelta {
  const report =
    older.report && newer.report ? mergeReport(older.report, newer.report) : (newer.report ?? older.report);
  const reportedAt = newer.reportedAt ?? older.reportedAt;
  const hasList = (older.sentRevisions ?? newer.sentRevisions) !== undefined;
  const restored = newer.restored ?? older.restored;
  // A later report with a config has all settings.
  const settings = { ...(newer.report?.config ? {} : older.settings), ...newer.settings };
  return {
    ...newer,
    waitSeconds: waitAfter(older, newer),
    ...(older.isReset && { isReset: true as const }),
    ...(report && { report }),
    ...(reportedAt !== undefined && { reportedAt }),
    ...(hasList && joinSentLists(sentListOf(older), sentListOf(newer))),
    ...(restored !== undefined && { restored }),
    ...(Object.keys(settings).length > 0 && { settings }),
  };
}

/** The observation of a former leader, as a delta for the next leader. */
export function deltaOf(uuid: string, observation: Observation): ObservationDelta {
  const { report, reportedAt, contactAt = 0, waitSeconds, agent, instances, restored } = observation;
  const { sentRevisions, listedAt } = observation;
  const latest = Object.entries(instances).sort(([, a], [, b]) => b.seenAt - a.seenAt)[0];
  return {
    uuid,
    contactAt,
    waitSeconds,
    ...(agent !== undefined && { agent }),
    ...(latest && { instance: latest[0].split('#')[0], boot: latest[1].boot }),
    ...(reportedAt !== undefined && { report, reportedAt }),
    ...(restored !== undefined && { restored }),
    ...(listedAt !== undefined && { sentRevisions, listedAt }),
  };
}
